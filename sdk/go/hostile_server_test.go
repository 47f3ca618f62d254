package sealway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// expiryProof is what servers of earlier versions said with session_expired.
func (s *service) expiryProof(t testing.TB, r *http.Request) map[string]any {
	call, err := session.ParseRequest(r.Header, session.Line{Method: r.Method, Target: r.RequestURI}, s.nowMs(), session.ReplayPolicy{})
	if err != nil {
		t.Error(err)
		return nil
	}
	now := s.nowMs()
	stamp, nonce, _ := wire.SplitIdempotencyKey(r.Header.Get(wire.HeaderIdempotencyKey))
	id, _ := call.SessionID()
	hash := sha256.Sum256(slices.Concat(field([]byte(id)), field([]byte(nonce)), field([]byte(stamp)), number(now)))
	signature, _ := s.identity.Sign(append([]byte("sealway/3 expired"), hash[:]...))
	return map[string]any{"server_time_ms": now, "key_id": crypto.KeyID(s.identity.PublicKey()), "signature": wire.EncodeBase64(signature)}
}

func (s *service) clockProof(t testing.TB, r *http.Request, serverMs uint64) map[string]any {
	call, err := session.ParseRequest(r.Header, session.Line{Method: r.Method, Target: r.RequestURI}, s.nowMs(), session.ReplayPolicy{})
	if err != nil {
		t.Error(err)
		return nil
	}
	id, _ := call.SessionID()
	found, err := s.store.Session(r.Context(), id)
	if err != nil {
		t.Error(err)
		return nil
	}
	return map[string]any{"server_time_ms": serverMs, "mac": wire.EncodeBase64(call.ClockProof(found, serverMs))}
}

// recorded is what the middleware would have sent.
func recorded(r *http.Request, next http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	next.ServeHTTP(w, r)
	return w
}

func send(w http.ResponseWriter, made *httptest.ResponseRecorder, status int, body []byte) {
	for name, values := range made.Header() {
		w.Header()[name] = values
	}
	w.Header().Del("Content-Length")
	w.WriteHeader(status)
	w.Write(body)
}

// secrets are what no message may hold.
var secrets = []string{"SECRET-ANSWER", "SECRET-REQUEST"}

// fails makes a call that has to fail, in time, with one of the codes, and without a secret in its message.
func fails(t *testing.T, s *service, change func(*Config), method string, want ...error) error {
	t.Helper()
	transport := s.transport(t, change)
	if _, err := transport.Session(t.Context()); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, method, s.URL+"/path", strings.NewReader("SECRET-REQUEST"))
	response, err := transport.Client().Do(request)
	if err == nil {
		var body []byte
		body, err = io.ReadAll(response.Body)
		response.Body.Close()
		if err == nil {
			t.Fatalf("taken: %d %q", response.StatusCode, body)
		}
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Fatalf("it hung for %v", took)
	}
	for _, secret := range secrets {
		if strings.Contains(err.Error(), secret) {
			t.Fatalf("a secret in %q", err)
		}
	}
	for _, code := range want {
		if errors.Is(err, code) {
			return err
		}
	}
	if len(want) > 0 {
		t.Fatalf("%v, and not %v", err, want)
	}
	return err
}

func secretAnswer(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	io.WriteString(w, "SECRET-ANSWER")
}

