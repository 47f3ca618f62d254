package sealway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// availableAlgorithms are those that this program has: all of them where the module mldsa runs these tests.
func availableAlgorithms() []crypto.SignatureAlgorithm {
	return slices.DeleteFunc(crypto.SignatureAlgorithms(), func(a crypto.SignatureAlgorithm) bool { return !a.Available() })
}

// keyOf is a key of an algorithm.
func keyOf(t testing.TB, algorithm crypto.SignatureAlgorithm, fill byte) crypto.Signer {
	length := map[crypto.SignatureAlgorithm]int{crypto.ES256: 32, crypto.ES384: 48, crypto.MLDSA65: 32, crypto.MLDSA87: 32, crypto.ES256MLDSA65: 64, crypto.ES384MLDSA87: 80}
	key, err := algorithm.ParseKey(bytes.Repeat([]byte{fill}, length[algorithm]))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func onlyAlgorithms(algorithms ...crypto.SignatureAlgorithm) func(*Config) {
	return func(c *Config) { c.SignatureAlgorithms = algorithms }
}

func TestEachAlgorithmSignsSessionsForPinsRootsAndFirstUse(t *testing.T) {
	for _, algorithm := range availableAlgorithms() {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			s := newService(t, http.HandlerFunc(echo))
			s.identity, s.older = keyOf(t, algorithm, 7), []crypto.Signer{keyOf(t, crypto.ES256, 8)}
			s.suites = append(crypto.Suites(), crypto.SecP384r1MLKEM1024)
			root := keyOf(t, algorithm, 9)
			published := signedSet(t, root, 100, 1<<49, s.identity, s.older[0])
			s.Config.Handler = serveKeySet(s.Config.Handler, &published)
			public, file := wire.EncodeBase64(s.identity.PublicKey()), filepath.Join(t.TempDir(), "known")
			for name, change := range map[string]func(*Config){
				"pinned id":  func(c *Config) { c.Trust = TrustPins(crypto.KeyID(s.identity.PublicKey())) },
				"pinned key": func(c *Config) { c.Trust = TrustPins(public) },
				"pinned key, restricted": func(c *Config) {
					c.Trust, c.SignatureAlgorithms = TrustPins(public), []crypto.SignatureAlgorithm{algorithm}
				},
				"root, restricted": func(c *Config) {
					c.Trust, c.SignatureAlgorithms = TrustRoot(wire.EncodeBase64(root.PublicKey()), nil), []crypto.SignatureAlgorithm{algorithm}
				},
				"first use, restricted": func(c *Config) {
					c.Trust, c.SignatureAlgorithms = TrustFirstUse(NewFileTrustStore(file)), []crypto.SignatureAlgorithm{algorithm}
				},
				"pinned key, CNSA suite": func(c *Config) { c.Trust, c.Suites = TrustPins(public), []crypto.Suite{crypto.SecP384r1MLKEM1024} },
			} {
				transport := s.transport(t, change)
				response, body, err := do(t, transport, "POST", s.URL+"/", "hello")
				if err != nil || body != "hello" || response.StatusCode != 200 {
					t.Fatalf("%s: %s %v", name, body, err)
				}
				if transport.KeyID() != crypto.KeyID(s.identity.PublicKey()) {
					t.Fatalf("%s: another key signs", name)
				}
				agreed, _ := transport.native.peek()
				if _, err := transport.agreeNative(t.Context(), agreed); err != nil {
					t.Fatalf("%s: no renewal: %v", name, err)
				}
			}
			// What the first use kept leaves out the key of another algorithm, and is read again.
			line := must(NewFileTrustStore(file).Line(origin(must(baseURL(s.URL, "")))))
			if keys, _, err := parseTrustLine(line); err != nil || len(keys) != 1+map[bool]int{true: 1}[algorithm == crypto.ES256] || keys[crypto.KeyID(s.identity.PublicKey())] == nil {
				t.Fatalf("%d keys: %v", len(keys), err)
			}
			again := s.transport(t, func(c *Config) { c.Trust = TrustFirstUse(NewFileTrustStore(file)) })
			if _, _, err := do(t, again, "GET", s.URL+"/", ""); err != nil || again.KeyID() != crypto.KeyID(s.identity.PublicKey()) {
				t.Fatal(err)
			}
			// Without pins and without a restriction the service takes its key of ES256.
			plain := s.transport(t, func(c *Config) { c.Trust = TrustRoot(wire.EncodeBase64(root.PublicKey()), nil) })
			if _, _, err := do(t, plain, "GET", s.URL+"/", ""); err != nil || algorithm != crypto.ES256 && plain.KeyID() != crypto.KeyID(s.older[0].PublicKey()) {
				t.Fatalf("%s %v", plain.KeyID(), err)
			}
		})
	}
}

