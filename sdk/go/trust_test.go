package sealway

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

func field(data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
}

func number(n uint64) []byte { return field(binary.BigEndian.AppendUint64(nil, n)) }

// signedSet is a key set as a root signs it.
func signedSet(t *testing.T, root crypto.Signer, issuedMs, expiresMs uint64, keys ...crypto.Signer) []byte {
	var timed []timedKey
	for _, key := range keys {
		timed = append(timed, timedKey{key, 0, 1 << 49})
	}
	return timedSet(t, root, issuedMs, expiresMs, timed...)
}

func timedSet(t *testing.T, root crypto.Signer, issuedMs, expiresMs uint64, keys ...timedKey) []byte {
	var list []byte
	var members []any
	for _, timed := range keys {
		key := timed.key
		id, public := crypto.KeyID(key.PublicKey()), key.PublicKey()
		one := append(append(append(field([]byte(id)), field(public)...), number(timed.notBeforeMs)...), number(timed.endsMs)...)
		list = append(list, field(one)...)
		members = append(members, map[string]any{"key_id": id, "alg": algorithmName(public), "public_key": wire.EncodeBase64(public), "not_before_ms": timed.notBeforeMs, "not_after_ms": timed.endsMs})
	}
	hash := sha256.Sum256(append(append(number(issuedMs), number(expiresMs)...), field(list)...))
	signature, err := root.Sign(append([]byte("sealway/3 keys"), hash[:]...))
	if err != nil {
		t.Fatal(err)
	}
	set, _ := json.Marshal(map[string]any{"issued_ms": issuedMs, "expires_ms": expiresMs, "keys": members,
		"root_key_id": crypto.KeyID(root.PublicKey()), "root_signature": wire.EncodeBase64(signature)})
	return set
}

