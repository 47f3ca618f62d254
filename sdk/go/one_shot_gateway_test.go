package sealway

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

const oneShotConfig = `
listeners:
  - address: "127.0.0.1:0"
routes:
  - match: { path_prefix: "/private/" }
    sealed: hpke
    one_shot: { client: psk }
    upstream: shop
  - match: { path_prefix: "/transaction/" }
    sealed: hpke
    upstream: shop
upstreams:
  shop: { servers: ["demo:"] }
one_shot: { keys: "one-shot.keys", psk: { master: "psk.master" } }
sessions: { store: "file:sessions.redb", allow_generated_kek: true }
telemetry: { log_format: json, log_level: info }
`

// oneShotGateway is a gateway of its own with one key of a KEM, which a root signed.
type oneShotGateway struct {
	url, kid, root string
	psk            PSK
}

func startOneShotGateway(t *testing.T, kem string) oneShotGateway {
	folder := t.TempDir()
	run := func(arguments ...string) string {
		command := exec.Command(sealwayBinary(t), arguments...)
		command.Dir = folder
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", arguments, err, out)
		}
		return string(out)
	}
	name := regexp.MustCompile(`[0-9a-f]{32}`).FindString(run("one-shot-keys", "add", "one-shot.keys", "--use", "hpke", "--kem", kem))
	root := regexp.MustCompile(`[A-Za-z0-9+/]{87}=`).FindString(run("identity", "root", "root.key"))
	run("one-shot-keys", "sign", "one-shot.keys", "--root", "root.key", "--expires-in", "30d")
	master := make([]byte, 32)
	rand.Read(master)
	if err := os.WriteFile(filepath.Join(folder, "psk.master"), []byte(base64.StdEncoding.EncodeToString(master)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	psk := PSK{"shop-1", must(hkdf.Expand(sha256.New, must(hkdf.Extract(sha256.New, []byte("shop-1"), master)), "sealway/4 psk", 32))}
	url, _ := startGatewayIn(t, folder, oneShotConfig)
	return oneShotGateway{url, "hpke:" + name, root, psk}
}

func (g oneShotGateway) transport(t *testing.T, trust Trust, change func(*Config)) *Transport {
	return (&oneShotService{Server: &httptest.Server{URL: g.url}}).transport(t, trust, change)
}

func TestOneShotRequestsReachARealGatewayOfEachKEM(t *testing.T) {
	for kem, name := range map[crypto.KEM]string{crypto.KEMXWing: "x-wing", crypto.KEMMLKEM768P256: "mlkem768-p256", crypto.KEMX25519: "x25519", crypto.KEMP256: "p256"} {
		g := startOneShotGateway(t, name)
		for _, trust := range []Trust{TrustKids(g.kid), TrustRoot(g.root, nil)} {
			for _, psk := range []PSK{{}, g.psk} {
				var seen Exchange
				transport := g.transport(t, trust, func(c *Config) { c.PSK, c.OnMetrics = psk, func(e Exchange) { seen = e } })
				response, body, err := do(t, transport, "POST", g.url+"/transaction/purchase", purchaseBody)
				if err != nil || response.StatusCode != 200 || !strings.Contains(body, "SUCCESS") || seen.Suite != kem.String() {
					t.Fatalf("%v: %v, %s, %q", kem, err, seen.Suite, body)
				}
				for _, method := range []string{"GET", "HEAD", "DELETE"} {
					// The service's own 404, under its seal.
					if response, _, err := do(t, transport, method, g.url+"/transaction/nothing?x=1", ""); err != nil || response.StatusCode < 400 {
						t.Fatalf("%v, %s: %v", kem, method, err)
					}
				}
				large := `{"schemeCode":"AEF","amount":5000,"note":"` + strings.Repeat("x", 200_000) + `"}`
				if _, body, err := do(t, transport, "POST", g.url+"/transaction/purchase", large); err != nil || !strings.Contains(body, "status") {
					t.Fatalf("%v: %v, %q", kem, err, body)
				}
				_, _, err = do(t, transport, "POST", g.url+"/private/purchase", purchaseBody)
				if psk.ID == "" && !errors.Is(err, ErrPolicy) || psk.ID != "" && err != nil {
					t.Fatalf("%v, psk %q: %v", kem, psk.ID, err)
				}
			}
		}
	}
}

func TestARealGatewayRejectsWhatWireFourRejects(t *testing.T) {
	g := startOneShotGateway(t, "x25519")
	root := TrustRoot(g.root, nil)
	post := func(transport *Transport) error {
		_, _, err := do(t, transport, "POST", g.url+"/transaction/purchase", purchaseBody)
		return err
	}
	// The same bytes twice.
	twice := g.transport(t, root, nil)
	twice.config.Base = roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Body == nil || r.Method != "POST" {
			return http.DefaultTransport.RoundTrip(r)
		}
		body, _ := io.ReadAll(r.Body)
		again := r.Clone(r.Context())
		r.Body, again.Body = io.NopCloser(bytes.NewReader(body)), io.NopCloser(bytes.NewReader(body))
		first, err := http.DefaultTransport.RoundTrip(r)
		if err != nil || first.StatusCode != 200 {
			t.Error(err, first)
		}
		first.Body.Close()
		return http.DefaultTransport.RoundTrip(again)
	})
	if err := post(twice); !errors.Is(err, ErrReplayed) {
		t.Error(err)
	}
	// Another key, and a wrong PSK.
	var retired *KeyRetiredError
	other := newOneShotServiceKey(t, crypto.KEMX25519)
	if err := post(g.transport(t, TrustKeyConfigs(other.base64()), nil)); !errors.As(err, &retired) || !slices.Equal(retired.Kids, []string{g.kid}) {
		t.Error(err)
	}
	for _, psk := range []PSK{{"shop-2", g.psk.Key}, {"shop-1", make([]byte, 32)}} {
		if err := post(g.transport(t, root, func(c *Config) { c.PSK = psk })); !errors.Is(err, wire.CodeUnsealable) {
			t.Error(err)
		}
	}
	// A client's clock that is behind.
	for offsetMs, sent := range map[int64]bool{-700_000: true, -400_000: false, 400_000: false} {
		transport := g.transport(t, root, nil)
		transport.oneShot.offsetMs.Store(offsetMs)
		if err := post(transport); sent != (err == nil) || !sent && !errors.Is(err, ErrClockSkew) {
			t.Errorf("%d: %v", offsetMs, err)
		}
		if err := post(transport); err != nil {
			t.Errorf("after %d: %v", offsetMs, err)
		}
	}
	stranger := TrustRoot(wire.EncodeBase64(newIdentity(t).PublicKey()), nil)
	if err := post(g.transport(t, stranger, nil)); !errorsAsTrust(err) || !errors.Is(err, wire.CodeKeyUntrusted) {
		t.Error(err)
	}
}
