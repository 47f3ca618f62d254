package sealway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// twice gives the body of a request a second time.
func twice(r *http.Request) *http.Request {
	body, _ := io.ReadAll(r.Body)
	again := r.Clone(r.Context())
	r.Body, again.Body = io.NopCloser(bytes.NewReader(body)), io.NopCloser(bytes.NewReader(body))
	return again
}

func TestAfterARetiredKeyASafeRequestAloneIsSentAgainToTheKeysOfTheRoot(t *testing.T) {
	for method, again := range map[string]bool{"GET": true, "POST": false, "PUT": false, "DELETE": false} {
		old := newOneShotServiceKey(t, crypto.KEMX25519)
		s := newOneShotService(t, oneShotEcho, old)
		transport := s.transport(t, s.rootTrust(), nil)
		if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); err != nil {
			t.Fatal(err)
		}
		next := newOneShotServiceKey(t, crypto.KEMX25519)
		s.change(func() { s.keys, s.issuedMs = []*oneShotServiceKey{next}, 200 })
		_, _, err := do(t, transport, method, s.URL+"/", "")
		var retired *KeyRetiredError
		switch {
		case again && (err != nil || s.served.Load() != 2 || s.arrived.Load() != 3):
			t.Errorf("%s: %v, served %d times", method, err, s.served.Load())
		case !again && (!errors.Is(err, ErrKeyRetired) || !errors.As(err, &retired) || !retired.Verified || !slices.Equal(retired.Kids, []string{next.kid()}) ||
			!strings.Contains(err.Error(), "outcome of this request is unknown") || s.arrived.Load() != 2):
			t.Errorf("%s: %v, arrived %d times", method, err, s.arrived.Load())
		}
		// The keys were taken: the next request needs no document.
		if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); err != nil || s.fetches.Load() != 1 {
			t.Errorf("%s: %v, %d fetches", method, err, s.fetches.Load())
		}
	}
}

func TestARetiredPinIsNamedAndNothingIsSentAgain(t *testing.T) {
	old, next := newOneShotServiceKey(t, crypto.KEMX25519), newOneShotServiceKey(t, crypto.KEMX25519)
	s := newOneShotService(t, oneShotEcho, next)
	for _, method := range []string{"GET", "POST"} {
		before := s.arrived.Load()
		_, _, err := do(t, s.transport(t, TrustKeyConfigs(old.base64()), nil), method, s.URL+"/", "")
		var retired *KeyRetiredError
		var failed *Error
		if !errors.As(err, &retired) || retired.Verified || !slices.Equal(retired.Kids, []string{next.kid()}) ||
			!errors.As(err, &failed) || failed.Retryable || s.arrived.Load() != before+1 || s.fetches.Load() != 0 {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// TestAForgedDocumentWithPinnedKidsLastsUntilTheNextRejection gives a client a key without end, issued at the last time there is.
func TestAForgedDocumentWithPinnedKidsLastsUntilTheNextRejection(t *testing.T) {
	old, next := newOneShotServiceKey(t, crypto.KEMX25519), newOneShotServiceKey(t, crypto.KEMX25519)
	s := newOneShotService(t, oneShotEcho, old)
	old.useUntilMs, old.overMs, s.issuedMs = 999_999_999_999_999, 999_999_999_999_999, 999_999_999_999_999
	transport := s.transport(t, TrustKids(old.kid(), next.kid()), nil)
	if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); err != nil {
		t.Fatal(err)
	}
	s.change(func() { s.keys, s.issuedMs = []*oneShotServiceKey{next}, 1 })
	if _, _, err := do(t, transport, "GET", s.URL+"/", ""); !errors.Is(err, ErrKeyRetired) || s.arrived.Load() != 2 {
		t.Errorf("%v, arrived %d times", err, s.arrived.Load())
	}
	if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); err != nil || s.fetches.Load() != 2 {
		t.Errorf("%v, %d fetches", err, s.fetches.Load())
	}
}

func TestAForgedDocumentInARejectionReplacesNothing(t *testing.T) {
	key := newOneShotServiceKey(t, crypto.KEMX25519)
	s := newOneShotService(t, oneShotEcho, key)
	transport, far := s.transport(t, s.rootTrust(), nil), uint64(1)<<49
	if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); err != nil {
		t.Fatal(err)
	}
	mallory := newOneShotServiceKey(t, crypto.KEMX25519)
	for _, c := range []struct {
		name     string
		document []byte
		want     error
	}{
		{"another root", signedDocument(newIdentity(t), 900, far, mallory), wire.CodeKeyUntrusted},
		{"older", signedDocument(s.root, 99, far, mallory), wire.CodeKeyUntrusted},
		{"over", signedDocument(s.root, 900, 901, mallory), wire.CodeKeyUntrusted},
		{"malformed", []byte(`{}`), wire.CodeFieldInvalid},
		{"none", []byte(`null`), ErrKeyRetired},
	} {
		s.spoilWith(func(w http.ResponseWriter, r *http.Request) {
			body := append([]byte(`{"type":"urn:sealway:problem:key_retired","code":"key_retired","key_document":`), c.document...)
			w.WriteHeader(409)
			w.Write(append(body, '}'))
		})
		for _, method := range []string{"GET", "POST"} {
			before := s.arrived.Load()
			_, _, err := do(t, transport, method, s.URL+"/", "")
			if !errors.Is(err, c.want) || s.arrived.Load() != before+1 || !strings.Contains(err.Error(), "outcome of this request is unknown") {
				t.Errorf("%s, %s: sent %d times, %v", c.name, method, s.arrived.Load()-before, err)
			}
		}
		s.spoil.Store(nil)
		if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); err != nil || s.fetches.Load() != 1 {
			t.Errorf("after %s: %v, %d fetches", c.name, err, s.fetches.Load())
		}
	}
	// A genuine document says nothing of the request: a safe one is sent again once, and no other.
	genuine := s.document()
	s.spoilWith(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(409)
		w.Write(problemBody(409, map[string]any{"code": "key_retired", "key_document": rawJSON(genuine)}))
	})
	for method, want := range map[string]int32{"GET": 2, "POST": 1} {
		before := s.arrived.Load()
		if _, _, err := do(t, transport, method, s.URL+"/", ""); !errors.Is(err, ErrKeyRetired) || s.arrived.Load() != before+want {
			t.Errorf("%s: sent %d times, %v", method, s.arrived.Load()-before, err)
		}
	}
}

