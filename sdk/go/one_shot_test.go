package sealway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// oneShotEcho answers with what it received.
func oneShotEcho(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(500)
		return
	}
	w.Header().Set("X-Saw", fmt.Sprint(r.Method, " ", r.RequestURI, " ", r.Header.Get("Content-Type"), " ", r.Header.Get("X-Sealway-Subject")))
	if r.Method == "DELETE" {
		w.WriteHeader(204)
		return
	}
	w.WriteHeader(201)
	w.Write(body)
}

func (s *oneShotService) rootTrust() Trust {
	return TrustRoot(wire.EncodeBase64(s.root.PublicKey()), nil)
}

func (s *oneShotService) transport(t testing.TB, trust Trust, change func(*Config)) *Transport {
	config := Config{Wire: wire.Wire4, Trust: trust, HeadTimeout: 10 * time.Second}
	if change != nil {
		change(&config)
	}
	transport := must(NewTransport(s.URL, config))
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

func (s *oneShotService) spoilWith(spoil http.HandlerFunc) { s.spoil.Store(&spoil) }

func TestAOneShotRequestOfEachKEMAndSourceOfTrustReachesTheService(t *testing.T) {
	for _, kem := range crypto.KEMs() {
		key := newOneShotServiceKey(t, kem)
		s := newOneShotService(t, oneShotEcho, key)
		for name, trust := range map[string]Trust{"config": TrustKeyConfigs(key.base64()), "kid": TrustKids(key.kid()), "root": s.rootTrust()} {
			for _, psk := range []PSK{{}, {"shop", s.psks["shop"]}} {
				s.fetches.Store(0)
				var seen Exchange
				transport := s.transport(t, trust, func(c *Config) { c.PSK, c.OnMetrics = psk, func(e Exchange) { seen = e } })
				for _, method := range []string{"POST", "PUT", "GET", "HEAD", "DELETE", "QUERY"} {
					body, status := "", 201
					switch method {
					case "POST", "PUT", "QUERY":
						body = `{"x":1}`
					case "DELETE":
						status = 204
					}
					response, got, err := do(t, transport, method, s.URL+"/a/b?c=%20d", body)
					if err != nil {
						t.Fatalf("%v, %s, %s: %v", kem, name, method, err)
					}
					kind := strings.Repeat("application/json", min(1, len(body)))
					if saw := response.Header.Get("X-Saw"); response.StatusCode != status || got != body || saw != method+" /a/b?c=%20d "+kind+" "+psk.ID {
						t.Errorf("%v, %s, %s: %d %q, saw %q", kem, name, method, response.StatusCode, got, saw)
					}
				}
				if want := map[string]int32{"config": 0, "kid": 1, "root": 1}[name]; s.fetches.Load() != want {
					t.Errorf("%s: the document was fetched %d times", name, s.fetches.Load())
				}
				if seen.Wire != wire.Wire4 || seen.Suite != kem.String() || seen.Kind != "call" || seen.SessionID != "" {
					t.Errorf("%+v", seen)
				}
			}
		}
	}
}

func TestOneShotTakesWhatTheDesignShows(t *testing.T) {
	key := newOneShotServiceKey(t, crypto.KEMXWing)
	s := newOneShotService(t, oneShotEcho, key)
	client := OneShot(s.URL, TrustKids(key.kid()))
	response, err := client.Do(must(http.NewRequest("POST", s.URL+"/pay", strings.NewReader("x"))))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	var failed *Error
	if _, err := OneShot(s.URL, TrustKids("abc")).Get(s.URL); !errors.As(err, &failed) || failed.Stage != StageConfiguration || !strings.Contains(err.Error(), "TrustKids") {
		t.Fatal(err)
	}
}

// TestAStreamThatIsTooLongForItsHeaderIsABody sends headers that fit into X-Sealed on wire 3, and not behind what wire 4 leads with.
func TestAStreamThatIsTooLongForItsHeaderIsABody(t *testing.T) {
	s := newOneShotService(t, oneShotEcho, newOneShotServiceKey(t, crypto.KEMXWing))
	transport := s.transport(t, s.rootTrust(), nil)
	for length, isBody := range map[int]bool{100: false, 4_900: false, 5_200: true, 6_200: true} {
		s.spoilWith(func(w http.ResponseWriter, r *http.Request) {
			if text := r.Header.Get("X-Sealed"); (text == "") != isBody || len(text) > 8192 || (r.Header.Get("Content-Type") != "") != isBody {
				t.Errorf("%d bytes of headers: %d characters of X-Sealed", length, len(text))
			}
			s.serve(w, r)
		})
		request := must(http.NewRequest("GET", s.URL+"/", nil))
		request.Header.Set("X-Long", strings.Repeat("x", length))
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(length, err)
		}
		response.Body.Close()
	}
}

