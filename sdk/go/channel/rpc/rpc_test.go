package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sealway.dev/go/channel/rpc/frame"
)

func ends(t *testing.T, ofClient, ofServer *Handlers) (client, server *Peer) {
	t.Helper()
	one, other := net.Pipe()
	client, server = Over(one, ofClient), Over(other, ofServer)
	t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	return client, server
}

func code(t *testing.T, err error) string {
	t.Helper()
	var told *Error
	if !errors.As(err, &told) {
		t.Fatalf("not an *Error: %v", err)
	}
	return told.Code
}

func TestConcurrentCallsEachGetTheirOwnAnswer(t *testing.T) {
	var most, now atomic.Int64
	handlers := &Handlers{Requests: map[uint32]Handler{1: func(_ context.Context, request *Request) (any, error) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		time.Sleep(20 * time.Millisecond)
		var number int
		if err := request.Read(&number); err != nil {
			return nil, err
		}
		return number * 2, nil
	}}}
	client, _ := ends(t, nil, handlers)
	var all sync.WaitGroup
	for number := range 100 {
		all.Go(func() {
			var got int
			if err := client.Call(context.Background(), 1, number, &got); err != nil || got != number*2 {
				t.Errorf("%d: %d: %v", number, got, err)
			}
		})
	}
	all.Wait()
	if most.Load() < 10 {
		t.Errorf("at most %d at once", most.Load())
	}
}

func TestBothSidesCallAndNotify(t *testing.T) {
	heard := make(chan string, 1)
	client, _ := ends(t, &Handlers{
		Requests:      map[uint32]Handler{7: func(context.Context, *Request) (any, error) { return "from the client", nil }},
		Notifications: map[uint32]Listener{2: func(payload json.RawMessage) { heard <- string(payload) }},
	}, &Handlers{Requests: map[uint32]Handler{1: func(ctx context.Context, request *Request) (any, error) {
		if err := request.Peer.Notify(ctx, 2, "news"); err != nil {
			return nil, err
		}
		var got string
		err := request.Peer.Call(ctx, 7, nil, &got)
		return got, err
	}}})
	var got string
	if err := client.Call(context.Background(), 1, nil, &got); err != nil || got != "from the client" {
		t.Fatalf("%q: %v", got, err)
	}
	if news := <-heard; news != `"news"` {
		t.Error(news)
	}
}

func TestEachFailureOfACallHasAStableCode(t *testing.T) {
	client, server := ends(t, &Handlers{FrameMax: 1 << 20}, &Handlers{FrameMax: 4096, Requests: map[uint32]Handler{
		1: func(context.Context, *Request) (any, error) { return nil, NewFailure(FirstOwn, "own") },
		2: func(context.Context, *Request) (any, error) { return nil, errors.New("SECRET") },
		3: func(context.Context, *Request) (any, error) { panic("SECRET") },
		4: func(context.Context, *Request) (any, error) { return strings.Repeat("x", 5000), nil },
		5: func(_ context.Context, request *Request) (any, error) { return nil, request.Read(new(int)) },
		6: func(ctx context.Context, _ *Request) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
	}})
	for typeID, want := range map[uint32]struct {
		code   string
		number uint32
	}{
		1: {"rpc_error", 1000}, 2: {"rpc_error", 500}, 3: {"rpc_error", 500}, 4: {"rpc_error", 413}, 5: {"rpc_error", 400},
		9: {"handler_not_found", 404},
	} {
		err := client.Call(context.Background(), typeID, "text", nil)
		var failure *Failure
		if code(t, err) != want.code || !errors.As(err, &failure) || failure.Code != want.number {
			t.Errorf("%d: %v", typeID, err)
		}
		if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("a reason was told: %v", err)
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	// Both ends look at their own clock: either may be first to say it.
	var failure *Failure
	err := client.Call(ctx, 6, nil, nil)
	if code(t, err) != "rpc_timeout" && (!errors.As(err, &failure) || failure.Code != DeadlineExceeded) {
		t.Error(err)
	}
	if err = client.Call(context.Background(), 1, strings.Repeat("x", 2<<20), nil); code(t, err) != "rpc_too_large" {
		t.Error(err)
	}
	_ = server.Close()
	if err = client.Call(context.Background(), 1, nil, nil); code(t, err) != "transport_error" {
		t.Error(err)
	}
}

func TestACancelledCallEndsItsHandler(t *testing.T) {
	ended := make(chan error, 1)
	client, _ := ends(t, nil, &Handlers{Requests: map[uint32]Handler{1: func(ctx context.Context, _ *Request) (any, error) {
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}}})
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(30*time.Millisecond, cancel)
	if err := client.Call(ctx, 1, nil, nil); code(t, err) != "rpc_timeout" || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the handler was not ended")
	}
}

func TestRequestsBeyondTheConcurrencyBoundWait(t *testing.T) {
	var most, now atomic.Int64
	client, _ := ends(t, nil, &Handlers{AtOnce: 2, Requests: map[uint32]Handler{1: func(context.Context, *Request) (any, error) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		time.Sleep(5 * time.Millisecond)
		return nil, nil
	}}})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := client.Call(context.Background(), 1, nil, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if most.Load() > 2 {
		t.Errorf("%d at once", most.Load())
	}
}

func TestAHostilePeerEndsOnlyItsOwnStream(t *testing.T) {
	malformed, _ := frame.Append(nil, []byte(`{"request_id":-1}`), frame.Max)
	for name, bytesOf := range map[string][]byte{
		"a length beyond the bound": []byte("\xff\xff\xff\xff"),
		"malformed frames in a row": bytes.Repeat(malformed, malformedMax),
	} {
		one, other := net.Pipe()
		peer := Over(one, nil)
		go func() { _, _ = other.Write(bytesOf) }()
		go func() { _, _ = io.Copy(io.Discard, other) }()
		select {
		case <-peer.Done():
		case <-time.After(5 * time.Second):
			t.Errorf("%s: it goes on", name)
		}
	}
	one, other := net.Pipe()
	peer := Over(one, nil)
	fine, _ := (&frame.Envelope{Kind: frame.Notification}).Append(nil, frame.Max)
	stray, _ := (&frame.Envelope{Kind: frame.Answer, ID: 99}).Append(nil, frame.Max)
	go func() {
		for range 40 {
			_, _ = other.Write(append(append(bytes.Clone(malformed), fine...), stray...))
		}
	}()
	go func() { _, _ = io.Copy(io.Discard, other) }()
	select {
	case <-peer.Done():
		t.Error("single malformed frames ended it:", peer.Err())
	case <-time.After(100 * time.Millisecond):
	}
	_ = peer.Close()
}

// The end of a handler ends its context too: that must not pass for the end of its time.
func TestAnAnswerThatHasArrivedIsNotATimeout(t *testing.T) {
	handlers := (&Handlers{Requests: map[uint32]Handler{1: func(context.Context, *Request) (any, error) { return 1, nil }}}).filled()
	minute := uint32(60_000)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5000 {
				answer, _ := handlers.answer(t.Context(), &frame.Envelope{Kind: frame.Request, ID: 1, TypeID: 1, TimeoutMS: &minute}, nil)
				if answer == nil || answer.Failure != nil {
					t.Errorf("%+v", answer.Failure)
					return
				}
			}
		})
	}
	all.Wait()
}
