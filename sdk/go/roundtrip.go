package sealway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"sealway.dev/go/internal/exchange"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// bodySource returns a request's body, and gives it again where the caller said how.
type bodySource struct {
	request *http.Request
	used    bool
}

func (s *bodySource) empty() bool {
	return s.request.Body == nil || s.request.Body == http.NoBody || s.request.ContentLength == 0 && s.request.GetBody != nil
}

// again says whether there is a second body to send.
func (s *bodySource) again() bool { return s.empty() || s.request.GetBody != nil }

func (s *bodySource) open() (io.ReadCloser, error) {
	if s.empty() {
		return http.NoBody, nil
	}
	if !s.used {
		s.used = true
		return s.request.Body, nil
	}
	return s.request.GetBody()
}

// closeUnused closes a body that was never read, as a RoundTripper must.
func (s *bodySource) closeUnused() {
	if s.request.Body != nil && !s.used {
		s.request.Body.Close()
	}
}

func (s *bodySource) length() int64 {
	if s.empty() {
		return 0
	}
	if s.request.ContentLength == 0 {
		return -1
	}
	return s.request.ContentLength
}

func target(request *http.Request) string {
	return request.URL.RequestURI()
}

func method(request *http.Request) string {
	if request.Method == "" {
		return http.MethodGet
	}
	return request.Method
}

// roundTripNative is a call on wire 3. It is sent once more where that is proven safe: spec/session-3.md#problems
func (t *Transport) roundTripNative(request *http.Request, source *bodySource) (*http.Response, error) {
	agreed, err := t.currentNative(request.Context())
	if err != nil {
		return nil, err
	}
	clockSet, sessionMade := false, false
	for attempt := 1; ; attempt++ {
		body, err := source.open()
		if err != nil {
			return nil, err
		}
		seen := Exchange{Kind: "call", Wire: wire.Wire3, SessionID: agreed.session.ID(), Suite: agreed.session.Agreed().Suite,
			Method: method(request), Target: target(request), Attempt: attempt}
		start := time.Now()
		var verdict verdict
		response, err := t.exchangeSealed(agreed, request, body, source.length(), &seen, &verdict)
		seen.RoundTrip, seen.Err = time.Since(start), err
		t.measured(seen)
		if err == nil {
			return response, nil
		}
		if verdict.over {
			// Even without proof: a client that only posts would else keep a dead session.
			t.native.drop(agreed)
		}
		switch {
		case !verdict.again || !source.again():
			return nil, err
		case verdict.over && !sessionMade:
			sessionMade = true
			if agreed, err = t.nativeSessionOtherThan(request.Context(), agreed); err != nil {
				return nil, err
			}
		case !verdict.over && !clockSet:
			clockSet = true
		default:
			return nil, err
		}
	}
}

// verdict is the consequence of a rejection.
type verdict struct {
	// again is true if the request may be retried.
	again bool
	// over is true if the answer says that the session is over.
	over bool
}

// forwarded are the headers that say where a request came from; they count outside alone.
var forwarded = []string{"Traceparent", "Tracestate", "Forwarded", "Via"}

// sealing seals the requests of calls and judges their rejections: a session of wire 3, or a key of wire 4.
type sealing interface {
	// seal begins a request.
	seal(line session.Line, contentType string) (wire.HeaderList, *session.FrameSealer, *session.Call, error)
	// leadLen is the number of bytes in front of the stream of a request.
	leadLen() int
	// judge takes what a rejection of a request sent at that time proves, and returns the consequence.
	judge(call *session.Call, sent time.Time, told *ProblemError) verdict
}

func (a *nativeSession) seal(line session.Line, contentType string) (wire.HeaderList, *session.FrameSealer, *session.Call, error) {
	return a.session.Seal(line, contentType, a.stampMs(), random16())
}

func (a *nativeSession) leadLen() int { return 0 }