func TestOneShotBodiesStreamInBothDirections(t *testing.T) {
	s := newOneShotService(t, func(w http.ResponseWriter, r *http.Request) {
		part := make([]byte, 64<<10)
		for {
			n, err := r.Body.Read(part)
			w.Write(part[:n])
			if err != nil {
				return
			}
		}
	}, newOneShotServiceKey(t, crypto.KEMX25519))
	two := httptest.NewUnstartedServer(s.Config.Handler)
	two.EnableHTTP2 = true
	two.StartTLS()
	t.Cleanup(two.Close)
	s.Server = two
	transport := s.transport(t, s.rootTrust(), func(c *Config) { c.Base = two.Client().Transport })
	reader, writer := io.Pipe()
	request := must(http.NewRequest("POST", s.URL+"/", reader))
	go io.WriteString(writer, "first")
	response := must(transport.RoundTrip(request))
	defer response.Body.Close()
	part := make([]byte, 64<<10)
	for _, text := range []string{"first", "second", "third"} {
		if text != "first" {
			go io.WriteString(writer, text)
		}
		// The answer to a part is there while the request is not at its end.
		if n, err := response.Body.Read(part); err != nil || string(part[:n]) != text {
			t.Fatalf("%q, %v", part[:n], err)
		}
	}
	writer.Close()
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
		t.Fatal(rest, err)
	}
	large := strings.Repeat("0123456789abcdef", 200_000)
	if _, got, err := do(t, transport, "POST", s.URL+"/", large); err != nil || got != large {
		t.Fatal(len(got), err)
	}
}

