package sealway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// OneShot returns a client that seals each request to a key of the service at origin, without a session (wire 4): 0 round trips before
// the first request, and no forward secrecy within the life of the key. trust is [TrustKeyConfigs], [TrustKids] or [TrustRoot]; a wrong
// one is an error of the first request. [NewTransport] with [Config].Wire 4 takes more options, such as a PSK. spec/one-shot.md
func OneShot(origin string, trust Trust) *http.Client {
	transport, err := NewTransport(origin, Config{Wire: wire.Wire4, Trust: trust})
	if err != nil {
		return &http.Client{Transport: unusable{err}}
	}
	return transport.Client()
}

// unusable is a transport that was not configured well.
type unusable struct{ err error }

// RoundTrip returns the error of the configuration.
func (u unusable) RoundTrip(request *http.Request) (*http.Response, error) {
	(&bodySource{request: request}).closeUnused()
	return nil, u.err
}

// Errors of one-shot requests, for errors.Is.
const (
	// ErrKeyRetired says that the service accepts the key no more: a [KeyRetiredError] names its keys.
	ErrKeyRetired = wire.CodeKeyRetired
	// ErrReplayed says that the service received the request before. The outcome of the request is unknown.
	ErrReplayed = wire.CodeReplayed
	// ErrClockSkew says that the stamp was off, and that the request may not be sent again. The next request has the right stamp.
	ErrClockSkew = wire.Code("clock_skew")
	// ErrTruncated says that an answer ended before its last frame.
	ErrTruncated = wire.CodeStreamTruncated
	// ErrPolicy says that the route does not allow this client.
	ErrPolicy = wire.CodePolicy
)

// KeyRetiredError says that the service accepts no key that the client trusts, or not the key of a request.
type KeyRetiredError struct {
	// Kids are the keys of the service's document, the preferred one first; empty without a document.
	Kids []string
	// Verified says that the pinned root signed the document. The next request uses its keys.
	Verified bool
}

func (e *KeyRetiredError) Error() string {
	if e.Verified {
		return "the key of this request is retired: the next request uses the keys that the root signed"
	}
	return "the service accepts none of the trusted keys: ask its operator which keys are its own, and pin those or their root"
}

// Unwrap returns [ErrKeyRetired].
func (e *KeyRetiredError) Unwrap() error { return ErrKeyRetired }

// PSK is a pre-shared key of one-shot requests.
type PSK struct {
	// ID is its public name: 1 to 64 bytes of 0x21 to 0x7e. Everyone on the path sees it.
	ID string
	// Key has 32 random bytes. It must not be a password.
	Key []byte
}

// String shows the id alone.
func (p PSK) String() string { return "PSK(" + p.ID + ")" }

// Format is String, whatever the verb: no verb shows a key.
func (p PSK) Format(state fmt.State, _ rune) { io.WriteString(state, p.String()) }

// MarshalJSON is String, so that no log gets the key by accident.
func (p PSK) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

// oneShotClient is what a transport knows of the keys and the clock of a service on wire 4.
type oneShotClient struct {
	*documents
	pskID string
	psk   session.Key
	// offsetMs is the server's clock minus this machine's, in milliseconds.
	offsetMs atomic.Int64
}

// oneShotKey seals the requests of a call to one key.
type oneShotKey struct {
	*session.OneShot
	t *Transport
}

func (k *oneShotKey) leadLen() int { return k.LeadLen() }

func (k *oneShotKey) seal(line session.Line, contentType string) (wire.HeaderList, *session.FrameSealer, *session.Call, error) {
	ephemeral, err := crypto.DrawEphemeral(k.KEM(), rand.Reader, crypto.EncapsulationKey.Encapsulate)
	if err != nil {
		return nil, nil, nil, err
	}
	stampMs := uint64(max(0, int64(nowMs())+k.t.oneShot.offsetMs.Load()))
	headers, sealer, call, err := k.Seal(line, contentType, stampMs, random16(), ephemeral)
	if errors.Is(err, wire.CodePublicKeyInvalid) {
		err = failure(StageAgreement, k.t.authorityURL, &TrustError{KeyID: k.Kid(), Err: err,
			Reason: "it is no public key of " + k.KEM().String() + ". Ask the service's operator for another"})
	}
	return headers, sealer, call, err
}