type rawJSON []byte

func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

func TestASealedClockSkewSetsTheClockAndOnlyWhatWasTooOldIsSentAgain(t *testing.T) {
	for _, c := range []struct {
		offsetMs int64
		method   string
		again    bool
	}{{610_000, "POST", true}, {610_000, "GET", true}, {590_000, "POST", false}, {590_000, "GET", true}, {-400_000, "POST", false}, {-400_000, "GET", true}} {
		s := newOneShotService(t, oneShotEcho, newOneShotServiceKey(t, crypto.KEMX25519))
		transport := s.transport(t, s.rootTrust(), nil)
		s.offsetMs.Store(c.offsetMs)
		_, _, err := do(t, transport, c.method, s.URL+"/", "")
		if c.again != (err == nil) || !c.again && (!errors.Is(err, ErrClockSkew) || !strings.Contains(err.Error(), "the next request works")) {
			t.Errorf("%s at %d: %v", c.method, c.offsetMs, err)
		}
		before := s.served.Load()
		if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); err != nil || s.served.Load() != before+1 {
			t.Errorf("%s at %d: the next one: %v", c.method, c.offsetMs, err)
		}
	}
	// A service that finds each stamp off is asked twice.
	s := newOneShotService(t, oneShotEcho, newOneShotServiceKey(t, crypto.KEMX25519))
	refusal := map[string]any{"status": 400, "code": "clock_skew", "server_time_ms": nowMs() + 900_000}
	s.refuse.Store(&refusal)
	if _, _, err := do(t, s.transport(t, s.rootTrust(), nil), "GET", s.URL+"/", ""); !errors.Is(err, ErrClockSkew) || s.arrived.Load() != 2 {
		t.Error(err, s.arrived.Load())
	}
}

func TestARequestThatWasDeliveredBeforeIsReplayedAndNotSentAgain(t *testing.T) {
	for _, method := range []string{"POST", "GET", "HEAD"} {
		s := newOneShotService(t, oneShotEcho, newOneShotServiceKey(t, crypto.KEMX25519))
		s.spoilWith(func(w http.ResponseWriter, r *http.Request) {
			again := twice(r)
			if held := recorded(r, http.HandlerFunc(s.serve)); held.Code != 201 {
				t.Error(held.Code)
			}
			s.serve(w, again)
		})
		_, _, err := do(t, s.transport(t, s.rootTrust(), nil), method, s.URL+"/", "")
		var failed *Error
		if !errors.Is(err, ErrReplayed) || !errors.As(err, &failed) || failed.Retryable || s.served.Load() != 1 || s.arrived.Load() != 1 ||
			!strings.Contains(err.Error(), "outcome of this request is unknown") {
			t.Errorf("%s: %v, served %d times", method, err, s.served.Load())
		}
	}
}

