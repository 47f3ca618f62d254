package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"sealway.dev/go/channel"
	"sealway.dev/go/channel/rpc"
)

// Types of calls that both ends of a game answer, and the code that closes a channel.
const (
	// typeEcho answers with its payload, and notifies the caller of the number below zero meanwhile; typeRefuse answers with the
	// failure 1234, typeWait never: it waits to be taken back.
	typeEcho   = 1
	typeRefuse = 2
	typeWait   = 5
	// A notification typeHail with a number is answered by a notification typeHailed with the next.
	typeHail   = 3
	typeHailed = 4
	typeNobody = 77

	failureOfRefuse = 1234
	callsOfEach     = 20
	closeCode       = 7
	closeReason     = "enough"

	// streamsLen is what goes each way on a stream of the kind "echo": more than twice what a stream begins with.
	streamsLen = 600_000
)

// play does what each end does at the same time: it opens two streams that must come back, and one of calls both ways, and
// serves the peer's. It returns when its own are done and the peer's were served.
func play(ctx context.Context, on *channel.Channel) error {
	served := make(chan error, 1)
	go func() { served <- serveStreams(ctx, on) }()
	errs := make(chan error, 3)
	go func() { errs <- echoed(ctx, on, 0) }()
	go func() { errs <- echoed(ctx, on, streamsLen) }()
	go func() { errs <- called(ctx, on) }()
	for range 3 {
		if err := <-errs; err != nil {
			return err
		}
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		return errors.New("the peer did not open its streams, or did not end them")
	}
}

// serveStreams serves two streams to be echoed and one of calls, until each has ended.
func serveStreams(ctx context.Context, on *channel.Channel) error {
	ended := make(chan error, 3)
	for range 3 {
		stream, err := on.Accept(ctx)
		if err != nil {
			return err
		}
		switch {
		case stream.Kind() == "echo" && stream.Version() == 2:
			go func() {
				_, err := io.Copy(stream, stream)
				ended <- errors.Join(err, stream.CloseWrite())
			}()
		case stream.Kind() == rpc.KindRPC && stream.Version() == 1:
			heard := make(chan int, 64)
			calls := rpc.Over(stream, handlers(typeHail, heard))
			go func() { ended <- hail(ctx, calls, heard) }()
		default:
			return fmt.Errorf("a stream of kind %q, version %d", stream.Kind(), stream.Version())
		}
	}
	for range 3 {
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return errors.New("a stream of the peer's did not end")
		}
	}
	return nil
}

// hail answers notifications until the stream of calls has ended.
func hail(ctx context.Context, calls *rpc.Peer, heard <-chan int) error {
	for {
		select {
		case number := <-heard:
			if err := calls.Notify(ctx, typeHailed, number+1); err != nil {
				return err
			}
		case <-calls.Done():
			return nil
		}
	}
}

func echoed(ctx context.Context, on *channel.Channel, length int) error {
	stream, err := on.OpenVersion(ctx, "echo", 2)
	if err != nil {
		return err
	}
	sent := make([]byte, length)
	_, _ = rand.Read(sent)
	wrote := make(chan error, 1)
	go func() {
		_, err := stream.Write(sent)
		wrote <- errors.Join(err, stream.CloseWrite())
	}()
	got, err := io.ReadAll(stream)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, sent) {
		return fmt.Errorf("%d bytes of %d came back, or others", len(got), len(sent))
	}
	return <-wrote
}

// handlers are those of either side. heard gets the numbers of a type of notification.
func handlers(typeHeard uint32, heard chan<- int) *rpc.Handlers {
	return &rpc.Handlers{
		Requests: map[uint32]rpc.Handler{
			typeEcho: func(ctx context.Context, request *rpc.Request) (any, error) {
				var number int
				if err := request.Read(&number); err != nil {
					return nil, err
				}
				if err := request.Peer.Notify(ctx, typeHailed, -number); err != nil {
					return nil, err
				}
				return number, nil
			},
			typeRefuse: func(context.Context, *rpc.Request) (any, error) {
				return nil, rpc.NewFailure(failureOfRefuse, "as was asked for")
			},
			typeWait: func(ctx context.Context, _ *rpc.Request) (any, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		},
		Notifications: map[uint32]rpc.Listener{
			typeHeard: func(payload json.RawMessage) {
				var number int
				if json.Unmarshal(payload, &number) == nil {
					heard <- number
				}
			},
		},
	}
}

func called(ctx context.Context, on *channel.Channel) error {
	hailed := make(chan int, 64)
	calls, err := rpc.Open(ctx, on, handlers(typeHailed, hailed))
	if err != nil {
		return err
	}
	defer func() { _ = calls.Close() }()
	for number := 1; number <= callsOfEach; number++ {
		var got int
		if err := calls.Call(ctx, typeEcho, number, &got); err != nil {
			return err
		}
		if got != number {
			return fmt.Errorf("%d was answered for %d", got, number)
		}
		if err := wait(ctx, hailed, -number); err != nil {
			return err
		}
		if err := calls.Notify(ctx, typeHail, number); err != nil {
			return err
		}
		if err := wait(ctx, hailed, number+1); err != nil {
			return err
		}
	}
	if err := calls.Call(ctx, typeNobody, nil, nil); !errors.Is(err, &rpc.Error{Code: "handler_not_found"}) {
		return fmt.Errorf("a type that nobody handles: %w", err)
	}
	var refused *rpc.Failure
	if err := calls.Call(ctx, typeRefuse, nil, nil); !errors.As(err, &refused) || refused.Code != failureOfRefuse {
		return fmt.Errorf("a failure of the peer's own: %w", err)
	}
	brief, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if err := calls.Call(brief, typeWait, nil, nil); !errors.Is(err, &rpc.Error{Code: "rpc_timeout"}) {
		// The peer's own clock may have been the first to say so.
		if !errors.As(err, &refused) || refused.Code != rpc.DeadlineExceeded {
			return fmt.Errorf("a call that nobody answers: %w", err)
		}
	}
	return nil
}

func wait(ctx context.Context, hailed <-chan int, number int) error {
	select {
	case heard := <-hailed:
		if heard != number {
			return fmt.Errorf("the notification %d came for %d", heard, number)
		}
		return nil
	case <-ctx.Done():
		return errors.New("a notification did not come")
	}
}
