package sealway

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
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
	var opened *session.Opened3
	var body *openingRequest
	if err == nil {
		opened, body, err = m.open3(w, r, route, call, found, clock)
	}
	if err != nil {
		m.refuse3(w, call, found, err)
		return
	}
	defer body.release()
	answer := &sealingWriter{middleware: m, under: w, reply: opened.Reply, method: r.Method, header: http.Header{}, clock: clock}
	next.ServeHTTP(answer, m.unsealed(r, opened, body, found.Record()))
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

// open3 opens the first frame and claims the nonce: checks 6 to 8.
func (m *Middleware) open3(w http.ResponseWriter, r *http.Request, route Route, call *session.SealedRequest3, found *session.Session, clock *timing) (*session.Opened3, *openingRequest, error) {
	sealed, err := call.Sealed()
	if err != nil {
		return nil, nil, err
	}
	opener, opening, err := call.Open(found, m.nowMs(), m.policy)
	if err != nil {
		return nil, nil, err
	}
	body := &openingRequest{opener: opener, source: r.Body, left: route.BodyMax, under: w, request: r, wait: m.config.BodyTimeout}
	if sealed != nil {
		if n, _ := io.ReadFull(r.Body, make([]byte, 1)); r.ContentLength > 0 || n > 0 {
			return nil, nil, &wire.Error{Code: wire.CodeHeaderInvalid, Name: wire.HeaderSealed}
		}
		body.input, body.ended = sealed, true
		freeBody(w)
	} else if r.ContentLength > route.BodyMax {
		return nil, nil, wire.Refuse(wire.CodeBodyTooLarge)
	}
	first, err := body.frame()
	if err != nil {
		return nil, nil, err
	}
	unreplayed, err := opening.First(bytes.Clone(first))
	if err != nil {
		return nil, nil, err
	}
	clock.lap("aes-gcm-decrypt")
	fresh, err := m.reserve(r, unreplayed.Claim())
	if err != nil {
		return nil, nil, err
	}
	clock.lap("replay-protection")
	opened, err := unreplayed.Release(fresh)
	if err != nil {
		return nil, nil, err
	}
	body.ready = opened.First
	if opener.Done() {
		// A whole body is there: what stands behind it is found before the handler sees any.
		if _, err := body.frame(); !errors.Is(err, io.EOF) {
			return nil, nil, err
		}
		body.atEnd = true
	}
	return opened, body, nil
}

// fromOutside says where a request came from; within a seal these are passed over.
var fromOutside = map[string]bool{"via": true, "traceparent": true, "tracestate": true}

// isForwarded says whether a header says where a request came from. Many pass headers on as variables, in which a hyphen is an
// underscore.
func isForwarded(lower string) bool {
	lower = strings.ReplaceAll(lower, "_", "-")
	return lower == "forwarded" || lower == "client-cert" || lower == "client-cert-chain" || strings.HasPrefix(lower, "x-forwarded-") || lower == "x-real-ip"
}

func stripForwarded(header http.Header) {
	for name := range header {
		if isForwarded(strings.ToLower(name)) {
			delete(header, name)
		}
	}
}

// unsealed is the request that a handler sees.
func (m *Middleware) unsealed(r *http.Request, opened *session.Opened3, body *openingRequest, record *session.Record) *http.Request {
	// A copy of all but the headers, which are made anew.
	request, url := r.WithContext(r.Context()), *r.URL
	request.URL = &url
	header := make(http.Header, len(opened.Headers)+4)
	for name, values := range r.Header {
		lower := strings.ToLower(name)
		if lower == "via" || lower == "traceparent" || lower == "tracestate" || m.config.TrustForwarded && isForwarded(lower) {
			header[name] = values
		}
	}
	for _, pair := range opened.Headers {
		if !fromOutside[pair.Name] && !isForwarded(pair.Name) && !isSealways(pair.Name) {
			header.Add(pair.Name, pair.Value)
		}
	}
	for _, name := range []string{"User-Agent", "Accept-Language"} {
		if values := r.Header.Values(name); len(header.Values(name)) == 0 && len(values) > 0 {
			header[name] = values
		}
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
	wait    time.Duration
	left    int64 // of the bound
	raw     []byte
	input   []byte
	plain   []byte
	ready   []byte
	ended   bool
	atEnd   bool // the last frame has opened and nothing stands behind it
	failed  error
}

// frame gives the next frame's plaintext, io.EOF behind the last.
func (b *openingRequest) frame() ([]byte, error) {
	awaited := false
	for {
		if len(b.input) > 0 {
			out, complete, err := b.opener.Read(&b.input, b.plain[:0])
			if err != nil {
				return nil, err
			}
			if complete {
				b.plain = out
				if awaited {
					freeBody(b.under)
				}
				return out, nil
			}
			continue
		}
		if b.ended {
			if err := b.opener.End(); err != nil {
				return nil, err
			}
			if awaited {
				freeBody(b.under)
			}
			return nil, io.EOF
		}
		if b.raw == nil {
			b.raw = rawBuffer(b.request.ContentLength)
		}
		if !awaited {
			// One wait for the whole frame: a byte now and then is no progress. After a failure the deadline stays: what is left of
			// the body is not waited for.
			boundBody(b.under, b.request, b.wait)
			awaited = true
		}
		n, err := b.source.Read(b.raw)
		if b.left -= int64(n); b.left < 0 {
			return nil, wire.Refuse(wire.CodeBodyTooLarge)
		}
		b.input = b.raw[:n]
		if errors.Is(err, io.EOF) {
			b.ended = true
		} else if err != nil {
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
		case errors.Is(err, io.EOF):
			b.atEnd = true
		case err != nil:
			b.failed = err
		default:
			b.ready = frame
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

func (b *openingRequest) Close() error { return nil }

// release forgets what was opened.
func (b *openingRequest) release() { clear(b.plain) }
