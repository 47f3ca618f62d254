package sealway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// wholeMax is up to which length a request's body is sealed before it is sent, in bytes.
const wholeMax = 1 << 20

// deadline bounds the waits of an exchange, one after the other.
type deadline struct {
	parent context.Context
	ctx    context.Context
	after  time.Duration
	what   string
	cancel context.CancelCauseFunc
	mu     sync.Mutex
	timer  *time.Timer
	headed bool  // the head is there, or awaited no more
	own    error // of the request's own body
}

func newDeadline(parent context.Context, after time.Duration, what string) *deadline {
	ctx, cancel := context.WithCancelCause(parent)
	d := &deadline{parent: parent, ctx: ctx, cancel: cancel, after: after, what: what}
	d.begin(after, what)
	return d
}

// begin begins a wait in the place of the one that there is.
func (d *deadline) begin(after time.Duration, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arm(after, what)
}

func (d *deadline) arm(after time.Duration, what string) {
	d.disarm()
	if after > 0 {
		late := &TimeoutError{Wait: what, After: after, Option: "Config.HeadTimeout"}
		if d.headed {
			late.Option = "Config.IdleTimeout"
		}
		d.timer = time.AfterFunc(after, func() { d.cancel(late) })
	}
}

func (d *deadline) disarm() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// pause ends the wait.
func (d *deadline) pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.disarm()
}

// head ends the wait for the head of the answer; the next wait begins with a read.
func (d *deadline) head() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.headed = true
	d.disarm()
}

// hold stops the wait for the head while a caller's own source is read; rearm begins it anew. Behind the head neither does
// anything: the waits for parts of the answer are not the request's to stop.
func (d *deadline) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.headed {
		d.disarm()
	}
}

func (d *deadline) rearm() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.headed {
		d.arm(d.after, d.what)
	}
}

// traced returns the context, which begins the wait for the head anew when there is a connection and when the message is sent.
func (d *deadline) traced() context.Context {
	return httptrace.WithClientTrace(d.ctx, &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { d.rearm() },
		WroteRequest: func(httptrace.WroteRequestInfo) { d.rearm() },
	})
}

func (d *deadline) stop() {
	d.head()
	d.cancel(nil)
}

// end stops the deadline, and replaces err by its cause: a wait that was too long, or the cancellation by the caller.
func (d *deadline) end(err error) error {
	cause := context.Cause(d.ctx)
	d.stop()
	var late *TimeoutError
	if err == nil {
		return nil
	}
	if errors.As(cause, &late) {
		return late
	}
	if d.parent.Err() != nil && !errors.Is(err, cause) {
		return cause
	}
	return err
}

// unanswered is end for an error of the base transport; an error of the request's own body stays as it is.
func (d *deadline) unanswered(err error) error {
	d.mu.Lock()
	own := d.own
	d.mu.Unlock()
	if own == nil {
		own = connectionError(err)
	}
	return d.end(own)
}

// sealingBody returns the sealed body of a request, and its length, -1 if that is not known.
func sealingBody(sealer *session.FrameSealer, inner []byte, body io.Reader, closeBody func(), length int64, wait *deadline) (io.ReadCloser, int64, error) {
	if length >= 0 && length <= wholeMax {
		// A byte more than was promised would change what the caller meant.
		plaintext := make([]byte, length)
		wait.hold()
		_, err := io.ReadFull(body, plaintext)
		if err == nil {
			if n, _ := io.ReadFull(body, make([]byte, 1)); n > 0 {
				err = &UsageError{"the body is longer than its ContentLength"}
			}
		}
		closeBody()
		wait.rearm()
		if err != nil {
			return nil, 0, err
		}
		stream, err := sealer.SealWhole(make([]byte, 0, sealer.StreamLen(len(inner)+len(plaintext))), inner, plaintext)
		if err != nil {
			return nil, 0, err
		}
		return &wholeBody{rest: stream, wait: wait}, int64(len(stream)), nil
	}
	sealing := &sealingReader{sealer: sealer, inner: inner, source: body, close: closeBody, left: length, wait: wait}
	sealed := int64(-1)
	if length > 0 {
		sealed = int64(sealer.StreamLen(len(inner) + int(length)))
	}
	return sealing, sealed, nil
}

type wholeBody struct {
	rest []byte
	wait *deadline
}

func (b *wholeBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	b.wait.rearm()
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *wholeBody) Close() error { return nil }

