package sealway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

const renewBeforeMax = time.Minute

// life is how long a session lasts since its init was sent, by the longer of two clocks: a machine that slept finds it over.
type life struct {
	sent time.Time
	span time.Duration
}

func (l life) left() time.Duration { return l.span - passed(l.sent) }

// fresh is all of its life but the last tenth, a minute at most.
func (l life) fresh() bool { return l.left() > min(l.span/10, renewBeforeMax) }

// over is the last hundredth, a second at most: a request on its way would come too late.
func (l life) over() bool { return l.left() <= min(l.span/100, time.Second) }

type nativeSession struct {
	life
	session *session.ClientSession
	mu      sync.Mutex
	// The server's clock was serverMs at the moment at.
	serverMs uint64
	at       time.Time
}

// stampMs is the server's clock as this session knows it: what the server said, and what has passed since.
func (a *nativeSession) stampMs() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.serverMs + uint64(max(0, time.Since(a.at).Milliseconds()))
}

func (a *nativeSession) setClock(serverMs uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.serverMs, a.at = serverMs, time.Now()
}

// passed is what passed since a moment of this process.
func passed(since time.Time) time.Duration {
	now := time.Now()
	return longer(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// longer is the longer of what passed by a clock that never jumps and by the clock of the day: the former may stand still while a
// machine sleeps.
func longer(steady, day time.Duration) time.Duration { return max(steady, day, 0) }

// elapsedMs is how long ago a request was sent, rounded up.
func elapsedMs(sent time.Time) uint64 {
	return uint64((passed(sent) + time.Millisecond - 1) / time.Millisecond)
}

func nowMs() uint64 { return uint64(max(0, time.Now().UnixMilli())) }

func random16() (out [16]byte) {
	rand.Read(out[:]) // never fails
	return out
}

func (t *Transport) currentNative(ctx context.Context) (*nativeSession, error) {
	return t.nativeSessionOtherThan(ctx, nil)
}

func (t *Transport) nativeSessionOtherThan(ctx context.Context, not *nativeSession) (*nativeSession, error) {
	agreed, err := t.native.get(ctx, not, func(ctx context.Context, old *nativeSession) (*nativeSession, error) {
		if old != nil && !old.over() {
			// An init may succeed where a renewal failed.
			if renewed, err := t.agreeNative(ctx, old); err == nil {
				return renewed, nil
			}
		}
		return t.agreeNative(ctx, nil)
	})
	return agreed, failureOf(ctx, StageAgreement, t.authorityURL, err)
}

// agreeNative agrees a session, or renews old. Begins anew at most once for a suite, and once for new keys of a root.
func (t *Transport) agreeNative(ctx context.Context, old *nativeSession) (*nativeSession, error) {
	suite, mayChange, mayRetake := t.config.Suites[0], true, true
	if old != nil {
		suite = crypto.Suite(old.session.Agreed().Suite)
	}
	for {
		agreed, err := t.agreeOnce(ctx, suite, old)
		var problem *ProblemError
		if !errors.As(err, &problem) {
			return agreed, err
		}
		switch {
		case problem.Code == "suite_required" && mayChange:
			wanted := slices.IndexFunc(t.config.Suites, func(suite crypto.Suite) bool {
				return slices.Contains(problem.problem.Suites(), string(suite))
			})
			if wanted < 0 || t.config.Suites[wanted] == suite {
				return nil, err
			}
			suite, mayChange = t.config.Suites[wanted], false
		case problem.Code == "key_retired" && mayRetake:
			mayRetake = false
			if err := t.ring.retired(problem.problem.KeySet(), nowMs()); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

func (t *Transport) agreeOnce(ctx context.Context, suite crypto.Suite, old *nativeSession) (agreed *nativeSession, err error) {
	seen := Exchange{Kind: "init", Wire: wire.Wire3, Suite: string(suite), Method: "POST", Target: "/v3/sessions", Attempt: 1}
	start, lap := time.Now(), laps{}
	defer func() {
		err = failureOf(ctx, StageAgreement, t.authorityURL, err)
		seen.RoundTrip, seen.Steps, seen.Err = time.Since(start), lap.steps, err
		t.measured(seen)
	}()
	var authorization string
	var renewed *session.ClientSession
	if old != nil {
		renewed = old.session
		seen.Kind, seen.Target = "renew", seen.Target+"/"+renewed.ID()+"/renew"
	} else if t.config.Authorization != nil {
		if authorization, err = t.config.Authorization(ctx); err != nil {
			return nil, err
		}
	}
	lap.begin()
	keys, err := crypto.DrawKeys(suite, true, rand.Reader)
	if err != nil {
		return nil, err
	}
	offer := session.Offer{Suites: t.config.Suites, ClientID: t.config.ClientID, TTLSec: t.ttl(), PinnedKeyIDs: t.ring.pinned(), Authorization: authorization,
		SignatureAlgorithms: t.config.SignatureAlgorithms}
	init, err := session.NewClientInit(offer, suite, keys, renewed)
	if err != nil {
		return nil, err
	}
	lap.named("share")
	if t.config.Proof != nil && old == nil {
		proof, err := t.config.Proof(ctx, init.InitHash())
		if err != nil {
			return nil, err
		}
		init.SetProof(proof)
	}
	sent := time.Now()
	status, header, body, err := t.sendInit(ctx, init.Body(), authorization, old, seen.Target)
	seen.HTTP, seen.Status, seen.ServerTiming = time.Since(sent), status, ParseServerTiming(header)
	if err != nil {
		return nil, err
	}
	arrived := time.Now()
	claimed, err := init.Claimed(status, body)
	if err != nil {
		return nil, untrusted(err)
	}
	public, err := t.trustedKey(ctx, claimed.KeyID, claimed.ServerTimeMs)
	if err != nil {
		return nil, err
	}
	lap.begin()
	made, err := init.Finish(status, body, func(string) []byte { return public })
	if err != nil {
		return nil, untrusted(err)
	}
	lap.named("agree")
	if err := t.keepKeys(ctx, made.Agreed()); err != nil {
		return nil, err
	}
	seen.SessionID = made.ID()
	span := time.Duration(made.Agreed().ExpiresInSec) * time.Second
	return &nativeSession{life: life{sent, span}, session: made, serverMs: made.Agreed().ServerTimeMs, at: arrived}, nil
}

func untrusted(err error) error {
	return &TrustError{Reason: "its answer to the init does not hold", Err: err}
}

func (t *Transport) ttl() *uint32 {
	if t.config.TTL == 0 {
		return nil
	}
	sec := uint32(t.config.TTL / time.Second)
	return &sec
}

// sendInit sends an init in plain, or a renewal in the session that it is about.
func (t *Transport) sendInit(ctx context.Context, body []byte, authorization string, old *nativeSession, target string) (int, http.Header, []byte, error) {
	if old != nil {
		request, err := http.NewRequestWithContext(ctx, "POST", origin(t.authorityURL)+target, bytes.NewReader(body))
		if err != nil {
			return 0, nil, nil, err
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := t.exchangeSealed(old, request, bytes.NewReader(body), int64(len(body)), &Exchange{}, nil)
		if err != nil {
			return 0, nil, nil, err
		}
		defer response.Body.Close()
		answer, err := readBounded(response.Body, "the answer to a renewal", wire.ProblemLenMax)
		if err == nil && response.StatusCode != http.StatusCreated {
			err = &ProblemError{Code: string(wire.CodeUnsealed), Status: response.StatusCode}
		}
		return response.StatusCode, nil, answer, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if authorization != "" {
		header.Set("Authorization", authorization)
	}
	status, answered, answer, err := t.plain(ctx, "the answer to an init", "POST", target, header, body)
	if err == nil && status != http.StatusCreated {
		err = problemOf(status, answered, session.ParseProblem(status, answer, false), answer)
	}
	return status, answered, answer, err
}

// plain exchanges what is not sealed with the side that agrees sessions and publishes keys; what names the answer.
func (t *Transport) plain(ctx context.Context, what, method, target string, header http.Header, body []byte) (int, http.Header, []byte, error) {
	wait := newDeadline(ctx, t.config.HeadTimeout, what)
	request, err := http.NewRequestWithContext(wait.traced(), method, origin(t.authorityURL)+target, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, wait.end(err)
	}
	request.Header, request.GetBody = header, nil // sent once: its nonce is good for one
	response, err := t.config.Base.RoundTrip(request)
	if err != nil {
		return 0, nil, nil, wait.unanswered(err)
	}
	defer response.Body.Close()
	answer, err := readBounded(response.Body, what, wire.ProblemLenMax)
	return response.StatusCode, response.Header, answer, wait.end(err)
}

func readBounded(body io.Reader, what string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, &TooLargeError{Message: what, Max: limit}
	}
	return data, err
}

// trustedKey returns the identity key with this id if it is trusted at the server's time; asks the service for its key set where that
// is needed.
func (t *Transport) trustedKey(ctx context.Context, id string, serverMs uint64) ([]byte, error) {
	public, ask, err := t.ring.key(id, serverMs, nowMs())
	if ask {
		set, err := t.keySet(ctx)
		if err != nil {
			return nil, err
		}
		public, err = t.ring.lookUp(id, set, serverMs, nowMs())
		if err != nil {
			return nil, err
		}
	}
	if err == nil && !t.ring.accepts(public) {
		err = &TrustError{KeyID: id, Reason: "it " + notAccepted(t.config.SignatureAlgorithms, public), Err: wire.Refuse(wire.CodeKeyUntrusted)}
	}
	return public, err
}

func (t *Transport) keySet(ctx context.Context) ([]byte, error) {
	status, _, set, err := t.plain(ctx, "the key set", "GET", KeySetPath, http.Header{}, nil)
	if err == nil && status != http.StatusOK {
		err = &TrustError{Reason: "it publishes no key set; pin its public key itself", Err: wire.Refuse(wire.CodeKeyUntrusted)}
	}
	return set, err
}

func (t *Transport) keepKeys(ctx context.Context, answer *session.InitAnswer) error {
	if t.ring.wantsSet(answer) {
		// The key in use is known; if this fails the next agreement asks again for the others.
		if set, err := t.keySet(ctx); err == nil {
			if err := t.ring.take(set, nowMs()); err != nil {
				return err
			}
		}
	}
	return t.ring.remember(answer)
}

// problemOf makes an error of a rejection: a problem, sealed or not, or a body of another form.
func problemOf(status int, header http.Header, problem *session.Problem, body []byte) *ProblemError {
	told := &ProblemError{Code: string(wire.CodeUnsealed), Status: status, problem: problem}
	var plain struct {
		Error string `json:"error"`
	}
	switch {
	case told.problem != nil:
		told.Code = told.problem.Code
		told.Field = told.problem.Field()[:min(64, len(told.problem.Field()))]
	case status >= 300 && status <= 399:
		told.Code = codeRedirected
	case json.Unmarshal(body, &plain) == nil && publicStrings[plain.Error]:
		told.Code = plain.Error
	default:
		told.HTML = isHTML(header)
	}
	if wait, err := time.ParseDuration(header.Get("Retry-After") + "s"); err == nil && wait > 0 {
		told.RetryAfter = min(wait, 24*time.Hour)
	}
	return told
}

func isHTML(header http.Header) bool {
	kind, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/html")
}

var publicStrings = map[string]bool{"CRYPTO_ERROR": true, "SESSION_EXPIRED": true, "SESSION_FORBIDDEN": true, "WIRE_DISABLED": true, "NOT_FOUND": true,
	"METHOD_NOT_ALLOWED": true, "PAYLOAD_TOO_LARGE": true, "RATE_LIMITED": true, "SERVICE_UNAVAILABLE": true}
