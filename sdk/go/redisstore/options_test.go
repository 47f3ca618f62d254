package redisstore_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	sealway "sealway.dev/go"
	"sealway.dev/go/redisstore"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

func TestTheScriptIsThatOfTheSpec(t *testing.T) {
	page := string(must(os.ReadFile("../../../spec/redis-store.md")))
	_, rest, found := strings.Cut(page, "```lua\n")
	text, _, ends := strings.Cut(rest, "```")
	if !found || !ends || text != redisstore.Script {
		t.Fatal("another script")
	}
}

func TestAWrongOptionIsNamedWithoutItsSecrets(t *testing.T) {
	for name, options := range map[string]redisstore.Options{
		"no URL":         {Keys: kek1},
		"http":           {URL: "http://u:SECRET@localhost", Keys: kek1},
		"a bad URL":      {URL: "redis://u:SECRET@local host:x", Keys: kek1},
		"no keys":        {URL: "redis://localhost"},
		"both":           {URL: "redis://localhost", Keys: kek1, KeyFile: "x"},
		"a short key":    {URL: "redis://localhost", Keys: "kek-1 U0VDUkVU\n"},
		"no base64":      {URL: "redis://localhost", Keys: "kek-1 SECRET!\n"},
		"an id twice":    {URL: "redis://localhost", Keys: kek1 + kek1},
		"a wrong id":     {URL: "redis://localhost", Keys: "k|k" + kek1},
		"17 keys":        {URL: "redis://localhost", Keys: manyKeys(17)},
		"no file":        {URL: "redis://localhost", KeyFile: "/nowhere/at/all"},
		"unverified":     {URL: "rediss://u:SECRET@localhost?skip_verify=true", Keys: kek1},
		"many options":   {URL: "redis://u:SECRET@localhost?db=1&max_retries=3", Keys: kek1},
		"a bad prefix":   {URL: "redis://localhost", Keys: kek1, Prefix: "a}b"},
		"TLS, but not":   {URL: "redis://u:SECRET@localhost", Keys: kek1, TLS: &tls.Config{}},
		"a bad deadline": {URL: "redis://localhost", Keys: kek1, Deadline: -1},
	} {
		if _, err := redisstore.Open(options); err == nil || strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "U0VD") {
			t.Errorf("%s: %v", name, err)
		}
	}
	store, err := redisstore.Open(redisstore.Options{URL: "redis://localhost?db=1", Keys: manyKeys(16)})
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
}

func TestAWrongLineOfAFileOfKeysIsNamed(t *testing.T) {
	file := t.TempDir() + "/keys"
	if err := os.WriteFile(file, []byte("# keys\n"+kek1+"k2 SECRET!\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := redisstore.Open(redisstore.Options{URL: "redis://localhost", KeyFile: file})
	if err == nil || !strings.Contains(err.Error(), file+":3:") || strings.Contains(err.Error(), "SECRET") {
		t.Fatal(err)
	}
}

func manyKeys(n int) (lines string) {
	for i := range n {
		lines += fmt.Sprint("k", i) + strings.TrimPrefix(kek1, "kek-1")
	}
	return lines
}

// selfSigned writes a certificate of 127.0.0.1 and its key, and gives who trusts it.
func selfSigned(t *testing.T, folder string) *x509.CertPool {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: must(x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key))})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))})
	if err := errors.Join(os.WriteFile(filepath.Join(folder, "cert.pem"), certificate, 0o600), os.WriteFile(filepath.Join(folder, "key.pem"), private, 0o600)); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	return pool
}

func TestOverTLSAStrangerIsNotTalkedTo(t *testing.T) {
	s := startRedis(t)
	pool := selfSigned(t, s.folder)
	admin := redis.NewClient(must(redis.ParseURL(s.gatewayURL())))
	defer admin.Close()
	port := freePort()
	for _, pair := range [][2]string{{"tls-cert-file", filepath.Join(s.folder, "cert.pem")}, {"tls-key-file", filepath.Join(s.folder, "key.pem")},
		{"tls-ca-cert-file", filepath.Join(s.folder, "cert.pem")}, {"tls-auth-clients", "no"}, {"tls-port", fmt.Sprint(port)}} {
		if err := admin.ConfigSet(t.Context(), pair[0], pair[1]).Err(); err != nil && pair[0] == "tls-port" {
			t.Fatal(pair, err)
		}
	}
	// An epoch, as a gateway begins it.
	generation := strings.Repeat("a", 32)
	info := must(admin.InfoMap(t.Context(), "replication").Result())
	now := time.Now().UnixMilli()
	admin.HSet(t.Context(), "{sealway:0}:epoch", "gen", generation, "floor", now-1000, "hw", now, "made", now, "node", info["Replication"]["master_replid"])
	admin.Set(t.Context(), "{sealway:0}:canary", "1", 11*time.Second)
	admin.ScriptLoad(t.Context(), strings.ReplaceAll(redisstore.Script, "GENERATION", generation))
	options := redisstore.Options{URL: fmt.Sprintf("rediss://ours:%s@127.0.0.1:%d", ourPassword, port), Keys: kek1}
	id := "S-" + strings.Repeat("0", 32)
	for _, trusted := range []bool{true, false} {
		options.TLS = nil
		if trusted {
			options.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		}
		store := must(redisstore.Open(options))
		defer store.Close()
		want := error(wire.CodeSessionUnknown)
		if !trusted {
			want = sealway.ErrStoreUnavailable
		}
		if _, err := store.Session(t.Context(), id); !errors.Is(err, want) {
			t.Fatal(trusted, err)
		}
		claim := session.Claim{Key: [16]byte{1}, Sealed: true, StampMs: uint64(time.Now().UnixMilli()), KeptMs: 600_001}
		if _, err := store.Reserve(t.Context(), claim); trusted == (err != nil) || !trusted && !errors.Is(err, sealway.ErrStoreUnavailable) {
			t.Fatal(trusted, err)
		}
	}
}