func TestEverySealedProblemIsAnErrorWithItsCodeAndNothingIsSentAgain(t *testing.T) {
	s := newOneShotService(t, oneShotEcho, newOneShotServiceKey(t, crypto.KEMX25519))
	transport := s.transport(t, s.rootTrust(), nil)
	for code, status := range map[string]int{"policy": 403, "replayed": 409, "store_unavailable": 503, "upstream_unreachable": 502, "upstream_timeout": 504, "some_day": 418} {
		for _, method := range []string{"POST", "GET", "HEAD"} {
			refusal := map[string]any{"status": status, "code": code}
			s.refuse.Store(&refusal)
			before := s.arrived.Load()
			var problem *ProblemError
			_, _, err := do(t, transport, method, s.URL+"/", "")
			if !errors.As(err, &problem) || problem.Code != code || problem.Status != status || s.arrived.Load() != before+1 || s.served.Load() > 0 {
				t.Errorf("%s, %s: %v", method, code, err)
			}
		}
	}
}

func TestAProblemInTheWrongPlaceIsNoProblem(t *testing.T) {
	s := newOneShotService(t, oneShotEcho, newOneShotServiceKey(t, crypto.KEMX25519))
	transport := s.transport(t, s.rootTrust(), nil)
	try := func(code string, want wire.Code) {
		t.Helper()
		for _, method := range []string{"POST", "GET"} {
			before := s.arrived.Load()
			_, _, err := do(t, transport, method, s.URL+"/", "")
			if !errors.Is(err, want) || errors.Is(err, wire.Code(code)) || s.arrived.Load() != before+1 || !strings.Contains(err.Error(), code) {
				t.Errorf("%s, %s: %v", method, code, err)
			}
		}
	}
	for _, code := range []string{"clock_skew", "policy", "replayed", "store_unavailable", "upstream_unreachable", "upstream_timeout"} {
		s.spoilWith(func(w http.ResponseWriter, r *http.Request) {
			s.tell(w, 400, map[string]any{"code": code, "server_time_ms": nowMs() + 900_000})
		})
		try(code, wire.CodeUnsealed)
	}
	if offset := transport.oneShot.offsetMs.Load(); offset != 0 {
		t.Error("a clock_skew of anybody was believed: ", offset)
	}
	s.spoil.Store(nil)
	for _, code := range []string{"key_retired", "unsealable", "too_large", "wire_disabled", "rate_limited"} {
		refusal := map[string]any{"status": 409, "code": code, "key_document": rawJSON(s.document())}
		s.refuse.Store(&refusal)
		try(code, wire.CodeAnswerMismatch)
	}
	// A problem of the service is an answer.
	s.refuse.Store(nil)
	s.handler = func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(409)
		w.Write(problemBody(409, map[string]any{"code": "replayed"}))
	}
	if response, body, err := do(t, transport, "POST", s.URL+"/", ""); err != nil || response.StatusCode != 409 || !strings.Contains(body, "replayed") {
		t.Error(err)
	}
	for _, status := range []int{400, 401, 403, 409, 429, 503} {
		s.spoilWith(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })
		for _, method := range []string{"POST", "GET", "HEAD"} {
			before := s.arrived.Load()
			if _, _, err := do(t, transport, method, s.URL+"/", ""); !errors.Is(err, wire.CodeUnsealed) || s.arrived.Load() != before+1 {
				t.Errorf("%s, %d: %v", method, status, err)
			}
		}
	}
}

