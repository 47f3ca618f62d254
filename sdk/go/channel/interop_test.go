package channel

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sealway.dev/go/channel/relay"
)

func randomBytes(length int) []byte {
	made := make([]byte, length)
	_, _ = rand.Read(made)
	return made
}

// Each suite over the real relay, with this end in either role and the Rust one in the other.
func TestRustAndGoCarryBytesOverARelayInEitherRoleAndProfile(t *testing.T) {
	ground := newGround(t)
	type setting struct {
		name  string
		flags []string
	}
	settings := []setting{{"flowersec-v1, suite 1", []string{"--profile", "flowersec-v1"}},
		{"flowersec-v1, suite 2", []string{"--profile", "flowersec-v1", "--suite", "2"}}}
	for _, suite := range []int{0x100, 0x101, 0x102, 0x103, 0x104, 0x105, 0x106, 0x107} {
		settings = append(settings, setting{fmt.Sprintf("suite %#x", suite), []string{"--suite", fmt.Sprint(suite)}})
	}
	for _, one := range settings {
		for _, role := range []relay.Role{relay.Client, relay.Server} {
			t.Run(fmt.Sprintf("%s, Go is the %s", one.name, role), func(t *testing.T) {
				client, server := ground.mint(one.flags...)
				own, other := client, server
				if role == relay.Server {
					own, other = server, client
				}
				theirs := randomBytes(700 << 10)
				wait := cat(t, theirs, "--grant", write(t, t.TempDir()+"/grant.json", other))
				channel, err := attach(t, own, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = channel.Close() }()
				catOverStream(t, channel, role, theirs, wait)
			})
		}
	}
}

func TestRustAndGoReadEachOthersKeyRotationsAndPadding(t *testing.T) {
	ground := newGround(t)
	client, server := ground.mint("--suite", "261")
	theirs := randomBytes(300 << 10)
	wait := cat(t, theirs, "--pad-to", "1024", "--grant", write(t, t.TempDir()+"/grant.json", server))
	channel, err := attach(t, client, &Options{RekeyAfterRecords: 2, PadTo: 700})
	if err != nil {
		t.Fatal(err)
	}
	if took, err := channel.Ping(within(t, 10*time.Second)); err != nil || took <= 0 {
		t.Error(took, err)
	}
	catOverStream(t, channel, relay.Client, theirs, wait)
	<-channel.Done()
	if _, _, said := channel.PeerClose(); !said || !errors.Is(channel.Err(), &Error{Code: "ended"}) {
		t.Error("the other language's end was not proved:", channel.Err())
	}
}

// catOverStream is the other end of `sealway channel cat`, whose client opens the stream.
func catOverStream(t *testing.T, channel *Channel, role relay.Role, theirs []byte, wait func() ([]byte, error)) {
	t.Helper()
	var stream *Stream
	var err error
	if role == relay.Client {
		stream, err = channel.Open(within(t, 10*time.Second), "cat")
	} else {
		stream, err = channel.Accept(within(t, 10*time.Second))
	}
	if err != nil {
		t.Fatal(err)
	}
	if stream.Kind() != "cat" {
		t.Errorf("a stream of kind %q", stream.Kind())
	}
	ours := randomBytes(900 << 10)
	go func() {
		_, _ = stream.Write(ours)
		_ = stream.CloseWrite()
	}()
	got, err := io.ReadAll(stream)
	if err != nil || !bytes.Equal(got, theirs) {
		t.Errorf("%d bytes of %d came: %v", len(got), len(theirs), err)
	}
	output, err := wait()
	if err != nil || !bytes.Equal(output, ours) {
		t.Errorf("%d bytes of %d arrived: %v", len(output), len(ours), err)
	}
}