func TestTheNewestKeySetOfARootWinsAlsoAfterARestart(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	root, far := newIdentity(t), uint64(1)<<49
	var set []byte
	s.Config.Handler = serveKeySet(s.Config.Handler, &set)
	file := filepath.Join(t.TempDir(), "roots")
	trust := TrustRoot(wire.EncodeBase64(root.PublicKey()), NewFileTrustStore(file))
	call := func() error {
		_, _, err := do(t, s.transport(t, func(c *Config) { c.Trust = trust }), "GET", s.URL+"/", "")
		return err
	}
	for _, c := range []struct {
		name string
		set  []byte
		want error
	}{
		{"signed", signedSet(t, root, 100, far, s.identity, newIdentity(t)), nil},
		{"newer", signedSet(t, root, 200, far, s.identity), nil},
		{"older", signedSet(t, root, 100, far, s.identity), wire.CodeKeyUntrusted},
		{"over", signedSet(t, root, 300, 400, s.identity), wire.CodeKeyUntrusted},
		{"another root", signedSet(t, newIdentity(t), 300, far, s.identity), wire.CodeKeyUntrusted},
		{"without the key", signedSet(t, root, 300, far, newIdentity(t)), wire.CodeKeyUntrusted},
		{"none", []byte("{}"), wire.CodeFieldInvalid},
	} {
		set = c.set
		if err := call(); c.want == nil && err != nil || c.want != nil && (!errors.Is(err, c.want) || !errorsAsTrust(err)) {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil || !strings.HasSuffix(string(kept), " root:"+crypto.KeyID(root.PublicKey())+" 300\n") {
		t.Fatalf("%q %v", kept, err)
	}
}

func serveKeySet(next http.Handler, set *[]byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == KeySetPath {
			w.Write(*set)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func TestAStateFileThatOthersMayWriteOrThatIsDamagedIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "known")
	for _, c := range []struct {
		text string
		mode os.FileMode
	}{{"http://localhost:3000 rubbish\n", 0o600}, {"", 0o666}, {"http://localhost:3000 " + strings.Repeat("0", 32) + ":" + wire.EncodeBase64(newIdentity(t).PublicKey()) + "\n", 0o600}} {
		os.Remove(file)
		if err := errors.Join(os.WriteFile(file, []byte(c.text), 0o600), os.Chmod(file, c.mode)); err != nil {
			t.Fatal(err)
		}
		if _, err := NewTransport("http://localhost:3000", Config{Trust: TrustFirstUse(NewFileTrustStore(file))}); err == nil {
			t.Fatalf("%q %o", c.text, c.mode)
		}
	}
}

func TestAGatewaysKeysAreTrustedByTheRootThatSignedThem(t *testing.T) {
	folder := t.TempDir()
	identity := func(args ...string) string {
		t.Helper()
		command := exec.Command(sealwayBinary(t), append([]string{"identity"}, args...)...)
		command.Dir = folder
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", args, out)
		}
		return string(out)
	}
	identity("generate", "identity.keys")
	root := regexp.MustCompile(`[A-Za-z0-9+/]{87}=`).FindString(identity("root", "root.key"))
	identity("sign", "identity.keys", "--root", "root.key", "--expires-in", "30d")
	url, _ := startGatewayIn(t, folder, strings.Replace(gatewayConfig, "allow_generated: true", `key_file: "identity.keys"`, 1))
	file := filepath.Join(folder, "roots")
	for range 2 {
		transport := must(NewTransport(url, Config{Trust: TrustRoot(root, NewFileTrustStore(file))}))
		if _, body, err := do(t, transport, "POST", url+"/transaction/purchase", purchaseBody); err != nil || !strings.Contains(body, "SUCCESS") {
			t.Fatal(body, err)
		}
	}
	if kept, err := os.ReadFile(file); err != nil || !strings.Contains(string(kept), " root:") {
		t.Fatal(string(kept), err)
	}
	stranger := must(NewTransport(url, Config{Trust: TrustRoot(wire.EncodeBase64(newIdentity(t).PublicKey()), nil)}))
	if _, _, err := do(t, stranger, "POST", url+"/transaction/purchase", purchaseBody); !errorsAsTrust(err) || !errors.Is(err, wire.CodeKeyUntrusted) {
		t.Fatal(err)
	}
}

func TestAnErrorNamesHostAndRemedyAndRecognisesACaptivePortal(t *testing.T) {
	honest := newService(t, http.HandlerFunc(echo))
	portal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, "<html>Accept our terms</html>")
	}))
	t.Cleanup(portal.Close)
	for _, version := range []wire.Version{1, 2, 3} {
		config := honest.config(t)
		config.Wire = version
		_, err := must(NewTransport(portal.URL, config)).Session(t.Context())
		var refused *ProblemError
		if !errors.As(err, &refused) {
			t.Fatal(err)
		}
		if !refused.HTML || !strings.Contains(err.Error(), "captive portal") || !strings.Contains(err.Error(), strings.TrimPrefix(portal.URL, "http://")) {
			t.Errorf("wire %d: %v", version, err)
		}
		transport := honest.transport(t, func(c *Config) { c.Wire = version })
		if _, err := transport.Session(t.Context()); err != nil {
			t.Fatal(err)
		}
		transport.config.Base = roundTripper(func(r *http.Request) (*http.Response, error) {
			r.URL.Host = strings.TrimPrefix(portal.URL, "http://")
			return http.DefaultTransport.RoundTrip(r)
		})
		_, _, err = do(t, transport, "POST", honest.URL+"/", "x")
		if !errors.As(err, &refused) || !refused.HTML || !strings.Contains(err.Error(), strings.TrimPrefix(honest.URL, "http://")) || !strings.Contains(err.Error(), "captive portal") {
			t.Errorf("wire %d: %v", version, err)
		}
	}
	stranger := honest.transport(t, func(c *Config) { c.Trust = TrustPins(strings.Repeat("0", 32)) })
	if _, err := stranger.Session(t.Context()); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(honest.URL, "http://")) {
		t.Error(err)
	}
}
