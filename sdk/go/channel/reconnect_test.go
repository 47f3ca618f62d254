package channel_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"sealway.dev/go/channel"
	"sealway.dev/go/channel/relay"
	"sealway.dev/go/channel/rpc"
)

const (
	typeEcho  = 1
	typeStuck = 2
)

// A call is never sent again by itself: nobody knows whether it was handled.
func TestACallFailsWhenTheRelayIsLostAndTheNextUsesANewChannel(t *testing.T) {
	ground := channel.NewGround(t)
	quick := channel.Backoff{First: 20 * time.Millisecond, Max: 200 * time.Millisecond}
	ctx, stop := context.WithTimeout(t.Context(), 40*time.Second)
	defer stop()
	var stuck atomic.Int64
	begun, ended := make(chan struct{}, 8), make(chan struct{}, 8)
	handlers := &rpc.Handlers{Requests: map[uint32]rpc.Handler{
		typeEcho: func(_ context.Context, request *rpc.Request) (any, error) { return request.Payload, nil },
		typeStuck: func(ctx context.Context, _ *rpc.Request) (any, error) {
			stuck.Add(1)
			begun <- struct{}{}
			<-ctx.Done()
			ended <- struct{}{}
			return nil, ctx.Err()
		},
	}}
	serving, err := channel.NewControl(ground.Control(), "calls", relay.Server, ground.Token(), nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := channel.NewListener(serving, nil, quick)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			on, err := listener.Accept(ctx)
			if err != nil {
				return
			}
			go func() { _ = rpc.Serve(ctx, on, handlers, nil) }()
		}
	}()
	asking, err := channel.NewControl(ground.Control(), "calls", relay.Client, ground.Token(), nil)
	if err != nil {
		t.Fatal(err)
	}
	connector, err := channel.NewConnector(asking, &channel.Options{PeerTimeout: 2 * time.Second}, quick)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connector.Close() }()

	calls := callsOver(t, ctx, connector)
	failed := make(chan error, 1)
	go func() { failed <- calls.Call(ctx, typeStuck, nil, nil) }()
	<-begun
	ground.StopRelay()
	select {
	case err := <-failed:
		var why *channel.Error
		if !errors.Is(err, &rpc.Error{Code: "transport_error"}) || !errors.As(err, &why) || !why.IsPassing() {
			t.Errorf("a call under way: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("a call under way goes on waiting")
	}
	if err := calls.Call(ctx, typeEcho, 1, nil); !errors.Is(err, &rpc.Error{Code: "transport_error"}) {
		t.Errorf("a call over what is over: %v", err)
	}
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("its handler was not told")
	}

	ground.StartRelay()
	var got int
	if err := callsOver(t, ctx, connector).Call(ctx, typeEcho, 7, &got); err != nil || got != 7 {
		t.Errorf("%d: %v", got, err)
	}
	if stuck.Load() != 1 {
		t.Errorf("the call was made %d times", stuck.Load())
	}
}

func callsOver(t *testing.T, ctx context.Context, connector *channel.Connector) *rpc.Peer {
	t.Helper()
	on, err := connector.Channel(ctx)
	if err != nil {
		t.Fatal(err)
	}
	calls, err := rpc.Open(ctx, on, nil)
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

// Requests that wait for room are not read, and nor is the end of the stream behind them.
func TestQueuedRequestsDoNotHideTheEndOfTheChannel(t *testing.T) {
	client, server := channel.Pair(t, 0x104)
	begun, ended := make(chan struct{}, 8), make(chan struct{}, 8)
	handlers := &rpc.Handlers{AtOnce: 1, Requests: map[uint32]rpc.Handler{
		typeStuck: func(ctx context.Context, _ *rpc.Request) (any, error) {
			begun <- struct{}{}
			<-ctx.Done()
			ended <- struct{}{}
			return nil, ctx.Err()
		},
	}}
	serving := make(chan *rpc.Peer, 1)
	go func() {
		stream, err := server.Accept(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		serving <- rpc.Over(stream, handlers)
	}()
	calls, err := rpc.Open(t.Context(), client, nil)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 3)
	for range 3 {
		go func() { failed <- calls.Call(t.Context(), typeStuck, nil, nil) }()
	}
	<-begun
	time.Sleep(100 * time.Millisecond)
	client.Cut()
	for range 3 {
		if err := <-failed; !errors.Is(err, &rpc.Error{Code: "transport_error"}) {
			t.Error(err)
		}
	}
	select {
	case <-(<-serving).Done():
		<-ended
	case <-time.After(5 * time.Second):
		t.Error("a side with more to do than it may does not hear that the channel is over")
	}
}