func TestPinnedKeysAgreeBetweenRustAndGoAndAnotherKeyIsRejected(t *testing.T) {
	ground := newGround(t)
	for _, suite := range []int{0x110, 0x112, 0x120, 0x127, 0x130, 0x136} {
		for _, wrong := range []bool{false, true} {
			t.Run(fmt.Sprintf("suite %#x, a stranger: %v", suite, wrong), func(t *testing.T) {
				curve, flag := X25519, "25519"
				if suite&2 != 0 {
					curve, flag = P256, "p256"
				}
				folder := t.TempDir()
				theirs := strings.TrimSpace(string(run(t, "channel", "key", folder+"/theirs", "--curve", flag)))
				mine, err := NewIdentity(curve)
				if err != nil {
					t.Fatal(err)
				}
				public, _ := mine.Public(curve)
				if wrong {
					stranger, _ := NewIdentity(curve)
					public, _ = stranger.Public(curve)
				}
				pattern := map[int]string{1: "KKpsk0", 2: "IKpsk1", 3: "XXpsk3"}[suite>>4&3]
				client, server := ground.mint("--suite", fmt.Sprint(suite), "--noise-pattern", pattern)
				wait := cat(t, []byte("theirs"), "--identity", folder+"/theirs",
					"--grant", write(t, folder+"/grant.json", pinned(t, server, public)))
				channel, err := attach(t, pinned(t, client, theirs), &Options{Identity: mine})
				if wrong {
					if err == nil {
						// KK's server refuses message 1, XX's message 3: this end hears of it as an end of the connection.
						_, err = channel.Accept(within(t, 5*time.Second))
					}
					var told *Error
					if !errors.As(err, &told) || told.Code == "timeout" {
						t.Errorf("a key that is not the pinned one: %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				catOverStream(t, channel, relay.Client, []byte("theirs"), wait)
			})
		}
	}
}

// pinned puts the peer's key into a grant, as a control plane does that knows both.
func pinned(t *testing.T, grant []byte, public string) []byte {
	t.Helper()
	var members map[string]any
	decoder := json.NewDecoder(bytes.NewReader(grant))
	decoder.UseNumber()
	if err := decoder.Decode(&members); err != nil {
		t.Fatal(err)
	}
	members["peer_static_b64u"] = public
	made, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestConnectionsAreForwardedToARustListenerAndFromARustConnector(t *testing.T) {
	ground := newGround(t)
	ground.startControl()
	target := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		_, _ = fmt.Fprintf(answer, "heard %d bytes", len(body))
	}))
	defer target.Close()
	begin(t, "channel", "listen", "--forward", "tcp://"+target.Listener.Addr().String(), "--control", ground.control,
		"--token-file", ground.path("token"), "--name", "rust")
	control, err := NewControl(ground.control, "rust", relay.Client, ground.token, nil)
	if err != nil {
		t.Fatal(err)
	}
	connector, err := NewConnector(control, nil, Backoff{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connector.Close() }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		channel, err := connector.Channel(ctx)
		if err != nil {
			return nil, err
		}
		return channel.Open(ctx, "forward")
	}}}
	var all sync.WaitGroup
	for at := range 20 {
		all.Go(func() {
			answer, err := client.Post("http://whatever/", "text/plain", bytes.NewReader(make([]byte, at*20_000)))
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = answer.Body.Close() }()
			if text, _ := io.ReadAll(answer.Body); string(text) != fmt.Sprintf("heard %d bytes", at*20_000) {
				t.Errorf("%s", text)
			}
		})
	}
	all.Wait()
	client.CloseIdleConnections()
	rustConnectsToGo(t, ground, target.Listener.Addr().String())
}

func rustConnectsToGo(t *testing.T, ground *ground, target string) {
	t.Helper()
	control, err := NewControl(ground.control, "go", relay.Server, ground.token, nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := NewListener(control, nil, Backoff{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		channel, err := listener.Accept(ctx)
		if err != nil {
			return
		}
		for {
			stream, err := channel.Accept(ctx)
			if err != nil {
				return
			}
			go carry(stream, target)
		}
	}()
	local := freeAddress()
	begin(t, "channel", "connect", "--listen", local, "--control", ground.control, "--token-file", ground.path("token"), "--name", "go")
	for attempt := range 100 {
		answer, err := http.Post("http://"+local, "text/plain", strings.NewReader("twelve bytes"))
		if err == nil {
			text, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if string(text) != "heard 12 bytes" {
				t.Errorf("%s", text)
			}
			return
		}
		if attempt == 99 {
			t.Error(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func carry(stream *Stream, target string) {
	defer func() { _ = stream.Close() }()
	connection, err := net.Dial("tcp", target)
	if err != nil {
		stream.Reset()
		return
	}
	defer func() { _ = connection.Close() }()
	go func() {
		_, _ = io.Copy(connection, stream)
		_ = connection.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(stream, connection)
	_ = stream.CloseWrite()
}

func TestAConnectorReconnectsAfterTheRelayWasAway(t *testing.T) {
	ground := newGround(t)
	ground.startControl()
	peers := make(chan *Channel, 8)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	quick := Backoff{First: 20 * time.Millisecond, Max: 200 * time.Millisecond}
	control, err := NewControl(ground.control, "back", relay.Server, ground.token, nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := NewListener(control, nil, quick)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			channel, err := listener.Accept(ctx)
			if err != nil {
				return
			}
			echo(t, channel)
			peers <- channel
		}
	}()
	asks, err := NewControl(ground.control, "back", relay.Client, ground.token, nil)
	if err != nil {
		t.Fatal(err)
	}
	connector, err := NewConnector(asks, &Options{PeerTimeout: 2 * time.Second}, quick)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		channel, err := connector.Channel(within(t, 20*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := channel.Ping(within(t, 5*time.Second)); err != nil || channel.RTT() <= 0 {
			t.Error(round, err)
		}
		<-peers
		if round == 0 {
			ground.stopRelay()
			<-channel.Done()
			if channel.Err() == nil {
				t.Error("it ended for no reason")
			}
			ground.startRelay()
		}
	}
	if bad, _ := NewControl(ground.control, "back", relay.Client, "another token", nil); bad != nil {
		if _, err := bad.Next(ctx); !errors.Is(err, &Error{Code: "unauthorized"}) {
			t.Error(err)
		}
	}
}

func TestTheRelaysCloseReasonIsTheErrorCode(t *testing.T) {
	ground := newGround(t)
	client, server := ground.mint()
	done := make(chan error, 1)
	go func() {
		channel, err := attach(t, server, nil)
		if err == nil {
			<-channel.Done()
		}
		done <- err
	}()
	channel, err := attach(t, client, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = attach(t, client, nil)
	if !errors.Is(err, &Error{Stage: StageAttach, Code: "token_replay"}) {
		t.Error("a token twice:", err)
	}
	if err := channel.CloseWith(7, "enough"); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	forged := bytes.Replace(client, []byte("FST1.e"), []byte("FST1.f"), 1)
	if _, err = attach(t, forged, nil); err == nil || strings.Contains(err.Error(), "FST1") {
		t.Error("a forged token:", err)
	}
}