func TestAHostileServersAnswersAreRefusedWithTypedErrors(t *testing.T) {
	type spoiler = func(w http.ResponseWriter, r *http.Request, next http.Handler)
	flip := func(at int) spoiler {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			made := recorded(r, next)
			body := made.Body.Bytes()
			body[(at+len(body))%len(body)] ^= 1
			send(w, made, made.Code, body)
		}
	}
	without := func(name string) spoiler {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			made := recorded(r, next)
			made.Header().Del(name)
			send(w, made, made.Code, made.Body.Bytes())
		}
	}
	cut := func(keep func(int) int) spoiler {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			made := recorded(r, next)
			body := made.Body.Bytes()
			send(w, made, made.Code, body[:keep(len(body))])
		}
	}
	for _, c := range []struct {
		name  string
		spoil spoiler
		want  error
	}{
		{"wrong tag", flip(-1), wire.CodeUnsealable},
		{"wrong commit", flip(0), wire.CodeUnsealable},
		{"other status", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			made := recorded(r, next)
			send(w, made, 201, made.Body.Bytes())
		}, wire.CodeUnsealable},
		{"no X-Seal", without("X-Seal"), wire.CodeUnsealed},
		{"no X-Kid", without("X-Kid"), wire.CodeHeaderMissing},
		{"no X-Idempotency-Key", without("X-Idempotency-Key"), wire.CodeHeaderMissing},
		{"truncated body", cut(func(n int) int { return n - 1 }), wire.CodeStreamTruncated},
		{"no body", cut(func(int) int { return 0 }), wire.CodeStreamTruncated},
		{"a byte behind", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			made := recorded(r, next)
			send(w, made, made.Code, append(made.Body.Bytes(), 0))
		}, wire.CodeFrameInvalid},
		{"10 MiB of nothing", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			made := recorded(r, next)
			send(w, made, made.Code, bytes.Repeat([]byte{0xff}, 10<<20))
		}, wire.CodeFrameInvalid},
		{"10 MiB unsealed", func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			w.Write(make([]byte, 10<<20))
		}, nil},
		{"plain 500", func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			w.WriteHeader(500)
			io.WriteString(w, "SECRET-ANSWER")
		}, wire.CodeUnsealed},
		{"an echo of the request", func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			for _, name := range []string{"X-Seal", "X-Kid", "X-Idempotency-Key", "Content-Type"} {
				w.Header().Set(name, r.Header.Get(name))
			}
			io.Copy(w, r.Body)
		}, wire.CodeAnswerMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, http.HandlerFunc(secretAnswer))
			s.spoilWith(c.spoil)
			if c.want == nil {
				fails(t, s, nil, "POST")
			} else {
				fails(t, s, nil, "POST", c.want)
			}
		})
	}
	for _, version := range []wire.Version{1, 2} {
		t.Run(fmt.Sprintf("wire %d", version), func(t *testing.T) {
			s := newService(t, http.HandlerFunc(secretAnswer))
			on := func(c *Config) { c.Wire, c.AnswerMaxBytes = version, 1<<20 }
			s.spoilWith(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				made := recorded(r, next)
				body := made.Body.Bytes()
				// Another byte, and on wire 1 a character of base64 all the same.
				if at := len(body) / 2; body[at] == 'A' {
					body[at] = 'B'
				} else {
					body[at] = 'A'
				}
				send(w, made, made.Code, body)
			})
			fails(t, s, on, "POST", wire.CodeUnsealable)
			s.spoilWith(without("X-Kid"))
			fails(t, s, on, "POST", wire.CodeUnsealed)
			s.spoilWith(cut(func(int) int { return 5 }))
			fails(t, s, on, "POST", wire.CodeBodyTooShort, wire.CodeBase64Invalid)
			s.spoilWith(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.Write(make([]byte, 10<<20)) })
			var large *TooLargeError
			if err := fails(t, s, on, "POST"); !errors.As(err, &large) {
				t.Fatal(err)
			}
		})
	}
}

func TestAnAnswerIsGoodForTheOneRequestThatItWasMadeFor(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	transport := s.transport(t, nil)
	var first *httptest.ResponseRecorder
	s.spoilWith(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		made := recorded(r, next)
		if first == nil {
			first = made
		}
		send(w, first, first.Code, first.Body.Bytes())
	})
	if _, body, err := do(t, transport, "POST", s.URL+"/", "one"); err != nil || body != "one" {
		t.Fatal(err)
	}
	// Replayed, and in the place of another request's answer.
	for _, body := range []string{"one", "two"} {
		if _, _, err := do(t, transport, "POST", s.URL+"/", body); !errors.Is(err, wire.CodeUnsealable) {
			t.Fatal(err)
		}
	}
}

func TestASlowOrSilentServerIsGivenUpInTime(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	short := func(c *Config) { c.HeadTimeout, c.IdleTimeout = 700*time.Millisecond, 200*time.Millisecond }
	var late *TimeoutError
	s.spoilWith(func(http.ResponseWriter, *http.Request, http.Handler) { <-release })
	if err := fails(t, s, short, "POST"); !errors.As(err, &late) || !late.Timeout() {
		t.Fatal(err)
	}
	s.spoilWith(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		made := recorded(r, next)
		body := made.Body.Bytes()
		for name, values := range made.Header() {
			w.Header()[name] = values
		}
		w.Header().Del("Content-Length")
		w.Write(body[:20])
		w.(http.Flusher).Flush()
		<-release
	})
	if err := fails(t, s, short, "POST"); !errors.As(err, &late) {
		t.Fatal(err)
	}
	// Behind an honest first frame: the body's own wait.
	streaming := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first")
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	if err := fails(t, streaming, short, "GET"); !errors.As(err, &late) {
		t.Fatal(err)
	}
	// The caller's own deadline counts too.
	transport := s.transport(t, nil)
	transport.Session(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"/", nil)
	if _, err := transport.RoundTrip(request); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	var redirect *ProblemError
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	if err := fails(t, s, nil, "POST"); !errors.As(err, &redirect) || redirect.Code != "redirected" || redirect.Status != 307 {
		t.Fatal(err)
	}
	s.spoilWith(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		http.Redirect(w, r, "http://elsewhere.example/", http.StatusFound)
	})
	if err := fails(t, s, nil, "POST"); !errors.As(err, &redirect) || redirect.Code != "redirected" {
		t.Fatal(err)
	}
	if s.served.Load() != 1 {
		t.Fatal("it was followed")
	}
}

