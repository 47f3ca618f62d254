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
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"sealway.dev/go/internal/exchange"
	"sealway.dev/go/mle"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// headerWire says to a handler how the request came: mle: and the name of the profile.
const headerWire = "X-Sealway-Wire"

// MLEMiddlewareConfig configures an [MLEMiddleware]. A zero field means its default; Profile, Open, Seal and Store have none.
type MLEMiddlewareConfig struct {
	// Profile has the form of the messages, such as mle.Visa().
	Profile mle.Profile
	// Open are the keys that open requests, all of them live.
	Open *mle.OpeningKeys
	// Seal returns the keys of the caller of a request, to which the answer is sealed: of those that are valid the newest. None is a
	// caller that may not use the route: 403, before a private key is used. [SealTo] is for one recipient.
	Seal func(*http.Request) []*mle.SealingKey
	// Store claims each token once, such as [NewAuthorityStore]. A [MemoryStore] forgets with its process, so that a token can be replayed
	// after a restart within its window. A token without a time is claimed ahead of the clock by half of the window, which redisstore
	// does not grant.
	Store ClaimStore
	// AllowReplays opens a token as often as it comes, without a Store.
	AllowReplays bool
	// PlainErrors leaves answers with a status of 400 and more in clear.
	PlainErrors bool
	// Window is the greatest difference between iat and this machine's clock, either way. The default is 5 minutes, the greatest a day.
	Window time.Duration
	// TrustForwarded is that of [MiddlewareConfig].
	TrustForwarded bool
	// StoreTimeout bounds a question to the store. The default is 5 s.
	StoreTimeout time.Duration
	// BodyTimeout bounds the wait for the whole body of a request. The default is 30 s.
	BodyTimeout time.Duration
	// BodyMaxBytes bounds the body of a request. The default is 1 MiB.
	BodyMaxBytes int64
	// BufferedMaxBytes bounds the sealed bodies in memory, of all requests together. The default is 64 MiB, the minimum 1 MiB. One remote
	// address may use a sixteenth of it, or BodyMaxBytes if that is more. With TrustForwarded the address of the proxy may use all of it.
	BufferedMaxBytes int64
	// OpeningsMax bounds the private operations that run or wait; a request beyond is rejected with 503. The default is 64 a processor.
	OpeningsMax int
	// AnswerMaxBytes bounds answers, which are sealed whole. The default is 16 MiB.
	AnswerMaxBytes int64
	// Now is the clock. The default is time.Now.
	Now func() time.Time
	// OnRefusal receives every rejected request. It must not block.
	OnRefusal func(Refusal)
}

// SealTo is a [MLEMiddlewareConfig].Seal that seals every answer to one recipient, without a look at the caller: each holder of the public
// key can make a request, so the sender has to be authenticated in front.
func SealTo(keys ...*mle.SealingKey) func(*http.Request) []*mle.SealingKey {
	return func(*http.Request) []*mle.SealingKey { return keys }
}

// MLEMiddleware opens requests that are encrypted as card schemes do and seals the answers of ordinary handlers. Every request with a body
// has to be a token of the profile; GET, HEAD and DELETE may be without one. Whatever is wrong with a token, the answer is the same:
// 400 and {"error":"CRYPTO_ERROR"}. A handler reads from X-Sealway-Wire that a request came as a token. spec/mle.md
type MLEMiddleware struct {
	config   MLEMiddlewareConfig
	room     *room
	openings chan struct{} // holds one for each private operation that runs or waits
}

