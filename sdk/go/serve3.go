package sealway

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// serve3 is a sealed request of wire 3; the order of its checks is the spec's. spec/session-3.md#sealed-requests
func (m *Middleware) serve3(w http.ResponseWriter, r *http.Request, route Route, next http.Handler) {
	clock := newTiming()
	if !m.serves(wire.Wire3) {
		m.problem(w, "wire_disabled", wire.Refuse(wire.CodeWireMismatch), nil)
		return
	}
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		m.problem(w, "method_not_allowed", wire.Refuse(wire.CodeUnsealable), nil)
		return
	}
	line := session.Line{Method: r.Method, Target: sentTarget(r)}
	call, err := session.ParseRequest3(r.Header, line)
	if err != nil {
		m.problem(w, problemOf(err), err, nil)
		return
	}
	id, err := call.SessionID()
	var found *session.Session
	if err == nil {
		found, err = m.session(r, id)
	}
	if err == nil {
		clock.lap("session-get")
		err = call.Check(found, m.nowMs(), m.policy)
	}
	body := &openingRequest{source: r.Body, held: m.holding(r), left: route.BodyMax, under: w, request: r, wait: m.config.BodyTimeout}
	defer body.release()
	var opened *session.Opened3
	if err == nil {
		opened, err = m.open3(r, body, call, found, clock)
	}
	if err != nil {
		m.refuse3(w, call, found, err)
		return
	}
	life, r := m.watch(w, r, opened.Reply.Session().Record())
	defer life.stop()
	body.life = life
	answer := &sealingWriter{middleware: m, under: w, reply: opened.Reply, method: r.Method, header: http.Header{}, clock: clock, life: life}
	next.ServeHTTP(answer, m.unsealed(r, opened, body, opened.Reply.Session().Record()))
	if life.over() {
		panic(http.ErrAbortHandler)
	}
	if !body.ended {
		boundBody(w, r, m.config.BodyTimeout)
	}
	if body.failed != nil && !answer.begun {
		m.refuse3(w, call, found, body.failed)
		return
	}
	if body.failed != nil {
		// The stream of the answer ends without its last frame: the client sees that it broke.
		panic(http.ErrAbortHandler)
	}
	answer.finish()
}

// refuse3 tells a problem; one that makes a client do something carries its proof.
func (m *Middleware) refuse3(w http.ResponseWriter, call *session.SealedRequest3, found *session.Session, err error) {
	code := problemOf(err)
	var more map[string]any
	if code == "clock_skew" && found != nil {
		now := m.nowMs()
		more = map[string]any{"server_time_ms": now, "mac": wire.EncodeBase64(call.ClockProof(found, now))}
	}
	m.problem(w, code, err, more)
}

