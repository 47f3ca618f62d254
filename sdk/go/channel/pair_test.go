package channel

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sealway.dev/go/channel/protocol"
	"sealway.dev/go/channel/relay"
)

func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), limit)
	t.Cleanup(stop)
	return ctx
}

func directInfo(suite uint16) *relay.DirectInfo {
	info := &relay.DirectInfo{ChannelID: "direct", Suite: suite, InitExpiresS: time.Now().Unix() + 60}
	_, _ = rand.Read(info.PSK[:])
	return info
}

type acceptResult struct {
	channel *Channel
	err     error
}

// serve takes up one peer, and tells its address.
func serve(t testing.TB, info *relay.DirectInfo, options *Options) <-chan acceptResult {
	t.Helper()
	taken := make(chan acceptResult, 1)
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		channel, err := Accept(answer, request, info, options)
		taken <- acceptResult{channel, err}
	}))
	t.Cleanup(server.Close)
	info.URL = "ws" + strings.TrimPrefix(server.URL, "http") + "/ws"
	return taken
}

// pair makes both ends of a channel without a relay.
func pair(t testing.TB, suite uint16, ofClient, ofServer *Options) (client, server *Channel) {
	t.Helper()
	info := directInfo(suite)
	taken := serve(t, info, ofServer)
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	client, err := Dial(ctx, info, ofClient)
	if err != nil {
		t.Fatal(err)
	}
	got := <-taken
	if got.err != nil {
		t.Fatal(got.err)
	}
	t.Cleanup(func() { _ = client.Close(); _ = got.channel.Close() })
	return client, got.channel
}

func echo(t testing.TB, channel *Channel) {
	go func() {
		for {
			stream, err := channel.Accept(context.Background())
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(stream, stream)
				_ = stream.CloseWrite()
			}()
		}
	}()
}

func everySuite() map[string]uint16 {
	made := map[string]uint16{}
	for id := range uint16(0x200) {
		if suite, err := protocol.ParseSuite(id); err == nil && !suite.HasStaticKeys() {
			made[suite.String()] = id
		}
	}
	return made
}

func TestBytesGoBothWaysWithEverySuiteThatNeedsNoStaticKey(t *testing.T) {
	for name, suite := range everySuite() {
		t.Run(name, func(t *testing.T) {
			client, server := pair(t, suite, nil, nil)
			for _, ends := range [][2]*Channel{{client, server}, {server, client}} {
				echo(t, ends[1])
				stream, err := ends[0].Open(within(t, 10*time.Second), "echo")
				if err != nil {
					t.Fatal(err)
				}
				sent := make([]byte, 300<<10)
				_, _ = rand.Read(sent)
				go func() {
					_, _ = stream.Write(sent)
					_ = stream.CloseWrite()
				}()
				got, err := io.ReadAll(stream)
				if err != nil || !bytes.Equal(got, sent) {
					t.Fatalf("%d bytes came back: %v", len(got), err)
				}
				if stream.Kind() != "echo" || stream.Version() != 1 {
					t.Error("the stream forgot what it is for")
				}
			}
		})
	}
}

// grantsFor makes the two grants of a channel with static keys, for a relay that is not there.
func settingsFor(t *testing.T, suite protocol.Suite) (client, server *protocol.Settings) {
	t.Helper()
	curve := X25519
	if suite.UsesP256() {
		curve = P256
	}
	var private [2]*Identity
	var public [2][]byte
	for at := range private {
		made, err := NewIdentity(curve)
		if err != nil {
			t.Fatal(err)
		}
		text, err := made.Public(curve)
		if err != nil {
			t.Fatal(err)
		}
		private[at] = made
		public[at], _ = base64.RawURLEncoding.DecodeString(text)
	}
	make := func(own int) *protocol.Settings {
		settings := protocol.NewSettings("c", protocol.Key{1}, suite, uint64(time.Now().Unix())+60)
		key := private[own].private
		settings.LocalStatic, settings.PeerStatic = &key, public[1-own]
		return settings
	}
	return make(0), make(1)
}

func TestEverySuiteWithStaticKeysAgreesAndChecksThePin(t *testing.T) {
	count := 0
	for id := range uint16(0x200) {
		suite, err := protocol.ParseSuite(id)
		if err != nil || !suite.HasStaticKeys() {
			continue
		}
		count++
		for _, stranger := range []bool{false, true} {
			client, server := settingsFor(t, suite)
			if stranger {
				other, _ := settingsFor(t, suite)
				client.LocalStatic = other.LocalStatic
			}
			if err := playHandshake(client, server); (err != nil) != stranger {
				t.Errorf("%s, with another key: %v: %v", suite, stranger, err)
			}
		}
	}
	t.Logf("%d suites", count)
}

func playHandshake(ofClient, ofServer *protocol.Settings) error {
	clientRandoms, err := drawRandoms(ofClient.Suite, true)
	if err != nil {
		return err
	}
	serverRandoms, err := drawRandoms(ofServer.Suite, false)
	if err != nil {
		return err
	}
	client, message, err := protocol.NewClient(ofClient, clientRandoms)
	if err != nil {
		return err
	}
	server, err := protocol.NewServer(ofServer, serverRandoms)
	if err != nil {
		return err
	}
	reader, other := server, client
	isDone := map[*protocol.Handshake]bool{}
	for message != nil {
		answer, done, err := reader.Read(message, ofClient.InitExpiresS-30)
		if err != nil {
			return err
		}
		isDone[reader] = done
		message, reader, other = answer, other, reader
	}
	if !isDone[client] || !isDone[server] {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func TestAPeerThatLeavesDuringAcceptIsReportedAsLost(t *testing.T) {
	info := directInfo(0x104)
	taken := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		over, end := context.WithCancel(request.Context())
		end()
		_, err := Accept(answer, request.WithContext(over), info, nil)
		taken <- err
	}))
	defer server.Close()
	info.URL = "ws" + strings.TrimPrefix(server.URL, "http") + "/ws"
	peer := dialRaw(t, info)
	_ = peer.ws.CloseNow()
	if code := codeOf(t, <-taken); code != "closed" {
		t.Error(code)
	}
}