// NewMLEMiddleware returns a middleware. A wrong option is a [*UsageError].
func NewMLEMiddleware(config MLEMiddlewareConfig) (*MLEMiddleware, error) {
	switch {
	case config.Profile.Name() == "":
		return nil, &UsageError{"MLEMiddlewareConfig.Profile is missing: mle.MastercardJWE, Visa, VisaAcceptance and GenericJWE make one"}
	case config.Open == nil:
		return nil, &UsageError{"MLEMiddlewareConfig.Open is missing: mle.NewOpeningKeys makes it"}
	case config.Seal == nil:
		return nil, &UsageError{"MLEMiddlewareConfig.Seal is missing: it returns the keys of a caller, and SealTo is for one recipient"}
	case config.Store == nil && !config.AllowReplays:
		return nil, &UsageError{"MLEMiddlewareConfig.Store is missing: NewAuthorityStore makes one; AllowReplays opens tokens as often as they come"}
	case config.Window < 0 || config.Window > wire.WindowMsMax*time.Millisecond:
		return nil, &UsageError{fmt.Sprintf("MLEMiddlewareConfig.Window is %v: it is 0 to 24h, and 0 is the default", config.Window)}
	case config.StoreTimeout < 0 || config.BodyTimeout < 0 || config.BodyMaxBytes < 0 || config.AnswerMaxBytes < 0 || config.OpeningsMax < 0:
		return nil, &UsageError{"MLEMiddlewareConfig.StoreTimeout, BodyTimeout, BodyMaxBytes, AnswerMaxBytes or OpeningsMax is negative: 0 is the default"}
	}
	config.BufferedMaxBytes = orDefault(config.BufferedMaxBytes, bufferedBytesMax)
	if config.BufferedMaxBytes < bufferedBytesMin {
		return nil, &UsageError{fmt.Sprintf("MLEMiddlewareConfig.BufferedMaxBytes is %d: it is %d at least, 1 MiB, or 0 for 64 MiB", config.BufferedMaxBytes, bufferedBytesMin)}
	}
	config.StoreTimeout = orDefault(config.StoreTimeout, 5*time.Second)
	config.BodyTimeout = orDefault(config.BodyTimeout, 30*time.Second)
	config.BodyMaxBytes = min(orDefault(config.BodyMaxBytes, wire.SealedBodyMax), config.BufferedMaxBytes)
	config.AnswerMaxBytes = orDefault(config.AnswerMaxBytes, 16<<20)
	config.OpeningsMax = orDefault(config.OpeningsMax, 64*runtime.GOMAXPROCS(0))
	if config.Now == nil {
		config.Now = time.Now
	}
	config.Profile = config.Profile.WithReplay(session.ReplayPolicy{WindowMs: uint64(config.Window.Milliseconds())}).WithTokenMax(int(config.BodyMaxBytes))
	return &MLEMiddleware{config, newRoom(config.BufferedMaxBytes, config.BodyMaxBytes), make(chan struct{}, config.OpeningsMax)}, nil
}

func (m *MLEMiddleware) nowMs() uint64 { return uint64(max(0, m.config.Now().UnixMilli())) }

// Handler returns a handler that opens requests for next and seals its answers.
func (m *MLEMiddleware) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := m.serve(w, r, next); err != nil {
			m.reject(w, err)
		}
	})
}

// serve is one request. Its error is that of a request of which nothing was answered.
func (m *MLEMiddleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) error {
	boundBody(w, r, m.config.BodyTimeout)
	// A key is chosen before the handler acts: an answer that cannot be sealed would be lost after it.
	recipients := m.config.Seal(r)
	if len(recipients) == 0 {
		return wire.Refuse(wire.CodePolicy)
	}
	if mle.Newest(recipients, m.nowMs()) == nil {
		return exchange.Unanswered.Because(errors.New("sealway: no key of the recipient is valid now: see the times of its certificates"))
	}
	if isCompressed(r.Header) {
		return exchange.Compressed
	}
	held := m.holding(r)
	defer held.keep(0)
	body, err := m.read(r, held)
	if err != nil {
		return err
	}
	freeBody(w)
	isOpened := len(body) > 0 || r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodDelete
	if isOpened {
		if body, err = m.open(r, body); err != nil {
			return err
		}
	}
	answer := &wholeAnswer{header: http.Header{}, max: m.config.AnswerMaxBytes}
	next.ServeHTTP(answer, m.plain(r, body, isOpened))
	return m.answer(w, r, answer, recipients)
}

func (m *MLEMiddleware) holding(r *http.Request) *holding {
	if m.config.TrustForwarded {
		return m.room.holding("")
	}
	return m.room.holding(r.RemoteAddr)
}

// read reads the body whole, and holds nothing for what was only announced.
func (m *MLEMiddleware) read(r *http.Request, held *holding) ([]byte, error) {
	if r.ContentLength > m.config.BodyMaxBytes {
		return nil, wire.Refuse(wire.CodeBodyTooLarge)
	}
	var body []byte
	until := time.Now().Add(m.config.BodyTimeout)
	for part := make([]byte, rawMax); ; {
		n, err := r.Body.Read(part)
		if int64(len(body)+n) > m.config.BodyMaxBytes {
			return nil, wire.Refuse(wire.CodeBodyTooLarge)
		}
		if err := held.grow(n); err != nil {
			return nil, err
		}
		body = append(body, part[:n]...)
		switch {
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil || time.Now().After(until):
			// Not every server keeps deadlines of its own.
			return nil, wire.Refuse(wire.CodeStreamTruncated)
		}
	}
}

// open opens a request's token and claims it. A full queue rejects the request before a private key is used, with 503.
func (m *MLEMiddleware) open(r *http.Request, body []byte) ([]byte, error) {
	select {
	case m.openings <- struct{}{}:
	default:
		return nil, exchange.BodyNoRoom.Because(errors.New("sealway: OpeningsMax private operations run or wait"))
	}
	guard, err := mle.Open(body, r.Header, m.config.Profile, mle.Request, m.config.Open, m.nowMs(), rand.Reader)
	<-m.openings
	if err != nil {
		return nil, err
	}
	fresh := session.Reserved(guard.Claim())
	if !m.config.AllowReplays {
		ctx, cancel := context.WithTimeout(r.Context(), m.config.StoreTimeout)
		defer cancel()
		if fresh, err = m.config.Store.Reserve(ctx, guard.Claim()); err != nil {
			return nil, err
		}
	}
	plaintext, err := guard.Release(fresh)
	if err != nil {
		return nil, err
	}
	return plaintext.Bytes(), nil
}