func TestARootOfEachAlgorithmSignsKeyDocuments(t *testing.T) {
	for _, algorithm := range availableAlgorithms() {
		key := newOneShotServiceKey(t, crypto.KEMX25519)
		s := newOneShotService(t, http.HandlerFunc(echo), key)
		root := keyOf(t, algorithm, 9)
		document := signedDocument(root, 100, 1<<49, key)
		s.Config.Handler = serveDocument(s.Config.Handler, &document)
		trust := TrustRoot(wire.EncodeBase64(root.PublicKey()), nil)
		for _, change := range []func(*Config){nil, onlyAlgorithms(algorithm)} {
			if _, body, err := do(t, s.transport(t, trust, change), "POST", s.URL+"/", "hello"); err != nil || body != "hello" {
				t.Fatalf("%s: %s %v", algorithm, body, err)
			}
		}
		document = bytes.Replace(document, []byte(`"issued_ms":100`), []byte(`"issued_ms":101`), 1)
		if _, _, err := do(t, s.transport(t, trust, nil), "POST", s.URL+"/", "hello"); !errors.Is(err, wire.CodeSignatureInvalid) {
			t.Fatalf("%s: %v", algorithm, err)
		}
	}
}

func TestTheSuitesWithMLKEM1024AreOfferedOnlyWhereTheyAreNamed(t *testing.T) {
	if slices.Contains(crypto.Suites(), crypto.SecP384r1MLKEM1024) || slices.Contains(crypto.Suites(), crypto.MLKEM1024) {
		t.Fatal(crypto.Suites())
	}
	s := newService(t, http.HandlerFunc(echo))
	for _, suite := range []crypto.Suite{crypto.SecP384r1MLKEM1024, crypto.MLKEM1024} {
		only := func(c *Config) { c.Suites = []crypto.Suite{suite} }
		s.suites = crypto.Suites()
		var problem *ProblemError
		if _, _, err := do(t, s.transport(t, only), "GET", s.URL+"/", ""); !errors.As(err, &problem) || problem.Code != "suite_required" {
			t.Fatalf("%s: %v", suite, err)
		}
		s.suites = append([]crypto.Suite{suite}, crypto.Suites()...)
		transport := s.transport(t, only)
		if _, body, err := do(t, transport, "POST", s.URL+"/", "x"); err != nil || body != "x" || transport.Suite() != suite {
			t.Fatalf("%s: %v", suite, err)
		}
	}
}

// alterInit has a man in the middle change the members of inits on their way.
func alterInit(next http.Handler, change func(members map[string]any)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v3/sessions" {
			var members map[string]any
			if json.NewDecoder(r.Body).Decode(&members) == nil {
				change(members)
			}
			body, _ := json.Marshal(members)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		next.ServeHTTP(w, r)
	})
}

func TestNobodyInBetweenChangesTheAlgorithms(t *testing.T) {
	weak, strong := keyOf(t, crypto.ES256, 8), keyOf(t, crypto.ES384, 7)
	for name, c := range map[string]struct {
		change func(members map[string]any)
		want   error
	}{
		"stripped":            {func(m map[string]any) { delete(m, "signature_algorithms") }, wire.CodeKeyUntrusted},
		"weaker":              {func(m map[string]any) { m["signature_algorithms"] = []string{"ES256"} }, wire.CodeKeyUntrusted},
		"reversed":            {func(m map[string]any) { m["signature_algorithms"] = []string{"ES256", "ES384"} }, wire.CodeKeyUntrusted},
		"an unknown one more": {func(m map[string]any) { m["signature_algorithms"] = []string{"ES384", "XMSS"} }, wire.CodeSignatureInvalid},
		"nothing":             {func(map[string]any) {}, nil},
	} {
		s := newService(t, http.HandlerFunc(echo))
		// The weak key is the latest, so that a server without the client's list signs with it.
		s.identity, s.older = weak, []crypto.Signer{strong}
		s.Config.Handler = alterInit(s.Config.Handler, c.change)
		root := keyOf(t, crypto.ES384, 9)
		set := signedSet(t, root, 100, 1<<49, weak, strong)
		s.Config.Handler = serveKeySet(s.Config.Handler, &set)
		for kind, trust := range map[string]Trust{"root": TrustRoot(wire.EncodeBase64(root.PublicKey()), nil), "first use": TrustFirstUse(nil)} {
			transport := s.transport(t, func(config *Config) {
				config.Trust, config.SignatureAlgorithms = trust, []crypto.SignatureAlgorithm{crypto.ES384}
			})
			_, _, err := do(t, transport, "GET", s.URL+"/", "")
			if c.want == nil && err != nil || c.want != nil && (!errors.Is(err, c.want) || !errorsAsTrust(err)) {
				t.Fatalf("%s, %s: %v", name, kind, err)
			}
		}
	}
	// A client without a restriction that gets one on the way notices too.
	s := newService(t, http.HandlerFunc(echo))
	s.Config.Handler = alterInit(s.Config.Handler, func(m map[string]any) { m["signature_algorithms"] = []string{"ES256"} })
	if _, _, err := do(t, s.transport(t, nil), "GET", s.URL+"/", ""); !errors.Is(err, wire.CodeSignatureInvalid) {
		t.Fatal(err)
	}
}

