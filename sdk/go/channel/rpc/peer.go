package rpc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"sealway.dev/go/channel"
	"sealway.dev/go/channel/rpc/frame"
)

const (
	// Timeout is how long a call waits whose context has no deadline.
	Timeout = 30 * time.Second
	// outboxLen is how many frames may wait to be written; gathered is about how many bytes of them become one write.
	outboxLen = 64
	gathered  = 64 << 10
	// kept is the room that a reader keeps between frames, in bytes.
	kept = 16 << 10
	// lastFramesTime is how long frames that wait may take to be written once the stream is to end.
	lastFramesTime = 5 * time.Second
	malformedMax   = 16
	// KindRPC is what a stream of calls says that it is for, in version 1.
	KindRPC = "rpc"
)

// Peer is the other end of a stream of calls. It is safe for use by many goroutines.
type Peer struct {
	stream   io.ReadWriteCloser
	handlers *Handlers
	outbox   chan []byte
	nextID   atomic.Uint64

	ctx    context.Context
	end    context.CancelCauseFunc
	wrote  chan struct{}
	mu     sync.Mutex
	waits  map[uint64]chan *frame.Envelope
	active map[uint64]context.CancelFunc
	room   chan struct{}
	// lost is closed when what carries the stream is over; nil where that is not known.
	lost <-chan struct{}
}

var errLost = errors.New("the channel of the stream is over")

// Open opens a stream for calls on a channel. handlers, which may be nil, answer what the peer asks on it.
func Open(ctx context.Context, on *channel.Channel, handlers *Handlers) (*Peer, error) {
	stream, err := on.Open(ctx, KindRPC)
	if err != nil {
		return nil, err
	}
	return Over(stream, handlers), nil
}

// Over makes calls over a stream whose prologue has passed, from either side. The stream is the peer's from then on.
func Over(stream io.ReadWriteCloser, handlers *Handlers) *Peer {
	ctx, end := context.WithCancelCause(context.Background())
	filled := handlers.filled()
	made := &Peer{
		stream: stream, handlers: filled, outbox: make(chan []byte, outboxLen), ctx: ctx, end: end, wrote: make(chan struct{}),
		waits: map[uint64]chan *frame.Envelope{}, active: map[uint64]context.CancelFunc{}, room: make(chan struct{}, filled.AtOnce),
	}
	if carried, is := stream.(interface{ Done() <-chan struct{} }); is {
		made.lost = carried.Done()
	}
	go made.writeAll()
	go made.readAll()
	return made
}

// Serve takes the streams of calls that the peer opens on a channel, until the channel is over or the context ends. Streams of
// other kinds go to others, or are reset where it is nil.
func Serve(ctx context.Context, on *channel.Channel, handlers *Handlers, others func(*channel.Stream)) error {
	for {
		stream, err := on.Accept(ctx)
		switch {
		case err != nil:
			return err
		case stream.Kind() == KindRPC && stream.Version() == 1:
			Over(stream, handlers)
		case others != nil:
			others(stream)
		default:
			stream.Reset()
		}
	}
}

// Done is closed when nothing more can come or go.
func (p *Peer) Done() <-chan struct{} { return p.ctx.Done() }

// Err is why it is over, nil as long as it is not.
func (p *Peer) Err() error { return context.Cause(p.ctx) }

// Close ends the stream; frames that wait are written first, for at most 5 s.
func (p *Peer) Close() error {
	p.end(net.ErrClosed)
	<-p.wrote
	return nil
}

// Call sends a request to the handler of a type and decodes the response into answer, which may be nil. It waits until the
// deadline of the context, which the peer receives too, or for 30 s without one. The end of the context cancels the call. The error
// is an *Error.
func (p *Peer) Call(ctx context.Context, typeID uint32, payload, answer any) error {
	if _, has := ctx.Deadline(); !has {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, Timeout)
		defer stop()
	}
	asked, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	raw, err := p.call(ctx, typeID, asked)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(raw, answer)
}

func (p *Peer) call(ctx context.Context, typeID uint32, payload json.RawMessage) (json.RawMessage, error) {
	id := (p.nextID.Add(1)-1)%frame.IDMax + 1
	at, _ := ctx.Deadline()
	left := uint32(min(max(time.Until(at).Milliseconds(), 1), 1<<32-1))
	if ctx.Err() != nil {
		return nil, late(ctx)
	}
	request, err := p.encode(&frame.Envelope{Kind: frame.Request, ID: id, TypeID: typeID, Payload: payload, TimeoutMS: &left})
	if err != nil {
		return nil, err
	}
	answered := make(chan *frame.Envelope, 1)
	p.mu.Lock()
	p.waits[id] = answered
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.waits, id)
		p.mu.Unlock()
	}()
	select {
	case p.outbox <- request:
	case <-ctx.Done():
		return nil, late(ctx)
	case <-p.ctx.Done():
		return nil, broken(p.Err())
	}
	select {
	case answer := <-answered:
		if answer.Failure != nil {
			return nil, refused(answer.Failure)
		}
		return answer.Payload, nil
	case <-ctx.Done():
		p.takeBack(id)
		return nil, late(ctx)
	case <-p.ctx.Done():
		return nil, broken(p.Err())
	}
}

