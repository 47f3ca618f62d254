package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"sealway.dev/go/channel/rpc/frame"
)

// Request is what a handler is asked. Its context ends when the caller's time is over, when the caller takes it back, and with
// the stream.
type Request struct {
	// TypeID is the request's type, which chose the handler.
	TypeID uint32
	// Payload is the JSON of what is asked.
	Payload json.RawMessage
	// Peer is who asks: it may be called back.
	Peer *Peer
}

// Read reads the payload into a value. Its error answers 400 where a handler returns it.
func (r *Request) Read(into any) error {
	if json.Unmarshal(r.Payload, into) != nil {
		return NewFailure(BadRequest, "the payload is not what the handler reads")
	}
	return nil
}

// Handler answers a request with a value that becomes JSON, or with an error: a *Failure is told to the caller, anything else as
// 500 without a reason. A handler that goes on after its context has ended answers nobody and keeps its place.
type Handler func(ctx context.Context, request *Request) (any, error)

// Listener hears a notification. It is called on the stream's own goroutine, in order: what takes long belongs elsewhere.
type Listener func(payload json.RawMessage)

// Handlers are what a side answers, and its bounds. They are not changed once in use.
type Handlers struct {
	// Requests by type.
	Requests map[uint32]Handler
	// Notifications by type; others are passed over.
	Notifications map[uint32]Listener
	// AtOnce is how many requests of a stream are handled at once, 256 unless said. The next is read when one is done.
	AtOnce int
	// FrameMax is the longest frame either way, in bytes; 1 MiB unless said. Both ends must be told alike.
	FrameMax int
	// Failed hears of handlers that panicked or failed for reasons that the caller is not told; nil for nobody.
	Failed func(typeID uint32, reason any)
}

func (h *Handlers) filled() *Handlers {
	made := &Handlers{}
	if h != nil {
		*made = *h
		made.Requests, made.Notifications = maps.Clone(h.Requests), maps.Clone(h.Notifications)
	}
	if made.AtOnce <= 0 {
		made.AtOnce = 256
	}
	if made.FrameMax <= 0 {
		made.FrameMax = frame.Max
	}
	return made
}

func (h *Handlers) failed(typeID uint32, reason any) {
	if h.Failed != nil {
		h.Failed(typeID, reason)
	}
}

// answer runs a handler until it is done or its time is over, and gives the answer: nil where nobody waits for one. ended is
// closed when the handler has returned, which may be later.
func (h *Handlers) answer(ctx context.Context, asked *frame.Envelope, peer *Peer) (answer *frame.Envelope, ended <-chan struct{}) {
	done := make(chan struct{})
	blank := frame.Envelope{Kind: frame.Answer, ID: asked.ID, TypeID: asked.TypeID}
	handler := h.Requests[asked.TypeID]
	if handler == nil {
		close(done)
		blank.Failure = NewFailure(HandlerNotFound, "handler not found")
		return &blank, done
	}
	caller, stop := ctx, func() {}
	if asked.TimeoutMS != nil {
		ctx, stop = context.WithTimeout(ctx, time.Duration(*asked.TimeoutMS)*time.Millisecond)
	}
	made := make(chan *frame.Envelope, 1)
	go func() {
		defer close(done)
		defer stop()
		made <- h.handled(ctx, handler, asked, peer, blank)
	}()
	select {
	case answer = <-made:
	case <-ctx.Done():
		// A handler that is done ends its context as well: what it answered counts.
		select {
		case answer = <-made:
		default:
			answer = &frame.Envelope{Kind: frame.Answer, ID: asked.ID, TypeID: asked.TypeID, Failure: timeIsOver()}
		}
	}
	if caller.Err() != nil && answer.Failure != nil {
		return nil, done
	}
	return answer, done
}

func timeIsOver() *Failure {
	return NewFailure(DeadlineExceeded, "not done in the time that was given")
}

func (h *Handlers) handled(ctx context.Context, handler Handler, asked *frame.Envelope, peer *Peer, answer frame.Envelope) (told *frame.Envelope) {
	defer func() {
		if reason := recover(); reason != nil {
			h.failed(asked.TypeID, reason)
			answer.Payload, answer.Failure = nil, NewFailure(Internal, "the handler failed")
			told = &answer
		}
	}()
	value, err := handler(ctx, &Request{TypeID: asked.TypeID, Payload: asked.Payload, Peer: peer})
	if err == nil {
		answer.Payload, err = json.Marshal(value)
	}
	if err != nil && ctx.Err() != nil {
		answer.Payload, answer.Failure = nil, timeIsOver()
	} else if err != nil && !errors.As(err, &answer.Failure) {
		h.failed(asked.TypeID, err)
		answer.Failure = NewFailure(Internal, "the handler failed")
	}
	return &answer
}
