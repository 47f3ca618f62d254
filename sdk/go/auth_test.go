package sealway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// seenRequest is what reached a service.
type seenRequest struct {
	path, authorization string
	body                []byte
}

// watch has every request that reaches the service told.
func watch(s *service) func() []seenRequest {
	var mu sync.Mutex
	var seen []seenRequest
	next := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		mu.Lock()
		seen = append(seen, seenRequest{r.URL.Path, strings.Join(r.Header.Values("Authorization"), ","), body})
		mu.Unlock()
		next.ServeHTTP(w, r)
	})
	return func() []seenRequest {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

func TestATokenGoesWithAnInitAloneAndNobodyCanPutAnotherInItsPlace(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	seen := watch(s)
	for _, version := range []wire.Version{1, 2, 3} {
		asked, before := 0, len(seen())
		transport := s.transport(t, func(c *Config) {
			c.Wire = version
			c.Authorization = func(context.Context) (string, error) {
				asked++
				return "Bearer the-token", nil
			}
		})
		if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); err != nil {
			t.Fatal(version, err)
		}
		if version == 3 {
			// A renewal is recognised by the session that it is of.
			agreed, _ := transport.native.peek()
			agreed.sent = agreed.sent.Add(-agreed.span + agreed.span/50)
			transport.Session(t.Context())
			for range 250 {
				if s.renewals.Load() == 1 {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
		inits := 0
		for _, request := range seen()[before:] {
			want := ""
			if strings.HasSuffix(request.path, "/init") || request.path == "/v3/sessions" {
				inits, want = inits+1, "Bearer the-token"
			}
			if request.authorization != want {
				t.Fatalf("wire %d, %s: %q", version, request.path, request.authorization)
			}
		}
		if asked != 1 || inits != 1 || version == 3 && s.renewals.Load() != 1 {
			t.Fatal(version, asked, inits, s.renewals.Load())
		}
	}
	// A TLS terminator in between replaces the token, or removes it: the service signs the token that it received.
	for _, theirs := range []string{"Bearer of-another", ""} {
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Header.Del("Authorization"); theirs != "" {
				r.Header.Set("Authorization", theirs)
			}
			return http.DefaultTransport.RoundTrip(r)
		})
		transport := s.transport(t, func(c *Config) {
			c.Base = base
			c.Authorization = func(context.Context) (string, error) { return "Bearer the-token", nil }
		})
		_, _, err := do(t, transport, "POST", s.URL+"/", "x")
		if !errorsAsTrust(err) || !errors.Is(err, wire.CodeSignatureInvalid) || strings.Contains(err.Error(), "the-token") {
			t.Fatal(err)
		}
	}
	// Without a token that was to be there nothing is sent.
	before, away := len(seen()), errors.New("no token to be had")
	for _, version := range []wire.Version{2, 3} {
		transport := s.transport(t, func(c *Config) {
			c.Wire = version
			c.Authorization = func(context.Context) (string, error) { return "", away }
		})
		if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); !errors.Is(err, away) || len(seen()) != before {
			t.Fatal(version, err)
		}
	}
}

func listOf(items []string) (list []byte) {
	for _, item := range items {
		list = append(list, field([]byte(item))...)
	}
	return field(list)
}

func TestAProofIsBoundToTheOneShareOfItsInit(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	// The first share is of a suite that the service does not take: the second init needs a proof of its own.
	s.suites = []crypto.Suite{crypto.P256}
	seen := watch(s)
	var asked [][32]byte
	configure := func(c *Config) {
		c.TTL = 600 * time.Second
		c.Authorization = func(context.Context) (string, error) { return "DPoP the-token", nil }
		c.Proof = func(_ context.Context, initHash [32]byte) (string, error) {
			asked = append(asked, initHash)
			return "proof." + base64.RawURLEncoding.EncodeToString(initHash[:]), nil
		}
	}
	transport := s.transport(t, configure)
	if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); err != nil {
		t.Fatal(err)
	}
	inits := 0
	for _, request := range seen() {
		if request.path != "/v3/sessions" {
			continue
		}
		said, err := session.ParseInitRequest(request.body)
		if err != nil || request.authorization != "DPoP the-token" {
			t.Fatal(err, request.authorization)
		}
		hash := sha256.Sum256(slices.Concat(listOf(said.Suites), field([]byte(said.Suite)), field(said.Share), field([]byte(said.ClientID)),
			number(600), listOf(said.PinnedKeyIDs)))
		if said.Proof != "proof."+base64.RawURLEncoding.EncodeToString(hash[:]) || hash != asked[inits] {
			t.Fatal("another hash in ", said.Proof)
		}
		inits++
	}
	if inits != 2 || len(asked) != 2 || asked[0] == asked[1] {
		t.Fatal(inits, len(asked))
	}
	agreed, _ := transport.native.peek()
	if _, err := transport.agreeNative(t.Context(), agreed); err != nil || len(asked) != 2 {
		t.Fatal("a renewal has no proof: ", err, len(asked))
	}
	// Another's proof in its place shows in the transcript.
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/v3/sessions" {
			body, _ := io.ReadAll(r.Body)
			body = bytes.Replace(body, []byte(`"proof.`), []byte(`"forge.`), 1)
			r = r.Clone(r.Context())
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	forged := s.transport(t, func(c *Config) {
		configure(c)
		c.Base = base
	})
	if _, err := forged.Session(t.Context()); !errorsAsTrust(err) || !errors.Is(err, wire.CodeSignatureInvalid) {
		t.Fatal(err)
	}
	away, before := errors.New("no key to sign with"), s.inits.Load()
	without := s.transport(t, func(c *Config) {
		c.Proof = func(context.Context, [32]byte) (string, error) { return "", away }
	})
	if _, err := without.Session(t.Context()); !errors.Is(err, away) || s.inits.Load() != before {
		t.Fatal(err)
	}
}

func TestAnEndedSessionsKeysAreWiped(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	transport := s.transport(t, nil)
	if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); err != nil {
		t.Fatal(err)
	}
	agreed, _ := transport.native.peek()
	if err := transport.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := agreed.session.Seal(session.Line{Method: "GET", Target: "/"}, "", 1, [16]byte{}); !errors.Is(err, wire.CodeProvider) {
		t.Fatal("a session that was ended still seals: ", err)
	}
}