// exchangeSealed seals one request, sends it, and opens the head of the answer.
func (t *Transport) exchangeSealed(by sealing, request *http.Request, body io.Reader, length int64, seen *Exchange, verdict *verdict) (*http.Response, error) {
	closeBody := sync.OnceFunc(func() {
		if closer, ok := body.(io.Closer); ok {
			closer.Close()
		}
	})
	lap := laps{}
	lap.begin()
	inner, err := exchange.InnerOf(headerList(request.Header))
	if err != nil {
		closeBody()
		return nil, &UsageError{"a header, or all of them together, cannot be sealed"}
	}
	line := session.Line{Method: method(request), Target: target(request)}
	noBody := length == 0 && (session.Safe(line.Method) || line.Method == http.MethodDelete)
	// A stream that is too long for the header becomes a body.
	bodiless := noBody && (by.leadLen()+session.StreamLen(len(inner))+2)/3*4 <= wire.SealedHeaderMax
	contentType := "application/octet-stream"
	if bodiless {
		contentType = ""
	}
	headers, sealer, pending, err := by.seal(line, contentType)
	if err != nil {
		closeBody()
		return nil, err
	}
	sealed := &http.Request{Method: line.Method, URL: request.URL, Host: request.Host, Header: http.Header{"Accept-Encoding": {"identity"}},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	for _, pair := range headers {
		sealed.Header.Set(pair.Name, pair.Value)
	}
	for _, name := range forwarded {
		if values := request.Header.Values(name); len(values) > 0 {
			sealed.Header[name] = values
		}
	}
	wait := newDeadline(request.Context(), t.config.HeadTimeout, "the head of the answer")
	// The library waits for a read of the body even after a cancellation: closing the body ends the read.
	context.AfterFunc(wait.ctx, closeBody)
	if bodiless {
		closeBody()
		stream, err := sealer.SealWhole(nil, inner, nil)
		if err != nil {
			return nil, wait.end(err)
		}
		sealed.Header.Set(wire.HeaderSealed, wire.EncodeBase64(stream))
	} else {
		sealed.Header.Set("Content-Type", contentType)
		sealed.Body, sealed.ContentLength, err = sealingBody(sealer, inner, body, closeBody, length, wait)
		if err != nil {
			return nil, wait.end(err)
		}
	}
	lap.named("seal")
	sent := time.Now()
	response, err := t.config.Base.RoundTrip(sealed.WithContext(wait.traced()))
	seen.HTTP = time.Since(sent)
	if err != nil {
		return nil, wait.unanswered(err)
	}
	seen.Status, seen.ServerTiming = response.StatusCode, ParseServerTiming(response.Header)
	lap.begin()
	opened, err := t.openAnswer(by, pending, sent, request, response, wait, verdict)
	lap.named("open")
	seen.Steps = lap.steps
	if err != nil {
		response.Body.Close()
		return nil, wait.end(err)
	}
	return opened, nil
}

func (t *Transport) openAnswer(by sealing, pending *session.Call, sent time.Time, request *http.Request, response *http.Response, wait *deadline, verdict *verdict) (*http.Response, error) {
	sealed, opener, err := pending.Open(response.Header, response.StatusCode)
	if errors.Is(err, wire.CodeUnsealed) {
		return nil, judgeUnsealed(by, pending, sent, response, verdict)
	}
	if err != nil {
		return nil, err
	}
	body := &openingBody{opener: opener, source: response.Body, length: response.ContentLength, wait: wait, idle: t.config.IdleTimeout}
	if sealed != nil {
		// There is no body: what came as one is none of the answer's.
		body.input, body.ended = sealed, true
		if extra, _ := io.ReadFull(response.Body, make([]byte, 1)); extra > 0 {
			return nil, &wire.Error{Code: wire.CodeHeaderInvalid, Name: wire.HeaderSealed}
		}
	}
	first, err := body.frame()
	if err != nil {
		return nil, err
	}
	inner, rest, err := session.DecodeInner(first)
	if err != nil {
		return nil, err
	}
	body.ready = rest
	header := make(http.Header, len(inner))
	for _, pair := range inner {
		header.Add(pair.Name, pair.Value)
	}
	if opener.IsProblem() {
		return nil, judgeSealed(by, pending, sent, response.StatusCode, header, body, verdict)
	}
	if redirects(response.StatusCode) && header.Get("Location") != "" {
		return nil, &ProblemError{Code: codeRedirected, Status: response.StatusCode}
	}
	opened := &http.Response{Status: response.Status, StatusCode: response.StatusCode, Proto: response.Proto, ProtoMajor: response.ProtoMajor,
		ProtoMinor: response.ProtoMinor, Header: header, Body: body, ContentLength: -1, Request: request, TLS: response.TLS}
	if opener.Done() {
		opened.ContentLength = int64(len(rest))
	}
	if sealed != nil {
		if err := body.finish(); err != nil {
			return nil, err
		}
	}
	wait.head()
	return opened, nil
}

func redirects(status int) bool {
	switch status {
	case 301, 302, 303, 307, 308:
		return true
	}
	return false
}

// judgeUnsealed reads a rejection without a seal, and judges it.
func judgeUnsealed(by sealing, pending *session.Call, sent time.Time, response *http.Response, verdict *verdict) error {
	body, err := readBounded(response.Body, "a rejection", wire.ProblemLenMax)
	if err != nil {
		return err
	}
	told := problemOf(response.StatusCode, response.Header, session.ParseProblem(response.StatusCode, body, false), body)
	if verdict != nil {
		*verdict = by.judge(pending, sent, told)
		told.notServed = verdict.again
	}
	return told
}

// judgeSealed takes a sealed problem of wire 4, which is all of its first frame, and judges it.
func judgeSealed(by sealing, pending *session.Call, sent time.Time, status int, header http.Header, body *openingBody, verdict *verdict) error {
	text := bytes.Clone(body.ready)
	if err := body.finish(); err != nil {
		return err
	}
	problem := session.ParseProblem(status, text, true)
	if problem == nil {
		return wire.Refuse(wire.CodeAnswerMismatch)
	}
	told := problemOf(status, header, problem, nil)
	*verdict = by.judge(pending, sent, told)
	told.notServed = verdict.again
	return told
}

func (a *nativeSession) judge(call *session.Call, sent time.Time, told *ProblemError) (verdict verdict) {
	if told.problem == nil {
		// An answer to HEAD has no body to say more in; of sealed requests this status has one reason.
		verdict.over = call.Method() == http.MethodHead && told.Status == http.StatusUnauthorized
		verdict.again = verdict.over
		return verdict
	}
	told.Proven = call.Proven(told.problem)
	verdict.again = call.SendsAgain(told.problem, told.Proven, elapsedMs(sent))
	switch told.Code {
	case "clock_skew":
		if told.Proven {
			// The next call goes by it, too.
			serverMs, _ := told.problem.ServerTimeMs()
			a.setClock(serverMs)
		}
	case "session_expired":
		verdict.over = true
	}
	return verdict
}

// endNative is DELETE /v3/sessions/<id>, sealed.
func (t *Transport) endNative(ctx context.Context, agreed *nativeSession) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, origin(t.authorityURL)+"/v3/sessions/"+agreed.session.ID(), nil)
	if err != nil {
		return err
	}
	var verdict verdict
	response, err := t.exchangeSealed(agreed, request, http.NoBody, 0, &Exchange{}, &verdict)
	if verdict.over {
		// It knows no such session any more: that is what was wanted.
		return nil
	}
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode/100 != 2 {
		return &ProblemError{Code: string(wire.CodeUnsealed), Status: response.StatusCode}
	}
	return nil
}