// TestAnAnswerThatWasCutOrChangedGivesNoByteBehindTheFault cuts an answer of three frames at each byte, and changes each.
func TestAnAnswerThatWasCutOrChangedGivesNoByteBehindTheFault(t *testing.T) {
	s := newOneShotService(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first,")
		io.WriteString(w, "second")
	}, newOneShotServiceKey(t, crypto.KEMX25519))
	transport := s.transport(t, s.rootTrust(), nil)
	const want = "first,second"
	read := func(change func(body []byte) []byte) (body string, whole int, err error) {
		s.spoilWith(func(w http.ResponseWriter, r *http.Request) {
			made := recorded(r, http.HandlerFunc(s.serve))
			whole = made.Body.Len()
			send(w, made, 200, change(made.Body.Bytes()))
		})
		_, body, err = do(t, transport, "POST", s.URL+"/", "x")
		return body, whole, err
	}
	body, length, err := read(func(body []byte) []byte { return body })
	if err != nil || body != want {
		t.Fatal(body, err)
	}
	for n := range length {
		body, _, err := read(func(body []byte) []byte { return body[:n] })
		if !errors.Is(err, ErrTruncated) || !strings.HasPrefix(want, body) {
			t.Errorf("cut at %d: %q, %v", n, body, err)
		}
		body, _, err = read(func(body []byte) []byte { body[n] ^= 1; return body })
		if err == nil || !strings.HasPrefix(want, body) {
			t.Errorf("changed at %d: %q, %v", n, body, err)
		}
	}
	if body, _, err := read(func(body []byte) []byte { return append(body, 0) }); !errors.Is(err, wire.CodeFrameInvalid) {
		t.Errorf("a byte behind: %q, %v", body, err)
	}
}

func TestAnAnswerIsGoodForItsRequestAndStatusAlone(t *testing.T) {
	s := newOneShotService(t, oneShotEcho, newOneShotServiceKey(t, crypto.KEMX25519))
	transport := s.transport(t, s.rootTrust(), nil)
	for name, spoil := range map[string]http.HandlerFunc{
		"another status": func(w http.ResponseWriter, r *http.Request) {
			made := recorded(r, http.HandlerFunc(s.serve))
			send(w, made, 200, made.Body.Bytes())
		},
		"an answer as a problem": func(w http.ResponseWriter, r *http.Request) {
			made := recorded(r, http.HandlerFunc(s.serve))
			made.Header().Set("X-Idempotency-Key", strings.Replace(made.Header().Get("X-Idempotency-Key"), ".r-", ".p-", 1))
			send(w, made, made.Code, made.Body.Bytes())
		},
	} {
		s.spoilWith(spoil)
		if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); !errors.Is(err, wire.CodeUnsealable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The answer to one request, given to the next.
	var kept *http.Response
	s.spoil.Store(nil)
	transport.config.Base = roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := http.DefaultTransport.RoundTrip(r)
		if kept == nil {
			kept = response
			return nil, errors.New("lost")
		}
		return kept, err
	})
	if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); err == nil {
		t.Fatal("the first one was not lost")
	}
	if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); !errors.Is(err, wire.CodeUnsealable) {
		t.Fatal(err)
	}
}

// TestNoByteOfARequestCanBeChanged changes each header that is bound, and each byte of a short stream.
func TestNoByteOfARequestCanBeChanged(t *testing.T) {
	s := newOneShotService(t, oneShotEcho, newOneShotServiceKey(t, crypto.KEMX25519))
	transport := s.transport(t, s.rootTrust(), func(c *Config) { c.PSK = PSK{"shop", s.psks["shop"]} })
	rejected := func(name string, change func(r *http.Request, body []byte) []byte) {
		t.Helper()
		s.spoilWith(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			body = change(r, body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			s.serve(w, r)
		})
		if _, _, err := do(t, transport, "POST", s.URL+"/pay?x=1", "x"); err == nil || s.served.Load() != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(r *http.Request){
		"method":       func(r *http.Request) { r.Method = "PUT" },
		"target":       func(r *http.Request) { r.RequestURI = "/pay?x=2" },
		"content type": func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		"stamp":        func(r *http.Request) { r.Header.Set("X-Idempotency-Key", "1"+r.Header.Get("X-Idempotency-Key")) },
		"nonce":        func(r *http.Request) { r.Header.Set("X-Idempotency-Key", r.Header.Get("X-Idempotency-Key")+"0") },
	} {
		rejected(name, func(r *http.Request, body []byte) []byte {
			change(r)
			return body
		})
	}
	length := 2 + 4 + 32 + 16 + 4 + 16
	for n := range length {
		rejected(fmt.Sprint("byte ", n, " of the stream"), func(r *http.Request, body []byte) []byte {
			if len(body) <= length {
				t.Fatal(len(body))
			}
			body[n] ^= 1
			return body
		})
	}
}