func (k *oneShotKey) judge(call *session.Call, sent time.Time, told *ProblemError) (verdict verdict) {
	told.oneShot = true
	problem := told.problem
	switch {
	case problem == nil:
		return verdict
	case problem.Misplaced() && problem.Sealed:
		told.Code, told.unproven = string(wire.CodeAnswerMismatch), problem.Code
		return verdict
	case problem.Misplaced():
		told.Code, told.unproven, told.problem = string(wire.CodeUnsealed), problem.Code, nil
		return verdict
	}
	if told.Proven = call.Proven(problem); told.Proven {
		// The next call goes by it, too.
		serverMs, _ := problem.ServerTimeMs()
		k.t.oneShot.offsetMs.Store(int64(serverMs) - int64(nowMs()))
	}
	verdict.again = call.SendsAgain(problem, told.Proven, elapsedMs(sent))
	verdict.over = problem.Code == "key_retired"
	return verdict
}

// roundTripOneShot is a call on wire 4. It is sent once more where that is proven safe: spec/one-shot.md#problems
func (t *Transport) roundTripOneShot(request *http.Request, source *bodySource) (*http.Response, error) {
	clockSet, keyReplaced := false, false
	for attempt := 1; ; attempt++ {
		key, err := t.oneShotKey(request.Context())
		if err != nil {
			return nil, err
		}
		body, err := source.open()
		if err != nil {
			return nil, err
		}
		seen := Exchange{Kind: "call", Wire: wire.Wire4, Suite: key.KEM().String(), Method: method(request), Target: target(request), Attempt: attempt}
		start := time.Now()
		var verdict verdict
		response, err := t.exchangeSealed(key, request, body, source.length(), &seen, &verdict)
		var retired *KeyRetiredError
		if verdict.over {
			retired, err = t.retireKey(request.Context(), err)
		}
		seen.RoundTrip, seen.Err = time.Since(start), err
		t.measured(seen)
		again := verdict.again && source.again()
		switch {
		case err == nil:
			return response, nil
		case again && retired != nil && retired.Verified && !keyReplaced:
			keyReplaced = true
		case again && !verdict.over && !clockSet:
			clockSet = true
		default:
			return nil, err
		}
	}
}

// retireKey takes the key document of a key_retired, where a root is pinned, and returns the error for the caller of the request.
func (t *Transport) retireKey(ctx context.Context, rejection error) (*KeyRetiredError, error) {
	retired := &KeyRetiredError{}
	var problem *ProblemError
	if !errors.As(rejection, &problem) {
		return nil, rejection
	}
	text := problem.problem.KeyDocument()
	document, err := session.ParseKeyDocument(text)
	if err == nil {
		retired.Kids = document.Kids()
	}
	if t.oneShot.trust.kind == trustKids {
		// Nothing proves the times of the held document: the next request fetches it anew.
		t.oneShot.held.forget()
	}
	if text == nil || t.oneShot.trust.kind != trustRoot {
		return retired, retired
	}
	if err := t.oneShot.replace(ctx, text); err != nil {
		return nil, err
	}
	retired.Verified = true
	return retired, retired
}

// oneShotKey returns the key to use now, and fetches the key document where that is needed.
func (t *Transport) oneShotKey(ctx context.Context) (*oneShotKey, error) {
	key, err := t.oneShot.key(ctx, t.fetchDocument)
	if err != nil {
		return nil, failureOf(ctx, StageAgreement, t.authorityURL, err)
	}
	one, err := session.NewOneShot(key, t.oneShot.pskID, t.oneShot.psk)
	if err != nil {
		return nil, err
	}
	return &oneShotKey{one, t}, nil
}

func (t *Transport) fetchDocument(ctx context.Context) ([]byte, error) {
	status, _, document, err := t.plain(ctx, "the key document", "GET", KeyDocumentPath, http.Header{}, nil)
	if err == nil && status != http.StatusOK {
		err = &TrustError{Reason: "it publishes no key document; pin a key configuration itself", Err: wire.Refuse(wire.CodeKeyUntrusted)}
	}
	return document, err
}