// plain is the request that a handler sees.
func (m *MLEMiddleware) plain(r *http.Request, body []byte, isOpened bool) *http.Request {
	request, url := r.WithContext(r.Context()), *r.URL
	request.URL, request.Header, request.Trailer, request.TransferEncoding = &url, r.Header.Clone(), nil, nil
	maps.DeleteFunc(request.Header, func(name string, _ []string) bool {
		return session.IsClaimed(name) || session.IsOrigin(name) && !session.IsBelieved(name, m.config.TrustForwarded) || isOfBody(name)
	})
	request.Body, request.ContentLength = http.NoBody, int64(len(body))
	if len(body) > 0 {
		request.Body = io.NopCloser(bytes.NewReader(body))
	}
	if isOpened {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set(headerWire, "mle:"+m.config.Profile.Name())
	}
	// A compressed answer, or a part of one, cannot be sealed.
	for _, name := range []string{"Expect", "Range", "If-Range", "Te"} {
		request.Header.Del(name)
	}
	request.Header.Set("Accept-Encoding", "identity")
	return request
}

// answer seals an answer and sends it.
func (m *MLEMiddleware) answer(w http.ResponseWriter, r *http.Request, answer *wholeAnswer, recipients []*mle.SealingKey) error {
	if answer.err != nil {
		return exchange.Unanswered.Because(answer.err)
	}
	answer.WriteHeader(http.StatusOK)
	body := answer.body
	if isPlain := len(body) == 0 || m.config.PlainErrors && answer.status >= 400; !isPlain {
		if isCompressed(answer.header) {
			return exchange.Unanswered.Because(errors.New("sealway: the handler compressed its answer, though nothing asked for that"))
		}
		now := m.nowMs()
		sealed, err := mle.Seal(body, m.config.Profile, mle.Answer, mle.Newest(recipients, now), now, rand.Reader)
		if err != nil {
			return exchange.Unanswered.Because(err)
		}
		body = sealed
		maps.DeleteFunc(answer.header, func(name string, _ []string) bool { return isOfBody(name) })
		answer.header.Set("Content-Type", m.config.Profile.MediaType(mle.Answer))
	}
	maps.Copy(w.Header(), answer.header)
	if r.Method != http.MethodHead && bodyAllowed(answer.status) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(answer.status)
	w.Write(body)
	return nil
}

// bodyAllowed says whether an answer of this status has a body.
func bodyAllowed(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

func (m *MLEMiddleware) reject(w http.ResponseWriter, err error) {
	rejection := exchange.Reject(err)
	var refused *mle.Refusal
	if errors.As(err, &refused) {
		rejection = exchange.Refusal(refused.Class).Because(err)
	}
	status := sendRejection(w, exchange.Plain, rejection)
	if m.config.OnRefusal != nil {
		m.config.OnRefusal(Refusal{0, status, string(rejection.Refusal), rejection.Err})
	}
}

func isCompressed(header http.Header) bool {
	return slices.ContainsFunc(header.Values("Content-Encoding"), func(coding string) bool { return !strings.EqualFold(coding, "identity") })
}

// ofBody are headers that describe one body: a digest of a plaintext beside a token would let it be guessed.
var ofBody = strings.Fields(`accept-ranges content-encoding content-length content-range content-type etag last-modified trailer transfer-encoding
	content-digest repr-digest digest content-md5`)

func isOfBody(name string) bool { return slices.Contains(ofBody, strings.ToLower(name)) }

// wholeAnswer keeps the answer of a handler. What is sent before its end, such as an interim answer, would be in clear.
type wholeAnswer struct {
	header http.Header
	status int // 0 before it is set
	body   []byte
	max    int64
	err    error
}

// Header returns the headers of the answer.
func (a *wholeAnswer) Header() http.Header { return a.header }

// WriteHeader sets the status, once.
func (a *wholeAnswer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
		// Headers count as they are now.
		a.header = a.header.Clone()
	}
}

// Write takes a part of the body.
func (a *wholeAnswer) Write(data []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if !bodyAllowed(a.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if int64(len(a.body)+len(data)) > a.max && a.err == nil {
		a.err = &TooLargeError{Message: "the answer of the handler", Max: a.max}
	}
	if a.err != nil {
		return 0, a.err
	}
	a.body = append(a.body, data...)
	return len(data), nil
}
