package sealway

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"sealway.dev/go/mle"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// MLETransportConfig configures an [MLETransport]. A zero field means its default; Profile, Seal and Open have none.
type MLETransportConfig struct {
	// Profile has the form of the messages, such as mle.MastercardJWE().
	Profile mle.Profile
	// Seal are the keys of the service: of those that are valid the newest seals requests.
	Seal []*mle.SealingKey
	// Open are the keys that open answers, all of them live.
	Open *mle.OpeningKeys
	// PlainErrors returns an answer in clear with a status of 400 and more as it is: schemes report errors so. Any party between client and
	// service can make one. By default an answer in clear that has a body is an error.
	PlainErrors bool
	// Window is the greatest difference between the iat of an answer and this machine's clock, either way. The default is 5 minutes, the
	// greatest a day.
	Window time.Duration
	// TotalTimeout bounds the whole call. The default is 60 s; negative means no bound.
	TotalTimeout time.Duration
	// RequestMaxBytes and AnswerMaxBytes bound the bodies, which are sealed and opened whole. The default is 16 MiB.
	RequestMaxBytes, AnswerMaxBytes int64
	// Now is the clock. The default is time.Now.
	Now func() time.Time
	// Base sends the sealed messages; where a scheme signs the encrypted body, Base signs it. The default is [http.DefaultTransport].
	Base http.RoundTripper
}

// MLETransport is an [http.RoundTripper] that seals the bodies of requests as a card scheme does, and opens the answers. A request
// without a body has nothing to seal. Headers, method and path are in clear. It retries nothing. spec/mle.md
type MLETransport struct{ config MLETransportConfig }

// NewMLETransport returns a transport. A wrong option is an [*Error] of [StageConfiguration].
func NewMLETransport(config MLETransportConfig) (*MLETransport, error) {
	if err := checkMLEConfig(&config); err != nil {
		return nil, failure(StageConfiguration, nil, err)
	}
	return &MLETransport{config}, nil
}

func checkMLEConfig(c *MLETransportConfig) error {
	switch {
	case c.Profile.Name() == "":
		return &UsageError{"MLETransportConfig.Profile is missing: mle.MastercardJWE, Visa, VisaAcceptance and GenericJWE make one"}
	case len(c.Seal) == 0:
		return &UsageError{"MLETransportConfig.Seal is missing: mle.NewSealingKey makes the keys of the service"}
	case c.Open == nil:
		return &UsageError{"MLETransportConfig.Open is missing: mle.NewOpeningKeys makes it"}
	case c.Window < 0 || c.Window > wire.WindowMsMax*time.Millisecond:
		return &UsageError{fmt.Sprintf("MLETransportConfig.Window is %v: it is 0 to 24h, and 0 is the default", c.Window)}
	case c.RequestMaxBytes < 0 || c.AnswerMaxBytes < 0:
		return &UsageError{"MLETransportConfig.RequestMaxBytes or AnswerMaxBytes is negative: 0 is the default"}
	}
	c.TotalTimeout = orDefault(c.TotalTimeout, 60*time.Second)
	c.RequestMaxBytes = orDefault(c.RequestMaxBytes, 16<<20)
	c.AnswerMaxBytes = orDefault(c.AnswerMaxBytes, 16<<20)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Base == nil {
		c.Base = http.DefaultTransport
	}
	c.Profile = c.Profile.WithReplay(session.ReplayPolicy{WindowMs: uint64(c.Window.Milliseconds())}).WithTokenMax(int(c.AnswerMaxBytes))
	return nil
}

// Client returns an [http.Client] over the transport.
func (t *MLETransport) Client() *http.Client { return &http.Client{Transport: t} }

// RoundTrip seals a request, sends it, and opens the answer. Its error is an [*Error], or that of a context that the caller cancelled.
func (t *MLETransport) RoundTrip(request *http.Request) (*http.Response, error) {
	source := &bodySource{request: request}
	defer source.closeUnused()
	ctx, cancel := request.Context(), context.CancelFunc(func() {})
	if after := t.config.TotalTimeout; after > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, after, &TimeoutError{Wait: "the call", After: after, Option: "MLETransportConfig.TotalTimeout"})
	}
	defer cancel()
	response, err := t.exchange(ctx, request, source)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return response, failureOf(request.Context(), StageCall, request.URL, err)
}