func TestARefusalWithoutProofChangesNothing(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	transport := s.transport(t, nil)
	for _, forge := range []func(*http.Request) (string, int, map[string]any){
		func(*http.Request) (string, int, map[string]any) {
			return "clock_skew", 400, map[string]any{"server_time_ms": s.nowMs() + 86_400_000, "mac": wire.EncodeBase64(make([]byte, 32))}
		},
		func(r *http.Request) (string, int, map[string]any) {
			// Of the service, but for another request.
			proof := s.clockProof(t, r, s.nowMs()+86_400_000)
			proof["server_time_ms"] = s.nowMs() + 86_400_001
			return "clock_skew", 400, proof
		},
		func(*http.Request) (string, int, map[string]any) { return "policy", 403, nil },
	} {
		s.spoilWith(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			code, status, more := forge(r)
			s.tell(w, code, status, more)
		})
		var problem *ProblemError
		if _, _, err := do(t, transport, "POST", s.URL+"/", "pay"); !errors.As(err, &problem) {
			t.Fatal(err)
		}
	}
	if s.inits.Load() != 1 {
		t.Fatal("a stranger had the client agree anew")
	}
	s.spoil.Store(nil)
	if _, _, err := do(t, transport, "POST", s.URL+"/", "pay"); err != nil {
		t.Fatal("the clock was moved: ", err)
	}
}

func TestAPurchaseIsNotSentAgainForAnEndThatMayHaveComeAfterIt(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	transport := s.transport(t, nil)
	if _, err := transport.Session(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, forge := range []func(*http.Request) (string, int, map[string]any){
		func(*http.Request) (string, int, map[string]any) { return "session_expired", 401, nil },
		func(r *http.Request) (string, int, map[string]any) {
			proof := s.expiryProof(t, r)
			proof["server_time_ms"] = s.nowMs() + 1
			return "session_expired", 401, proof
		},
		// Signed over a time after its end, as servers of earlier versions did.
		func(r *http.Request) (string, int, map[string]any) {
			s.offsetMs.Store(int64(s.ttlSec) * 1000)
			defer s.offsetMs.Store(0)
			return "session_expired", 401, s.expiryProof(t, r)
		},
	} {
		inits, sent := s.inits.Load(), 0
		s.spoilWith(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			sent++
			code, status, more := forge(r)
			s.tell(w, code, status, more)
		})
		var problem *ProblemError
		if _, _, err := do(t, transport, "POST", s.URL+"/", "pay"); !errors.As(err, &problem) || problem.Code != "session_expired" || sent != 1 {
			t.Fatal(err, sent)
		}
		// The next call begins with a new session: one that only posts is not stuck.
		s.spoil.Store(nil)
		if _, _, err := do(t, transport, "POST", s.URL+"/", "pay"); err != nil || s.inits.Load() != inits+1 {
			t.Fatal(err, s.inits.Load(), inits)
		}
	}
}

func TestAHostileInitIsRefused(t *testing.T) {
	honest := newService(t, http.HandlerFunc(echo))
	release := make(chan struct{})
	defer close(release)
	for name, answer := range map[string]http.HandlerFunc{
		"5xx":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, honest.URL+"/v3/sessions", 307) },
		"10 MiB":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); w.Write(make([]byte, 10<<20)) },
		"no JSON":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); io.WriteString(w, "<html>") },
		"silence": func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			select {
			case <-r.Context().Done():
			case <-release:
			}
		},
		"other suite": func(w http.ResponseWriter, _ *http.Request) {
			honest.tell(w, "suite_required", 409, map[string]any{"suites": []string{"P256", "NONE"}})
		},
	} {
		server := httptest.NewServer(answer)
		for _, version := range []wire.Version{2, 3} {
			config := honest.config(t)
			config.Wire, config.HeadTimeout = version, 300*time.Millisecond
			transport := must(NewTransport(server.URL, config))
			start := time.Now()
			if _, err := transport.Session(t.Context()); err == nil || time.Since(start) > 3*time.Second {
				t.Fatalf("%s on wire %d: %v", name, version, err)
			}
		}
		server.CloseClientConnections()
		server.Close()
	}
}