// takeBack tells the peer that nobody waits. Where there is no room it works for nothing, as it would for a caller of v1.
func (p *Peer) takeBack(id uint64) {
	cancel, err := p.encode(&frame.Envelope{Kind: frame.Cancellation, ID: id})
	if err != nil {
		return
	}
	select {
	case p.outbox <- cancel:
	default:
	}
}

// Notify tells the peer something. It returns when it is on its way; nobody says whether it arrived.
func (p *Peer) Notify(ctx context.Context, typeID uint32, payload any) error {
	told, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	out, err := p.encode(&frame.Envelope{Kind: frame.Notification, TypeID: typeID, Payload: told})
	if err != nil {
		return err
	}
	select {
	case p.outbox <- out:
		return nil
	case <-ctx.Done():
		return late(ctx)
	case <-p.ctx.Done():
		return broken(p.Err())
	}
}

func (p *Peer) encode(envelope *frame.Envelope) ([]byte, error) {
	out, err := envelope.Append(nil, p.handlers.FrameMax)
	if errors.Is(err, frame.ErrTooLong) {
		return nil, tooLong(p.handlers.FrameMax)
	}
	return out, err
}

// writeAll writes frames, several at a time where they wait; when the stream is to end, first what waits already.
func (p *Peer) writeAll() {
	defer close(p.wrote)
	defer func() { _ = p.stream.Close() }()
	var last bool
	var room []byte
	for !last {
		room = room[:0]
		select {
		case frame := <-p.outbox:
			room = append(room, frame...)
		case <-p.ctx.Done():
			last = true
			if deadlined, can := p.stream.(interface{ SetWriteDeadline(time.Time) error }); can {
				_ = deadlined.SetWriteDeadline(time.Now().Add(lastFramesTime))
			}
		}
		for more := true; more && (last || len(room) < gathered); {
			select {
			case frame := <-p.outbox:
				room = append(room, frame...)
			default:
				more = false
			}
		}
		if len(room) > 0 {
			if _, err := p.stream.Write(room); err != nil {
				p.end(err)
				return
			}
		}
		if cap(room) > 4*gathered {
			room = nil
		}
	}
}

func (p *Peer) readAll() {
	from := bufio.NewReaderSize(p.stream, kept)
	var room []byte
	for malformed := 0; malformed < malformedMax; {
		text, err := frame.Read(from, room, p.handlers.FrameMax)
		if err != nil {
			p.end(err)
			return
		}
		// A payload is a part of its frame, whose buffer is therefore not used again.
		envelope, err := frame.Parse(text)
		if err != nil {
			// As v1's servers do; who sends nothing else is not read for ever.
			malformed++
			continue
		}
		malformed = 0
		p.take(envelope)
	}
	p.end(&frame.Malformed{Member: "(16 frames in a row)"})
}

func (p *Peer) take(said *frame.Envelope) {
	switch said.Kind {
	case frame.Answer:
		p.mu.Lock()
		waiting := p.waits[said.ID]
		delete(p.waits, said.ID)
		p.mu.Unlock()
		if waiting != nil {
			waiting <- said
		}
	case frame.Notification:
		if listener := p.handlers.Notifications[said.TypeID]; listener != nil {
			p.hear(listener, said)
		}
	case frame.Cancellation:
		p.mu.Lock()
		cancel := p.active[said.ID]
		p.mu.Unlock()
		if cancel != nil {
			cancel()
		}
	case frame.Request:
		p.handle(said)
	}
}

func (p *Peer) hear(listener Listener, said *frame.Envelope) {
	defer func() {
		if reason := recover(); reason != nil {
			p.handlers.failed(said.TypeID, reason)
		}
	}()
	listener(said.Payload)
}

func (p *Peer) handle(asked *frame.Envelope) {
	select {
	case p.room <- struct{}{}:
	case <-p.ctx.Done():
		return
	case <-p.lost:
		// A reader that waits for room would not notice the end.
		p.end(errLost)
		return
	}
	ctx, cancel := context.WithCancel(p.ctx)
	p.mu.Lock()
	p.active[asked.ID] = cancel
	p.mu.Unlock()
	go func() {
		defer func() { <-p.room }()
		answer, ended := p.handlers.answer(ctx, asked, p)
		p.mu.Lock()
		delete(p.active, asked.ID)
		p.mu.Unlock()
		p.send(answer)
		cancel()
		// Its place is free when it has ended, and not when its caller has an answer.
		<-ended
	}()
}

func (p *Peer) send(answer *frame.Envelope) {
	if answer == nil {
		return
	}
	out, err := p.encode(answer)
	if err != nil {
		answer.Payload, answer.Failure = nil, NewFailure(TooLarge, "the answer is longer than a frame may be")
		if out, err = p.encode(answer); err != nil {
			return
		}
	}
	select {
	case p.outbox <- out:
	case <-p.ctx.Done():
	}
}
