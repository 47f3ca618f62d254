package sealway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// service is authority and API side in one, in this process, with a clock that tests can move.
type service struct {
	*httptest.Server
	store      *MemoryStore
	identity   crypto.Signer
	older      []crypto.Signer // live since an earlier time than identity
	suites     []crypto.Suite
	ttlSec     uint32
	offsetMs   atomic.Int64
	inits      atomic.Int32
	renewals   atomic.Int32
	served     atomic.Int32
	refusals   chan Refusal
	middleware *Middleware
	// spoil changes what the service answers to sealed requests, if it is there.
	spoil atomic.Pointer[func(w http.ResponseWriter, r *http.Request, next http.Handler)]
}

func newIdentity(t testing.TB) crypto.Signer {
	scalar := make([]byte, 32)
	rand.Read(scalar[1:])
	scalar[31] |= 1
	identity, err := crypto.ParseIdentity(scalar)
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

func newService(t testing.TB, handler http.Handler, routes ...Route) *service {
	s := &service{store: NewMemoryStore(1000), identity: newIdentity(t), suites: crypto.Suites(), ttlSec: 1800, refusals: make(chan Refusal, 1000)}
	s.store.now = s.nowMs
	var err error
	s.middleware, err = NewMiddleware(MiddlewareConfig{Store: s.store, Routes: routes, BodyTimeout: 2 * time.Second, Now: s.now,
		OnRefusal: func(refusal Refusal) {
			select {
			case s.refusals <- refusal:
			default:
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.served.Add(1)
		handler.ServeHTTP(w, r)
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+KeySetPath, s.keySet)
	mux.HandleFunc("POST /v3/sessions", s.initNative)
	mux.HandleFunc("POST /session/init", s.initCompat(session.FamilySession))
	mux.HandleFunc("POST /session/init/anon", s.initCompat(session.FamilyAnonymous))
	mux.HandleFunc("POST /v1/session/init", s.initCompat(session.FamilyV1))
	mux.Handle("POST /v3/sessions/{id}/renew", s.middleware.Handler(http.HandlerFunc(s.renew)))
	mux.Handle("DELETE /v3/sessions/{id}", s.middleware.Handler(http.HandlerFunc(s.end)))
	mux.Handle("/", s.spoiled(s.middleware.Handler(counted)))
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// overHTTP2 has the service served over TLS and HTTP/2, and gives what sends requests there.
func (s *service) overHTTP2(t testing.TB) http.RoundTripper {
	two := httptest.NewUnstartedServer(s.Config.Handler)
	two.EnableHTTP2 = true
	two.StartTLS()
	t.Cleanup(two.Close)
	s.Server = two
	return two.Client().Transport
}

func (s *service) now() time.Time {
	return time.Now().Add(time.Duration(s.offsetMs.Load()) * time.Millisecond)
}

func (s *service) nowMs() uint64 { return uint64(s.now().UnixMilli()) }

func (s *service) spoiled(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if spoil := s.spoil.Load(); spoil != nil {
			(*spoil)(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *service) spoilWith(spoil func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	s.spoil.Store(&spoil)
}

func (s *service) keySet(w http.ResponseWriter, _ *http.Request) {
	var keys []any
	for _, identity := range s.identities() {
		public := identity.Key.PublicKey()
		keys = append(keys, map[string]any{"key_id": crypto.KeyID(public), "alg": algorithmName(public), "public_key": wire.EncodeBase64(public),
			"not_before_ms": identity.NotBeforeMs, "not_after_ms": identity.NotAfterMs})
	}
	json.NewEncoder(w).Encode(map[string]any{"issued_ms": 1, "expires_ms": uint64(1) << 49, "keys": keys})
}

func algorithmName(public []byte) string {
	algorithm, _ := crypto.AlgorithmOf(public)
	return string(algorithm)
}

// identities are the live keys of the service.
func (s *service) identities() []session.Identity {
	keys := []session.Identity{{Key: s.identity, NotBeforeMs: 1, NotAfterMs: 1 << 49}}
	for _, key := range s.older {
		keys = append(keys, session.Identity{Key: key, NotAfterMs: 1 << 49})
	}
	return keys
}

func (s *service) agree(w http.ResponseWriter, r *http.Request, old *session.Record) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, wire.NativeInitBodyMax+1))
	request, err := session.ParseInitRequest(body)
	if err != nil {
		s.tell(w, "malformed", 400, nil)
		return
	}
	terms := session.Terms{Suites: s.suites, Identities: s.identities(), ExpiresInSec: s.ttlSec,
		Auth: session.AuthNone, Credential: session.Credential(r.Header.Get("Authorization"))}
	if old != nil {
		terms.Credential = nil
	}
	answer, record, err := session.AgreeInit(request, terms, old, func(suite crypto.Suite) (session.InitRandoms, error) {
		keys, err := crypto.DrawKeys(suite, false, rand.Reader)
		return session.InitRandoms{SessionID: random16(), Keys: keys, Encapsulate: crypto.EncapsulationKey.Encapsulate}, err
	}, s.nowMs())
	switch {
	case err == nil:
	case errors.Is(err, wire.CodeSuiteRequired):
		s.tell(w, "suite_required", 409, map[string]any{"suites": s.suites})
		return
	case errors.Is(err, wire.CodeKeyRetired):
		s.tell(w, "key_retired", 409, nil)
		return
	default:
		s.tell(w, "malformed", 400, nil)
		return
	}
	s.store.Put(r.Context(), record)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(201)
	w.Write(answer)
}

func (s *service) tell(w http.ResponseWriter, code string, status int, more map[string]any) {
	body := map[string]any{"type": "urn:sealway:problem:" + code, "title": "A sentence.", "status": status, "code": code}
	for name, value := range more {
		body[name] = value
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

func (s *service) initNative(w http.ResponseWriter, r *http.Request) {
	s.inits.Add(1)
	s.agree(w, r, nil)
}

func (s *service) renew(w http.ResponseWriter, r *http.Request) {
	s.renewals.Add(1)
	old, err := s.store.Session(r.Context(), r.PathValue("id"))
	if err != nil {
		w.WriteHeader(500)
		return
	}
	s.agree(w, r, old.Record())
}

func (s *service) end(w http.ResponseWriter, r *http.Request) {
	s.store.Delete(r.Context(), r.PathValue("id"))
	w.WriteHeader(204)
}

func (s *service) initCompat(family session.Family) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.inits.Add(1)
		body, _ := io.ReadAll(r.Body)
		call, err := session.ParseCompatInit(family, r.Header, body, s.nowMs(), session.ReplayPolicy{})
		if err != nil {
			w.WriteHeader(400)
			io.WriteString(w, `{"error":"CRYPTO_ERROR"}`)
			return
		}
		fresh, _ := s.store.Reserve(r.Context(), call.Claim())
		init, _ := call.Release(fresh)
		key, _ := crypto.DrawP256(rand.Reader)
		answer, record, err := init.Accept(session.DefaultTTL(), false, "", session.CompatInitRandoms{SessionID: random16(), Ephemeral: key}, s.nowMs())
		if err != nil {
			w.WriteHeader(400)
			return
		}
		s.store.Put(r.Context(), record)
		w.Write(answer)
	}
}

func (s *service) config(t testing.TB) Config {
	return Config{Trust: TrustPins(crypto.KeyID(s.identity.PublicKey())), HeadTimeout: 5 * time.Second, IdleTimeout: 5 * time.Second}
}

func (s *service) transport(t testing.TB, change func(*Config)) *Transport {
	config := s.config(t)
	if change != nil {
		change(&config)
	}
	transport, err := NewTransport(s.URL, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(500)
		return
	}
	w.Header().Set("Content-Type", "text/echo")
	w.Header().Set("X-Saw", r.Method+" "+r.RequestURI+" "+r.Header.Get("X-Asked")+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("X-Sealway-Client-Id"))
	w.Write(body)
}

func do(t testing.TB, transport *Transport, method, url, body string) (*http.Response, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, reader)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("X-Asked", "yes")
	response, err := transport.Client().Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response, string(data), err
}

func listen(t testing.TB) net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}