func TestADocumentIsFetchedOnceForAllAndAgainWhenItHasNoKeyInUse(t *testing.T) {
	old := newOneShotServiceKey(t, crypto.KEMX25519)
	s := newOneShotService(t, oneShotEcho, old)
	transport := s.transport(t, s.rootTrust(), nil)
	post := func() error {
		_, _, err := do(t, transport, "POST", s.URL+"/", "x")
		return err
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := post(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if s.fetches.Load() != 1 {
		t.Fatalf("%d fetches", s.fetches.Load())
	}
	// A newer key alone fetches nothing; the end of the use of the old one does.
	next := newOneShotServiceKey(t, crypto.KEMP256)
	s.change(func() { s.keys, s.issuedMs = append(s.keys, next), 200 })
	if err := post(); err != nil || s.fetches.Load() != 1 {
		t.Fatal(err, s.fetches.Load())
	}
	held, _ := transport.oneShot.held.peek()
	held.Keys[0].UseUntilMs = nowMs()
	s.change(func() { old.useUntilMs = nowMs() })
	if err := post(); err != nil || s.fetches.Load() != 2 {
		t.Fatal(err, s.fetches.Load())
	}
	if held, _ := transport.oneShot.held.peek(); held.IssuedMs != 200 || held.key().Kid() != next.kid() {
		t.Fatal(held.Kids())
	}
	// Without any, each call asks, and says which keys there are.
	held, _ = transport.oneShot.held.peek()
	held.ExpiresMs = nowMs()
	s.change(func() { s.keys = s.keys[:1] })
	var trust *TrustError
	for n := range int32(2) {
		if err := post(); !errors.As(err, &trust) || !errors.Is(err, wire.CodeKeyUntrusted) || !slices.Equal(trust.KeyIDs, []string{old.kid()}) || s.fetches.Load() != 3+n {
			t.Fatal(err, s.fetches.Load())
		}
	}
}

func TestADocumentThatTheRootDidNotSignLastIsRejectedAlsoAfterARestart(t *testing.T) {
	key := newOneShotServiceKey(t, crypto.KEMX25519)
	s := newOneShotService(t, oneShotEcho, key)
	store := NewFileTrustStore(t.TempDir() + "/roots")
	trust := TrustRoot(wire.EncodeBase64(s.root.PublicKey()), store)
	far, root := uint64(1)<<49, s.root
	var served []byte
	s.Config.Handler = serveDocument(s.Config.Handler, &served)
	for _, c := range []struct {
		name     string
		document []byte
		want     error
	}{
		{"signed", signedDocument(root, 100, far, key), nil},
		{"newer", signedDocument(root, 200, far, key), nil},
		{"older", signedDocument(root, 199, far, key), wire.CodeKeyUntrusted},
		{"over", signedDocument(root, 300, nowMs(), key), wire.CodeKeyUntrusted},
		{"another root", signedDocument(newIdentity(t), 300, far, key), wire.CodeKeyUntrusted},
		{"changed", bytes.Replace(signedDocument(root, 300, far, key), []byte(`"issued_ms":300`), []byte(`"issued_ms":301`), 1), wire.CodeSignatureInvalid},
		{"none", []byte("{}"), wire.CodeFieldInvalid},
		{"no JSON", []byte("hello"), wire.CodeJSONInvalid},
		{"too long", append(signedDocument(root, 300, far, key), bytes.Repeat([]byte(" "), 64<<10)...), wire.CodeBodyTooLarge},
		{"missing", nil, wire.CodeKeyUntrusted},
	} {
		served = c.document
		before := s.arrived.Load()
		_, _, err := do(t, s.transport(t, trust, nil), "POST", s.URL+"/", "x")
		var failed *Error
		switch {
		case c.want == nil && err != nil:
			t.Fatalf("%s: %v", c.name, err)
		case c.want != nil && (!errors.Is(err, c.want) || !errors.As(err, &failed) || failed.Stage != StageAgreement || s.arrived.Load() != before):
			t.Fatalf("%s: %v, and %d requests were sent", c.name, err, s.arrived.Load()-before)
		}
	}
	if line := must(store.Line(origin(must(http.NewRequest("GET", s.URL, nil)).URL) + " one-shot-root:" + crypto.KeyID(root.PublicKey()))); line != "200" {
		t.Fatal(line)
	}
}

// serveDocument serves a key document that a test can change; 404 for nil.
func serveDocument(next http.Handler, document *[]byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != KeyDocumentPath:
			next.ServeHTTP(w, r)
		case *document == nil:
			w.WriteHeader(404)
		default:
			w.Write(*document)
		}
	})
}