func TestTheAlgorithmsAreInTheProofsHashAndAbsentOnesChangeNoByte(t *testing.T) {
	keys := must(crypto.DrawKeys(crypto.P256, true, bytes.NewReader(bytes.Repeat([]byte{7}, 64))))
	hash := func(algorithms ...crypto.SignatureAlgorithm) ([32]byte, string) {
		init := must(session.NewClientInit(session.Offer{Suites: []crypto.Suite{crypto.P256}, ClientID: "a", SignatureAlgorithms: algorithms}, crypto.P256, keys, nil))
		return init.InitHash(), string(init.Body())
	}
	without, body := hash()
	if strings.Contains(body, "signature_algorithms") {
		t.Fatal(body)
	}
	seen := map[[32]byte]bool{without: true}
	for _, list := range [][]crypto.SignatureAlgorithm{{crypto.ES256}, {crypto.ES384}, {crypto.ES256, crypto.ES384}, {crypto.ES384, crypto.ES256}} {
		of, body := hash(list...)
		if seen[of] || !strings.Contains(body, `"signature_algorithms":["`+string(list[0])) {
			t.Fatal(list, body)
		}
		seen[of] = true
	}
}

func TestAnAlgorithmThatTheClientWouldNeverAcceptIsAnErrorOfItsConfiguration(t *testing.T) {
	pin := func(algorithm crypto.SignatureAlgorithm) string {
		return wire.EncodeBase64(keyOf(t, algorithm, 7).PublicKey())
	}
	file := filepath.Join(t.TempDir(), "known")
	store := NewFileTrustStore(file)
	store.Update("https://a.example:443", func(string) (string, error) {
		public := keyOf(t, crypto.ES256, 7).PublicKey()
		return crypto.KeyID(public) + ":" + wire.EncodeBase64(public), nil
	})
	only := []crypto.SignatureAlgorithm{crypto.ES384}
	for want, config := range map[string]Config{
		`Config.SignatureAlgorithms: "ES512" is unknown`:         {Trust: TrustPins(pin(crypto.ES256)), SignatureAlgorithms: []crypto.SignatureAlgorithm{"ES512"}},
		"Config.SignatureAlgorithms has ES384 twice":             {Trust: TrustPins(pin(crypto.ES384)), SignatureAlgorithms: append(only, only...)},
		"Config.SignatureAlgorithms has 9 algorithms":            {Trust: TrustPins(pin(crypto.ES384)), SignatureAlgorithms: slices.Repeat(only, 9)},
		"Config.Trust: the key":                                  {Trust: TrustPins(pin(crypto.ES384), pin(crypto.ES256)), SignatureAlgorithms: only},
		"is of ES256, and Config.SignatureAlgorithms is [ES384]": {Trust: TrustRoot(pin(crypto.ES256), nil), SignatureAlgorithms: only},
		"no key of https://a.example:443":                        {Trust: TrustFirstUse(store), SignatureAlgorithms: only},
		"Config.Trust: the key ":                                 {Wire: wire.Wire4, Trust: TrustRoot(pin(crypto.ES256), nil), SignatureAlgorithms: only},
	} {
		var wrong *UsageError
		if _, err := NewTransport("https://a.example", config); !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if crypto.MLDSA65.Available() {
		return
	}
	// A public key of ML-DSA is any bytes of its length.
	quantum := wire.EncodeBase64(make([]byte, crypto.MLDSA65.PublicLen()))
	for _, config := range []Config{{Trust: TrustPins(quantum)}, {Trust: TrustRoot(quantum, nil)}, {Trust: TrustPins(pin(crypto.ES256)), SignatureAlgorithms: []crypto.SignatureAlgorithm{crypto.MLDSA65}}} {
		if _, err := NewTransport("https://a.example", config); err == nil || !strings.Contains(err.Error(), "the module sealway.dev/go/mldsa: import it") {
			t.Error(err)
		}
	}
}