// open3 opens the first frame, looks at session and stamp again, and claims the nonce: checks 6 to 8. All of it has the time of one
// frame.
func (m *Middleware) open3(r *http.Request, body *openingRequest, call *session.SealedRequest3, found *session.Session, clock *timing) (*session.Opened3, error) {
	sealed, err := call.Sealed()
	if err != nil {
		return nil, err
	}
	opener, opening, err := call.Open(found, m.nowMs(), m.policy)
	if err != nil {
		return nil, err
	}
	body.opener = opener
	body.await()
	if sealed != nil {
		if n, _ := io.ReadFull(r.Body, make([]byte, 1)); r.ContentLength > 0 || n > 0 {
			return nil, &wire.Error{Code: wire.CodeHeaderInvalid, Name: wire.HeaderSealed}
		}
		body.input, body.ended = sealed, true
	} else if r.ContentLength > body.left {
		return nil, wire.Refuse(wire.CodeBodyTooLarge)
	}
	first, err := body.frame()
	if err != nil {
		return nil, err
	}
	first = bytes.Clone(first)
	whole := opener.Done()
	if whole {
		// A whole body is there: what stands behind it is found before the handler sees any.
		if _, err := body.frame(); !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	body.arrived()
	clock.lap("aes-gcm-decrypt")
	if found, err = m.session(r, found.Record().ID); err != nil {
		return nil, err
	}
	unreplayed, err := opening.First(first, found, m.nowMs())
	if err != nil {
		return nil, err
	}
	fresh, err := m.reserve(r, unreplayed.Claim())
	if err != nil {
		return nil, err
	}
	clock.lap("replay-protection")
	opened, err := unreplayed.Release(fresh)
	if err != nil {
		return nil, err
	}
	body.ready, body.atEnd = opened.First, whole
	return opened, nil
}

// unsealed is the request that a handler sees.
func (m *Middleware) unsealed(r *http.Request, opened *session.Opened3, body *openingRequest, record *session.Record) *http.Request {
	// A copy of all but the headers, which are made anew.
	request, url := r.WithContext(r.Context()), *r.URL
	request.URL = &url
	header := make(http.Header, len(opened.Headers)+4)
	var outer wire.HeaderList
	for name, values := range r.Header {
		for _, value := range values {
			outer = append(outer, wire.Header{Name: name, Value: value})
		}
	}
	for _, pair := range session.ServiceHeaders(outer, opened.Headers, m.config.TrustForwarded) {
		header.Add(pair.Name, pair.Value)
	}
	identify(header, record)
	request.Header, request.Trailer, request.TransferEncoding = header, nil, nil
	request.Body, request.ContentLength = body, -1
	if body.atEnd {
		if request.ContentLength = int64(len(body.ready)); request.ContentLength == 0 {
			request.Body = http.NoBody
		}
	}
	return request
}

// openingRequest is the body of a request, opened as it comes. A stream that breaks is an error of Read, never a short body.
type openingRequest struct {
	opener  *session.FrameOpener
	source  io.Reader
	under   http.ResponseWriter
	request *http.Request
	held    *holding // what came of frames that have not opened yet
	wait    time.Duration
	left    int64 // of the bound
	raw     []byte
	input   []byte
	plain   []byte
	ready   []byte
	ended   bool
	atEnd   bool      // the last frame has opened and nothing stands behind it
	until   time.Time // when the frame that is awaited has to be there; zero while none is
	life    *life3
	failed  error
}

// await gives what is awaited one time to arrive in: a byte now and then is no progress. A wait in a wait has the time of the first.
func (b *openingRequest) await() {
	if b.until.IsZero() {
		b.until = time.Now().Add(b.wait)
		boundBody(b.under, b.request, b.wait)
	}
}

// arrived ends the wait, and gives back the room of what has opened. After a failure it goes on: what is left of the body is not
// waited for.
func (b *openingRequest) arrived() {
	b.held.keep(len(b.input))
	if !b.until.IsZero() {
		b.until = time.Time{}
		freeBody(b.under)
	}
}

// frame gives the next frame's plaintext, io.EOF behind the last.
func (b *openingRequest) frame() ([]byte, error) {
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
			// Nothing is held for what was only announced.
			b.raw = make([]byte, 512)
		} else if len(b.raw) == 512 {
			b.raw = rawBuffer(b.request.ContentLength)
		}
		b.await()
		n, err := b.source.Read(b.raw)
		if b.left -= int64(n); b.left < 0 {
			return nil, wire.Refuse(wire.CodeBodyTooLarge)
		}
		if b.held.grow(n) != nil {
			return nil, ErrNoRoom
		}
		b.input = b.raw[:n]
		if errors.Is(err, io.EOF) {
			b.ended = true
		} else if err != nil || time.Now().After(b.until) {
			// Not every server keeps deadlines of its own.
			return nil, wire.Refuse(wire.CodeStreamTruncated)
		}
	}
}

func (b *openingRequest) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(b.ready) == 0 {
		if b.failed != nil {
			return 0, b.failed
		}
		if b.atEnd {
			return 0, io.EOF
		}
		frame, err := b.frame()
		switch {
		case b.life.over():
			b.failed = wire.Refuse(wire.CodeSessionExpired)
		case errors.Is(err, io.EOF):
			b.arrived()
			b.atEnd = true
		case err != nil:
			b.failed = err
		default:
			b.arrived()
			b.ready = frame
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

func (b *openingRequest) Close() error { return nil }

// release forgets what was opened.
func (b *openingRequest) release() {
	clear(b.plain)
	b.held.keep(0)
}
