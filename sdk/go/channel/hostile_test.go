package channel

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"sealway.dev/go/channel/protocol"
	"sealway.dev/go/channel/relay"
	"sealway.dev/go/channel/rpc/frame"
)

// raw is a client that may say anything.
type raw struct {
	t      *testing.T
	ws     *websocket.Conn
	sealer *protocol.Sealer
	opener *protocol.Opener
}

func dialRaw(t *testing.T, info *relay.DirectInfo) *raw {
	t.Helper()
	ws, _, err := websocket.Dial(within(t, 5*time.Second), info.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(protocol.RecordMax)
	t.Cleanup(func() { _ = ws.CloseNow() })
	return &raw{t: t, ws: ws}
}

func (r *raw) send(message []byte) {
	// A stream that the other end closed accepts no data; the test checks the other end.
	_ = r.ws.Write(context.Background(), websocket.MessageBinary, message)
}

func (r *raw) receive() []byte {
	r.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	_, message, err := r.ws.Read(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return message
}

// shake is an honest handshake.
func (r *raw) shake(info *relay.DirectInfo) {
	r.t.Helper()
	filled := (*Options)(nil).filled()
	settings, err := ofDirect(info, &filled)
	if err != nil {
		r.t.Fatal(err)
	}
	randoms, err := drawRandoms(settings.Suite, true)
	if err != nil {
		r.t.Fatal(err)
	}
	side, message, err := protocol.NewClient(settings, randoms)
	for done := false; !done && err == nil; {
		if message != nil {
			r.send(message)
		}
		message, done, err = side.Read(r.receive(), uint64(time.Now().Unix()))
		if done && message != nil {
			r.send(message)
		}
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if r.sealer, r.opener, err = side.Records(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *raw) seal(content protocol.Content) []byte {
	r.t.Helper()
	made, err := r.sealer.Seal(nil, &content, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	return made
}

func (r *raw) data(parts ...[]byte) {
	r.send(r.seal(protocol.Content{Kind: protocol.Data, Data: bytes.Join(parts, nil)}))
}

func codeOf(t *testing.T, err error) string {
	t.Helper()
	var told *Error
	if !errors.As(err, &told) {
		t.Fatalf("not an *Error: %v", err)
	}
	return told.Code
}

func TestAHandshakeWithAHostilePeerEndsInAnErrorWithACode(t *testing.T) {
	handshakeFrame := func(magic string, kind byte, payload string) []byte {
		out := append([]byte(magic), 1, kind)
		return append(binary.BigEndian.AppendUint32(out, uint32(len(payload))), payload...)
	}
	for name, one := range map[string]struct {
		code string
		play func(*raw)
	}{
		"text":             {"unexpected_text_frame", func(r *raw) { _ = r.ws.Write(context.Background(), websocket.MessageText, []byte("{}")) }},
		"nothing but ends": {"closed", func(r *raw) { _ = r.ws.CloseNow() }},
		"a reason":         {"peer_closed", func(r *raw) { _ = r.ws.Close(1001, "peer closed") }},
		"garbage":          {"handshake_frame_invalid", func(r *raw) { r.send([]byte("hello")) }},
		"another profile":  {"handshake_frame_invalid", func(r *raw) { r.send(handshakeFrame("FSEH", 1, "{}")) }},
		"another type":     {"handshake_unexpected", func(r *raw) { r.send(handshakeFrame("SWNH", 2, "{}")) }},
		"too long":         {"handshake_too_large", func(r *raw) { r.send(handshakeFrame("SWNH", 1, strings.Repeat("x", 9000))) }},
		"10 MiB":           {"record_too_large", func(r *raw) { r.send(make([]byte, 10<<20)) }},
		"noise":            {"handshake_unauthentic", func(r *raw) { r.send(handshakeFrame("SWNH", 1, strings.Repeat("x", 1300))) }},
		"silence":          {"timeout", func(*raw) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info := directInfo(0x104)
			// Only who says nothing is waited for; what others say is read first, however slow the machine.
			options := &Options{HandshakeTimeout: 20 * time.Second}
			if one.code == "timeout" {
				options.HandshakeTimeout = 300 * time.Millisecond
			}
			taken := serve(t, info, options)
			one.play(dialRaw(t, info))
			select {
			case got := <-taken:
				if code := codeOf(t, got.err); code != one.code {
					t.Errorf("%s, not %s: %v", code, one.code, got.err)
				}
			case <-time.After(20 * time.Second):
				t.Error("it hangs")
			}
		})
	}
}

func TestAWrongSecretIsRejectedInBothProfilesAndNotPrinted(t *testing.T) {
	for _, suite := range []uint16{1, 2, 0x100, 0x104} {
		info := directInfo(suite)
		taken := serve(t, info, nil)
		other := *info
		other.PSK[0] ^= 1
		_, err := Dial(within(t, 5*time.Second), &other, nil)
		got := <-taken
		if err == nil || codeOf(t, got.err) != "handshake_unauthentic" {
			t.Errorf("suite %#x: %v, %v", suite, err, got.err)
		}
		if shown := fmt.Sprint(err, got.err); strings.Contains(shown, fmt.Sprintf("%x", info.PSK[:4])) {
			t.Error(shown)
		}
	}
}

func TestATamperedRecordEndsTheChannelWithItsCode(t *testing.T) {
	ping := protocol.Content{Kind: protocol.Ping}
	for _, suite := range []uint16{1, 0x104} {
		for name, one := range map[string]struct {
			code string
			play func(*raw)
		}{
			"changed": {"record_unsealable", func(r *raw) { message := r.seal(ping); message[len(message)-1] ^= 1; r.send(message) }},
			"replayed": {"record_replayed", func(r *raw) {
				message := r.seal(ping)
				r.send(bytes.Clone(message))
				r.send(message)
			}},
			"swapped": {"record_missing", func(r *raw) {
				first, second := r.seal(ping), r.seal(ping)
				r.send(second)
				r.send(first)
			}},
			"cut off":                 {"record_truncated", func(r *raw) { message := r.seal(ping); r.send(message[:len(message)-1]) }},
			"empty":                   {"record_truncated", func(r *raw) { r.send(nil) }},
			"no magic":                {"record_invalid", func(r *raw) { r.send(make([]byte, 100)) }},
			"2 MiB":                   {"record_too_large", func(r *raw) { r.send(make([]byte, 2<<20)) }},
			"text":                    {"unexpected_text_frame", func(r *raw) { _ = r.ws.Write(context.Background(), websocket.MessageText, nil) }},
			"no goodbye":              {"closed", func(r *raw) { _ = r.ws.CloseNow() }},
			"no frames":               {"streams_malformed", func(r *raw) { r.data(bytes.Repeat([]byte{9}, 64)) }},
			"a stream of this side's": {"streams_malformed", func(r *raw) { r.data(streamFrame(typeWindow, flagSYN, 2)) }},
			"beyond the window": {"streams_malformed", func(r *raw) {
				head := streamFrame(typeData, flagSYN, 1)
				binary.BigEndian.PutUint32(head[8:], 2<<20)
				r.data(head)
			}},
		} {
			t.Run(fmt.Sprintf("suite %#x, %s", suite, name), func(t *testing.T) {
				t.Parallel()
				info := directInfo(suite)
				taken := serve(t, info, nil)
				peer := dialRaw(t, info)
				peer.shake(info)
				got := <-taken
				if got.err != nil {
					t.Fatal(got.err)
				}
				one.play(peer)
				select {
				case <-got.channel.Done():
					if code := codeOf(t, got.channel.Err()); code != one.code {
						t.Errorf("%s, not %s: %v", code, one.code, got.channel.Err())
					}
				case <-time.After(5 * time.Second):
					t.Error("it goes on")
				}
			})
		}
	}
}

func TestAReflectedRecordHasItsOwnCodeInTheNativeProfile(t *testing.T) {
	info := directInfo(0x104)
	taken := serve(t, info, nil)
	peer := dialRaw(t, info)
	peer.shake(info)
	got := <-taken
	if err := got.channel.gate.send(&protocol.Content{Kind: protocol.Ping, Number: 3}); err != nil {
		t.Fatal(err)
	}
	peer.send(peer.receive())
	<-got.channel.Done()
	if code := codeOf(t, got.channel.Err()); code != "record_reflected" {
		t.Error(code)
	}
}

func TestAStreamBeyondThePeersBoundIsReset(t *testing.T) {
	info := directInfo(0x104)
	taken := serve(t, info, nil)
	peer := dialRaw(t, info)
	peer.shake(info)
	got := <-taken
	hello, _ := frame.Prologue{Kind: "held", Version: 1}.Encode()
	for number := range uint32(streamsMax + 3) {
		head := streamFrame(typeData, flagSYN, 1+2*number)
		binary.BigEndian.PutUint32(head[8:], uint32(len(hello)))
		// Headers and bodies in records of their own, cut anywhere, as some peers send them.
		peer.data(head[:5])
		peer.data(head[5:], hello)
	}
	for at := range streamsMax {
		if _, err := got.channel.Accept(within(t, 5*time.Second)); err != nil {
			t.Fatalf("stream %d: %v", at, err)
		}
	}
	refused := map[uint32]bool{}
	for len(refused) < 3 {
		opened, err := peer.opener.Open(peer.receive())
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; opened.Kind == protocol.Data && at+frameHeaderLen <= len(opened.Data); at += frameHeaderLen {
			if head := opened.Data[at:]; binary.BigEndian.Uint16(head[2:])&flagRST != 0 {
				refused[binary.BigEndian.Uint32(head[4:])] = true
			}
		}
	}
	for id := range refused {
		if id <= 2*streamsMax {
			t.Errorf("stream %d was within the bound", id)
		}
	}
	// A place that is free again is taken.
	peer.data(streamFrame(typeWindow, flagRST, 1))
	head := streamFrame(typeData, flagSYN, 1001)
	binary.BigEndian.PutUint32(head[8:], uint32(len(hello)))
	peer.data(head, hello)
	if _, err := got.channel.Accept(within(t, 5*time.Second)); err != nil {
		t.Error(err)
	}
}

func TestAStreamWithAMalformedPrologueIsResetAndTheChannelGoesOn(t *testing.T) {
	client, server := pair(t, 0x104, nil, nil)
	opened, err := client.session.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	bad := &Stream{stream: opened, channel: client}
	_, _ = bad.Write([]byte("\x00\x00\x00\x02{}"))
	_ = bad.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := bad.Read(make([]byte, 1)); !errors.Is(err, &Error{Code: "broken_off"}) {
		t.Error(err)
	}
	echo(t, server)
	good, err := client.Open(within(t, 5*time.Second), "echo")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = good.Write([]byte("x"))
	_ = good.CloseWrite()
	if got, err := io.ReadAll(good); err != nil || string(got) != "x" {
		t.Errorf("%q: %v", got, err)
	}
}

func TestASilentPeerEndsTheChannel(t *testing.T) {
	info := directInfo(0x104)
	taken := serve(t, info, &Options{PingEvery: 50 * time.Millisecond, SilentMax: 150 * time.Millisecond})
	peer := dialRaw(t, info)
	peer.shake(info)
	got := <-taken
	select {
	case <-got.channel.Done():
		if code := codeOf(t, got.channel.Err()); code != "peer_silent" {
			t.Error(code)
		}
	case <-time.After(5 * time.Second):
		t.Error("it goes on")
	}
}