// sealingReader seals a body as it is read. Of a known length the frames are full; else a frame is what one read gave.
type sealingReader struct {
	sealer *session.FrameSealer
	inner  []byte
	source io.Reader
	close  func()
	left   int64 // -1 where the length is not known
	plain  []byte
	sealed []byte
	ready  []byte
	done   bool
	// wait, for the head of the answer, counts from the last part that the caller gave: how slowly a caller reads its own source
	// is its own matter.
	wait *deadline
}

func (r *sealingReader) Read(p []byte) (int, error) {
	for len(r.ready) == 0 {
		if r.done {
			return 0, io.EOF
		}
		if err := r.next(); err != nil {
			r.wait.mu.Lock()
			r.wait.own = err
			r.wait.mu.Unlock()
			return 0, err
		}
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

func (r *sealingReader) next() error {
	r.wait.hold()
	defer r.wait.rearm()
	if r.plain == nil {
		r.plain = make([]byte, wire.FrameLenMax)
	}
	room := r.plain[:wire.FrameLenMax-len(r.inner)]
	var n int
	var err error
	last := false
	if r.left >= 0 {
		room = room[:min(int64(len(room)), r.left)]
		n, err = io.ReadFull(r.source, room)
		r.left -= int64(n)
		last = r.left == 0
		if err != nil && len(room) > 0 {
			// A missing part must not look like an end.
			return io.ErrUnexpectedEOF
		}
	} else {
		n, err = r.source.Read(room)
		if last = errors.Is(err, io.EOF); err != nil && !last {
			return err
		}
		if n == 0 && !last {
			return nil
		}
	}
	sealed, err := r.sealer.Seal(r.sealed[:0], last, r.inner, room[:n])
	if err != nil {
		return err
	}
	r.inner, r.sealed, r.ready, r.done = nil, sealed, sealed, last
	return nil
}

func (r *sealingReader) Close() error {
	r.close()
	return nil
}

// idleReader bounds the time between two parts of an answer.
type idleReader struct {
	io.Reader
	wait *deadline
	idle time.Duration
}

func (r *idleReader) Read(p []byte) (int, error) {
	r.wait.begin(r.idle, "the next part of the answer")
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = connectionError(err)
	}
	return n, err
}

// rawMax is how much of a sealed body is read at a time, in bytes.
const rawMax = 32 << 10

// rawBuffer is for a body of so many bytes, -1 where that is not known: a short one needs no long buffer.
func rawBuffer(length int64) []byte {
	if length < 0 || length >= rawMax {
		return make([]byte, rawMax)
	}
	return make([]byte, length+1)
}

// openingBody opens a body as it comes. One that ends early is stream_truncated, never a short body.
type openingBody struct {
	opener *session.FrameOpener
	source io.ReadCloser
	length int64 // of the source, -1 where that is not known
	wait   *deadline
	idle   time.Duration
	raw    []byte
	input  []byte
	plain  []byte
	ready  []byte
	ended  bool
	err    error
}

// frame returns the next frame's plaintext, io.EOF behind the last.
func (b *openingBody) frame() ([]byte, error) {
	for {
		if len(b.input) > 0 {
			out, complete, err := b.opener.Read(&b.input, b.plain[:0])
			if err != nil {
				return nil, err
			}
			if complete {
				b.plain = out
				return out, nil
			}
			continue
		}
		if b.ended {
			if err := b.opener.End(); err != nil {
				return nil, err
			}
			return nil, io.EOF
		}
		if b.raw == nil {
			b.raw = rawBuffer(b.length)
		}
		n, err := b.source.Read(b.raw)
		b.input = b.raw[:n]
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			b.ended = true
		} else if err != nil {
			return nil, connectionError(err)
		}
	}
}

// finish reads to the end of a message that has no body.
func (b *openingBody) finish() error {
	_, err := b.frame()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		err = wire.Refuse(wire.CodeFrameInvalid)
	}
	return err
}

// Read returns the body as its frames open.
func (b *openingBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(b.ready) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		b.wait.begin(b.idle, "the next part of the answer")
		b.ready, b.err = b.frame()
		switch {
		case b.err == nil:
			b.wait.pause()
		case errors.Is(b.err, io.EOF):
			b.wait.stop()
		default:
			b.err = b.wait.end(b.err)
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// Close returns the connection up if the body was not read to its end.
func (b *openingBody) Close() error {
	if b.err == nil {
		b.err = http.ErrBodyReadAfterClose
	}
	b.ready = nil
	err := b.source.Close()
	b.wait.stop()
	return err
}