func TestTheClientUsesTheFirstKeyThatItAllows(t *testing.T) {
	wing, p256 := newOneShotServiceKey(t, crypto.KEMXWing), newOneShotServiceKey(t, crypto.KEMP256)
	x25519 := newOneShotServiceKey(t, crypto.KEMX25519)
	s := newOneShotService(t, oneShotEcho, wing, p256, x25519)
	unknown := wire.EncodeBase64([]byte{1, 0, 0x42, 9, 9, 0, 4, 0, 1, 0, 2})
	for _, c := range []struct {
		trust Trust
		kems  []crypto.KEM
		want  crypto.KEM
	}{
		{s.rootTrust(), nil, crypto.KEMXWing},
		{s.rootTrust(), []crypto.KEM{crypto.KEMX25519, crypto.KEMP256}, crypto.KEMP256},
		{TrustKids(x25519.kid(), p256.kid()), nil, crypto.KEMP256},
		{TrustKeyConfigs(unknown, x25519.base64(), wing.base64()), nil, crypto.KEMX25519},
		{TrustKeyConfigs(x25519.base64(), wing.base64()), []crypto.KEM{crypto.KEMXWing}, crypto.KEMXWing},
	} {
		var suite string
		transport := s.transport(t, c.trust, func(config *Config) {
			config.KEMs, config.OnMetrics = c.kems, func(e Exchange) { suite = e.Suite }
		})
		if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); err != nil || suite != c.want.String() {
			t.Errorf("%s, %v", suite, err)
		}
	}
	// None of the pinned ones is published.
	var retired *KeyRetiredError
	_, _, err := do(t, s.transport(t, TrustKids(newOneShotServiceKey(t, crypto.KEMX25519).kid()), nil), "POST", s.URL+"/", "x")
	if !errors.Is(err, ErrKeyRetired) || !errors.As(err, &retired) || !slices.Equal(retired.Kids, []string{wing.kid(), p256.kid(), x25519.kid()}) || retired.Verified {
		t.Fatal(err)
	}
	// A root's word on a key that is none does not make it one.
	broken := newOneShotServiceKey(t, crypto.KEMX25519)
	clear(broken.config[3:35])
	s.change(func() { s.keys = []*oneShotServiceKey{broken} })
	arrived := s.arrived.Load()
	var failed *Error
	_, _, err = do(t, s.transport(t, s.rootTrust(), nil), "POST", s.URL+"/", "x")
	if !errors.Is(err, wire.CodePublicKeyInvalid) || !errors.As(err, &failed) || failed.Stage != StageAgreement || s.arrived.Load() != arrived {
		t.Fatal(err)
	}
}

func TestAPSKThatTheServiceDoesNotKnowIsAnErrorThatNamesNoKey(t *testing.T) {
	s := newOneShotService(t, oneShotEcho, newOneShotServiceKey(t, crypto.KEMX25519))
	for _, psk := range []PSK{{"shop", bytes.Repeat([]byte{65}, 32)}, {"other", bytes.Repeat([]byte{65}, 32)}} {
		transport := s.transport(t, s.rootTrust(), func(c *Config) { c.PSK = psk })
		_, _, err := do(t, transport, "POST", s.URL+"/", "x")
		if !errors.Is(err, wire.CodeUnsealable) || !strings.Contains(err.Error(), "outcome of this request is unknown") {
			t.Fatal(err)
		}
		for _, shown := range []string{err.Error(), fmt.Sprintf("%+v %d %s", psk, psk, psk), fmt.Sprintf("%+v", transport.config), string(must(json.Marshal(psk)))} {
			if strings.Contains(shown, "AAAA") || strings.Contains(shown, "QUFB") || strings.Contains(shown, "65 65") {
				t.Fatal("a key is shown: ", shown)
			}
		}
	}
}

func TestOneShotObservesTheContextOfItsCaller(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	s := newOneShotService(t, func(w http.ResponseWriter, r *http.Request) { <-release }, newOneShotServiceKey(t, crypto.KEMX25519))
	ctx, cancel := context.WithCancelCause(t.Context())
	own := errors.New("the user left")
	s.spoilWith(func(w http.ResponseWriter, r *http.Request) {
		cancel(own)
		<-release
	})
	var wrapped *Error
	_, err := s.transport(t, s.rootTrust(), nil).RoundTrip(must(http.NewRequestWithContext(ctx, "GET", s.URL+"/", nil)))
	if !errors.Is(err, own) || errors.As(err, &wrapped) {
		t.Fatal(err)
	}
	_, err = s.transport(t, s.rootTrust(), func(c *Config) { c.HeadTimeout = 200 * time.Millisecond }).RoundTrip(must(http.NewRequest("GET", s.URL+"/", nil)))
	if !errors.As(err, &wrapped) || wrapped.Code != "timeout" || wrapped.Stage != StageCall {
		t.Fatal(err)
	}
}
