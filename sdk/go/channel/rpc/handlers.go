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

// Handler answers a request with a value that becomes JSON, or with an error. The caller receives a *Failure as it is, and any other
// error as 500 without a reason. A handler that runs on after the end of its context keeps its place, and its answer is dropped.
type Handler func(ctx context.Context, request *Request) (any, error)

// Listener receives a notification. It runs on the goroutine of the stream, in order, and should return soon.
type Listener func(payload json.RawMessage)

// Handlers are the requests and notifications that a side serves, and its bounds. They must not change while in use.
type Handlers struct {
	// Requests by type.
	Requests map[uint32]Handler
	// Notifications by type; others are ignored.
	Notifications map[uint32]Listener
	// AtOnce bounds the concurrent requests of a stream. The default is 256. The next one is read after one has ended.
	AtOnce int
	// FrameMax bounds a frame in either direction, in bytes. The default is 1 MiB. Both ends need the same bound.
	FrameMax int
	// Failed receives panics and errors of handlers that the caller does not see. It may be nil.
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
