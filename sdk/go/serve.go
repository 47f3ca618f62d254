package sealway

import (
	"net/http"
	"strings"
	"time"

	"sealway.dev/go/internal/exchange"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// serve is one sealed request, from its headers to its answer.
func (m *Middleware) serve(w http.ResponseWriter, r *http.Request, route Route, next http.Handler) {
	start, version := time.Now(), exchange.WireOf(r.Header)
	clock := &laps{at: start}
	body := &sealedBody{stream: &exchange.Stream{}, source: r.Body, held: m.holding(r), under: w, request: r, wait: m.config.BodyTimeout}
	defer body.release()
	call, plain, err := m.open(r, route, body, clock)
	if err != nil {
		body.await()
		m.reject(w, version, call.Reject(err, m.nowMs()))
		return
	}
	cut, r := m.watch(w, r, plain.Reply)
	defer cut.stop()
	body.cut, body.ready = cut, plain.First
	answer := &sealingWriter{middleware: m, under: w, reply: plain.Reply, isHead: r.Method == http.MethodHead, header: http.Header{}, start: start, clock: clock, cut: cut}
	next.ServeHTTP(answer.forHandler(), m.unsealed(r, plain, body))
	if err = body.failed; cut.over() {
		err = wire.Refuse(wire.CodeSessionExpired)
	} else {
		body.await()
	}
	if err == nil {
		err = answer.finish()
	}
	if err != nil && answer.sent {
		// The stream of the answer ends without its last frame: the client sees that it broke.
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		m.reject(w, version, call.Reject(err, m.nowMs()))
	}
}

// open opens the head of a request and the first piece of its body, looks at session and stamp again, and claims the nonce.
func (m *Middleware) open(r *http.Request, route Route, body *sealedBody, clock *laps) (call *exchange.Exchange, plain *exchange.PlainRequest, err error) {
	line := session.Line{Method: r.Method, Target: sentTarget(r)}
	if call, err = exchange.Begin(r.Header, line, m.config.Wires, m.policy, m.nowMs()); err != nil {
		return nil, nil, err
	}
	clock.named("replay-protection")
	id, err := call.SessionID()
	if err != nil {
		return call, nil, err
	}
	found, err := m.session(r, id)
	if err != nil {
		return call, nil, err
	}
	clock.named("session-get")
	opening, stream, err := call.Session(found, m.nowMs())
	if err != nil {
		return call, nil, err
	}
	if path, _, _ := strings.Cut(line.Target, "?"); found.Record().Anonymous() && (!route.Anonymous || path != route.Path) {
		return call, nil, wire.Refuse(wire.CodePolicy)
	}
	first, err := body.begin(stream, opening.BodyMax(min(route.BodyMaxBytes, m.config.BufferedMaxBytes), route.BodyMaxBytes))
	if err != nil {
		return call, nil, err
	}
	if found, err = m.session(r, id); err != nil {
		return call, nil, err
	}
	shut, err := opening.Open(first, found, m.nowMs())
	if err != nil {
		return call, nil, err
	}
	body.held.keep(len(body.input))
	clock.named("aes-gcm-decrypt")
	fresh, err := m.reserve(r, shut.Claim())
	if err != nil {
		return call, nil, err
	}
	clock.named("replay-protection")
	plain, err = shut.Release(fresh)
	return call, plain, err
}

// unsealed is the request that a handler sees: a copy of all but the headers, which are made anew.
func (m *Middleware) unsealed(r *http.Request, plain *exchange.PlainRequest, body *sealedBody) *http.Request {
	request, url := r.WithContext(r.Context()), *r.URL
	request.URL, request.Header, request.Trailer, request.TransferEncoding = &url, http.Header{}, nil, nil
	putHeaders(request.Header, plain.Headers(headerList(r.Header), m.config.TrustForwarded))
	request.Body, request.ContentLength = body, -1
	if body.stream.Done() {
		if request.ContentLength = int64(len(body.ready)); request.ContentLength == 0 {
			request.Body = http.NoBody
		}
	}
	return request
}
