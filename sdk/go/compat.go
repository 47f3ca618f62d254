package sealway

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// compatSession is a session of wires 1 and 2.
type compatSession struct {
	life
	session *session.CompatClientSession
}

func (t *Transport) currentCompat(ctx context.Context) (*compatSession, error) {
	return t.compatSessionOtherThan(ctx, nil)
}

func (t *Transport) compatSessionOtherThan(ctx context.Context, not *compatSession) (*compatSession, error) {
	agreed, err := t.compat.get(ctx, not, func(ctx context.Context, _ *compatSession) (*compatSession, error) { return t.agreeCompat(ctx) })
	return agreed, failureOf(ctx, StageAgreement, t.authorityURL, err)
}

func (t *Transport) agreeCompat(ctx context.Context) (agreed *compatSession, err error) {
	seen := Exchange{Kind: "init", Wire: t.config.Wire, Method: "POST", Target: t.config.InitPath, Attempt: 1}
	start, lap := time.Now(), laps{}
	defer func() {
		err = failureOf(ctx, StageAgreement, t.authorityURL, err)
		seen.RoundTrip, seen.Steps, seen.Err = time.Since(start), lap.steps, err
		t.measured(seen)
	}()
	lap.begin()
	key, err := crypto.DrawP256(rand.Reader)
	if err != nil {
		return nil, err
	}
	init, message, err := session.NewCompatClientInit(t.config.Wire, t.config.InitPath == "/session/init/anon", t.config.ClientID, t.ttl(), key, random16(), nowMs())
	if err != nil {
		return nil, err
	}
	lap.named("share")
	header := http.Header{"Content-Type": {message.ContentType}}
	for _, pair := range message.Headers {
		header.Set(pair.Name, pair.Value)
	}
	if t.config.Authorization != nil {
		value, err := t.config.Authorization(ctx)
		if err != nil {
			return nil, err
		}
		if value != "" {
			header.Set("Authorization", value)
		}
	}
	sent := time.Now()
	status, answered, body, err := t.plain(ctx, "the answer to an init", "POST", t.config.InitPath, header, message.Body)
	seen.HTTP, seen.Status, seen.ServerTiming = time.Since(sent), status, ParseServerTiming(answered)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK || isHTML(answered) {
		return nil, problemOf(status, answered, session.ParseProblem(status, body, false), body)
	}
	lap.begin()
	made, err := init.Finish(body, nowMs())
	if err != nil {
		return nil, untrusted(err)
	}
	lap.named("agree")
	seen.SessionID = made.ID()
	return &compatSession{life{sent, time.Duration(made.LifeSec()) * time.Second}, made}, nil
}

func (t *Transport) roundTripCompat(request *http.Request, source *bodySource) (*http.Response, error) {
	if method(request) != http.MethodPost {
		return nil, &UsageError{"wires 1 and 2 seal POST alone"}
	}
	if t.config.Wire == wire.Wire1 && len(request.URL.EscapedPath()) > wire.PathLenMax {
		return nil, &UsageError{"the path is too long for wire 1"}
	}
	body, err := source.open()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(request.Context(), func() { body.Close() })
	plaintext, err := readBounded(body, "the body of the request", t.config.RequestMaxBytes)
	if large, ok := err.(*TooLargeError); ok {
		large.isRequest = true
	}
	if stop() {
		body.Close()
	} else if err != nil {
		err = context.Cause(request.Context())
	}
	if err != nil {
		return nil, err
	}
	agreed, err := t.currentCompat(request.Context())
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		seen := Exchange{Kind: "call", Wire: t.config.Wire, SessionID: agreed.session.ID(), Method: "POST", Target: target(request), Attempt: attempt}
		start := time.Now()
		response, err := t.exchangeCompat(agreed, request, plaintext, &seen)
		seen.RoundTrip, seen.Err = time.Since(start), err
		t.measured(seen)
		var problem *ProblemError
		if !errors.As(err, &problem) || problem.Status != http.StatusUnauthorized || problem.Code != "SESSION_EXPIRED" || attempt > 1 {
			return response, err
		}
		if agreed, err = t.compatSessionOtherThan(request.Context(), agreed); err != nil {
			return nil, err
		}
	}
}

func (t *Transport) exchangeCompat(agreed *compatSession, request *http.Request, plaintext []byte, seen *Exchange) (*http.Response, error) {
	lap := laps{}
	lap.begin()
	var random session.SealRandoms
	rand.Read(random.IV[:])
	rand.Read(random.Nonce[:])
	path := request.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	message, pending := agreed.session.Seal(path, plaintext, nowMs(), random)
	lap.named("seal")
	wait := newDeadline(request.Context(), t.config.HeadTimeout, "the head of the answer")
	sealed, err := http.NewRequestWithContext(wait.traced(), "POST", request.URL.String(), strings.NewReader(string(message.Body)))
	if err != nil {
		return nil, wait.end(err)
	}
	sealed.Host = request.Host
	// The library would send a request again whose connection broke, for it takes X-Idempotency-Key for a promise: the service
	// would take it for a replay.
	sealed.GetBody = nil
	// These wires seal no headers: the caller's go beside the seal, in the clear.
	sealed.Header = request.Header.Clone()
	if sealed.Header == nil {
		sealed.Header = http.Header{}
	}
	sealed.Header.Set("Accept-Encoding", "identity")
	sealed.Header.Set("Content-Type", message.ContentType)
	for _, pair := range message.Headers {
		sealed.Header.Set(pair.Name, pair.Value)
	}
	sent := time.Now()
	response, err := t.config.Base.RoundTrip(sealed)
	if err != nil {
		return nil, wait.unanswered(err)
	}
	defer response.Body.Close()
	wait.head()
	body, err := readBounded(&idleReader{response.Body, wait, t.config.IdleTimeout}, "the answer", t.config.AnswerMaxBytes)
	seen.HTTP, seen.Status, seen.ServerTiming = time.Since(sent), response.StatusCode, ParseServerTiming(response.Header)
	if err != nil {
		return nil, wait.end(err)
	}
	wait.stop()
	if len(response.Header.Values(wire.HeaderKid)) == 0 {
		return nil, problemOf(response.StatusCode, response.Header, session.ParseProblem(response.StatusCode, body, false), body)
	}
	lap.begin()
	opened, err := pending.Open(response.Header, response.StatusCode, body, nowMs(), session.ReplayPolicy{})
	lap.named("open")
	seen.Steps = lap.steps
	if err != nil {
		return nil, err
	}
	if redirects(response.StatusCode) {
		return nil, &ProblemError{Code: codeRedirected, Status: response.StatusCode}
	}
	header := response.Header.Clone()
	maps.DeleteFunc(header, func(name string, _ []string) bool {
		return wire.IsSealing(name) || name == "Content-Length" || name == "Content-Encoding" || name == "Transfer-Encoding"
	})
	// The plaintext has no headers; these wires carry JSON.
	header.Set("Content-Type", "application/json")
	return &http.Response{Status: response.Status, StatusCode: response.StatusCode, Proto: response.Proto, ProtoMajor: response.ProtoMajor,
		ProtoMinor: response.ProtoMinor, Header: header, Body: io.NopCloser(strings.NewReader(string(opened))),
		ContentLength: int64(len(opened)), Request: request, TLS: response.TLS}, nil
}