func (t *MLETransport) nowMs() uint64 { return uint64(max(0, t.config.Now().UnixMilli())) }

func (t *MLETransport) exchange(ctx context.Context, request *http.Request, source *bodySource) (*http.Response, error) {
	sealed, err := t.seal(ctx, request, source)
	if err != nil {
		return nil, err
	}
	response, err := t.config.Base.RoundTrip(sealed)
	if err != nil {
		return nil, connectionError(err)
	}
	defer response.Body.Close()
	body, err := readBounded(response.Body, "the answer", t.config.AnswerMaxBytes)
	switch {
	case err != nil && !errors.As(err, new(*TooLargeError)):
		return nil, connectionError(err)
	case err != nil:
		return nil, err
	case redirects(response.StatusCode):
		return nil, &ProblemError{Code: codeRedirected, Status: response.StatusCode}
	}
	header := response.Header.Clone()
	isToken := t.config.Profile.IsToken(mle.Answer, header, body)
	if isPlain := len(body) == 0 || t.config.PlainErrors && response.StatusCode >= 400 && !isToken; !isPlain {
		if !isToken || isCompressed(header) {
			return nil, &ProblemError{Code: string(wire.CodeUnsealed), Status: response.StatusCode, HTML: isHTML(header)}
		}
		guard, err := mle.Open(body, header, t.config.Profile, mle.Answer, t.config.Open, t.nowMs(), rand.Reader)
		if err != nil {
			return nil, err
		}
		// An answer belongs to the connection of its request: there is no claim to reserve.
		plaintext, err := guard.Release(session.Reserved(guard.Claim()))
		if err != nil {
			return nil, err
		}
		body = plaintext.Bytes()
		maps.DeleteFunc(header, func(name string, _ []string) bool { return isOfBody(name) })
		header.Set("Content-Type", "application/json")
	}
	answer := *response
	answer.Header, answer.Body, answer.ContentLength, answer.Request = header, io.NopCloser(bytes.NewReader(body)), int64(len(body)), request
	answer.TransferEncoding, answer.Trailer, answer.Uncompressed = nil, nil, false
	return &answer, nil
}

// seal returns the request as it is sent.
func (t *MLETransport) seal(ctx context.Context, request *http.Request, source *bodySource) (*http.Request, error) {
	sealed := request.Clone(ctx)
	if sealed.Header == nil {
		sealed.Header = http.Header{}
	}
	// A compressed answer would not open, and the base transport asks for one by itself.
	sealed.Header.Set("Accept-Encoding", "identity")
	if source.empty() {
		return sealed, nil
	}
	body, err := source.open()
	if err != nil {
		return nil, err
	}
	// A read of the caller's source ends with the context.
	stop := context.AfterFunc(ctx, func() { body.Close() })
	plaintext, err := readBounded(body, "the body of the request", t.config.RequestMaxBytes)
	if stop() {
		body.Close()
	}
	if large, isLarge := err.(*TooLargeError); isLarge {
		large.isRequest = true
	}
	if err != nil {
		return nil, err
	}
	if len(plaintext) == 0 {
		sealed.Body, sealed.GetBody, sealed.ContentLength = http.NoBody, nil, 0
		return sealed, nil
	}
	now := t.nowMs()
	token, err := mle.Seal(plaintext, t.config.Profile, mle.Request, mle.Newest(t.config.Seal, now), now, rand.Reader)
	if err != nil {
		return nil, &UsageError{err.Error()}
	}
	maps.DeleteFunc(sealed.Header, func(name string, _ []string) bool { return isOfBody(name) })
	sealed.Header.Set("Content-Type", t.config.Profile.MediaType(mle.Request))
	sealed.Body, sealed.ContentLength, sealed.TransferEncoding, sealed.Trailer = io.NopCloser(bytes.NewReader(token)), int64(len(token)), nil, nil
	// Sent once: the service would take a second one for a replay.
	sealed.GetBody = nil
	return sealed, nil
}
