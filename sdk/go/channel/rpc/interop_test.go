package rpc

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sealway.dev/go/channel"
	"sealway.dev/go/channel/relay"
)

// peerBinary builds the endpoint of v1 that tests of the whole project use. It was written from the wire's description alone.
func peerBinary(t *testing.T) string {
	t.Helper()
	into := filepath.Join(t.TempDir(), "channel_peer")
	build := exec.Command("go", "build", "-o", into, ".")
	build.Dir = "../../../../tests/channel_peer"
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("channel_peer does not build: %v\n%s", err, said)
	}
	return into
}

func info(t *testing.T, suite uint16, url string) (path string, made *relay.DirectInfo) {
	t.Helper()
	text, _ := json.Marshal(map[string]any{
		"ws_url": url, "channel_id": "direct", "e2ee_psk_b64u": base64.RawURLEncoding.EncodeToString(make([]byte, 32)),
		"default_suite": suite, "channel_init_expire_at_unix_s": time.Now().Unix() + 60,
	})
	path = filepath.Join(t.TempDir(), "direct.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	made, err := relay.ParseDirectInfo(text)
	if err != nil {
		t.Fatal(err)
	}
	return path, made
}

func TestCallsToAndFromAnEndpointOfV1(t *testing.T) {
	binary := peerBinary(t)
	for _, suite := range []uint16{1, 2} {
		callItsServer(t, binary, suite)
		answerItsClient(t, binary, suite)
	}
}

func callItsServer(t *testing.T, binary string, suite uint16) {
	t.Helper()
	path, direct := info(t, suite, "ws://127.0.0.1:1/ws")
	peer := exec.Command(binary, "--role", "server", "--direct", path, "--job", "serve")
	output, err := peer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := peer.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = peer.Process.Kill(); _ = peer.Wait() }()
	line, _ := bufio.NewReader(output).ReadBytes('\n')
	var said struct {
		URL string `json:"ws_url"`
	}
	if json.Unmarshal(line, &said) != nil {
		t.Fatalf("it says %q", line)
	}
	direct.URL = said.URL
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	on, err := channel.Dial(ctx, direct, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = on.Close() }()
	var told atomic.Int64
	calls, err := Open(ctx, on, &Handlers{Notifications: map[uint32]Listener{2: func(json.RawMessage) { told.Add(1) }}})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for number := range 50 {
		all.Go(func() {
			var got int
			if err := calls.Call(ctx, 1, number, &got); err != nil || got != number {
				t.Errorf("%d: %d: %v", number, got, err)
			}
		})
	}
	all.Wait()
	if told.Load() != 50 {
		t.Errorf("%d notifications came", told.Load())
	}
	var failure *Failure
	if err := calls.Call(ctx, 6, nil, nil); !errors.As(err, &failure) || failure.Code != 1234 {
		t.Error(err)
	}
	if err := calls.Call(ctx, 77, nil, nil); err != nil && code(t, err) != "handler_not_found" {
		t.Error(err)
	}
	if err := calls.Call(ctx, 9, "nonsense first", nil); err != nil {
		t.Error("a frame that is no envelope was not passed over:", err)
	}
	if err := calls.Call(ctx, 8, nil, nil); err != nil {
		t.Error("its direction gets another key:", err)
	}
	if err := calls.Call(ctx, 1, strings.Repeat("x", 1000_000), nil); err != nil {
		t.Error("a frame of nearly 1 MiB:", err)
	}
}

func answerItsClient(t *testing.T, binary string, suite uint16) {
	t.Helper()
	var direct *relay.DirectInfo
	ready := make(chan struct{})
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		<-ready
		on, err := channel.Accept(answer, request, direct, nil)
		if err != nil {
			t.Error(err)
			return
		}
		_ = Serve(ctx, on, &Handlers{Requests: map[uint32]Handler{1: func(ctx context.Context, request *Request) (any, error) {
			return request.Payload, request.Peer.Notify(ctx, 2, map[string]bool{"first": true})
		}}}, nil)
	}))
	defer server.Close()
	path, made := info(t, suite, "ws"+strings.TrimPrefix(server.URL, "http")+"/ws")
	direct = made
	close(ready)
	said, err := exec.CommandContext(ctx, binary, "--role", "client", "--direct", path, "--job", "rpc", "--calls", "20").Output()
	if err != nil || !strings.Contains(string(said), `"ok":true`) {
		t.Errorf("suite %d: %s: %v", suite, said, err)
	}
}

func TestCallsOverAChannelEndWithIt(t *testing.T) {
	_, direct := info(t, 0x104, "ws://127.0.0.1:1")
	taken := make(chan *channel.Channel, 1)
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		on, err := channel.Accept(answer, request, direct, nil)
		if err != nil {
			t.Error(err)
			return
		}
		taken <- on
		_ = Serve(context.Background(), on, &Handlers{Requests: map[uint32]Handler{
			1: func(ctx context.Context, _ *Request) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
		}}, nil)
	}))
	defer server.Close()
	direct.URL = "ws" + strings.TrimPrefix(server.URL, "http")
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	on, err := channel.Dial(ctx, direct, nil)
	if err != nil {
		t.Fatal(err)
	}
	calls, err := Open(ctx, on, nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := on.Open(ctx, "unknown")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(other); !errors.Is(err, &channel.Error{Code: "broken_off"}) {
		t.Error("a kind that is not served is reset:", err)
	}
	peer := <-taken
	time.AfterFunc(50*time.Millisecond, func() { _ = peer.CloseWith(3, "enough") })
	err = calls.Call(ctx, 1, nil, nil)
	if code(t, err) != "transport_error" || !errors.Is(err, &channel.Error{Code: "ended"}) {
		t.Error(err)
	}
	if told, reason, said := on.PeerClose(); told != 3 || reason != "enough" || !said {
		t.Error(told, reason, said)
	}
}
