package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const profiles = `
- Name: Default
  Settings: {CryptoLibrary: native}
  API:
    HashData: {HashAlg: sha-256}
    SignCertificate:
      SignAlg: ecdsa
      HashAlg: sha-256
      SKIHashAlg: sha-256
      Validity: {ValidNotBeforeOffset: -1h, ValidNotAfterOffset: 24h}
      KeyConstraints: {Subject: {ecdsa: {MinKeySize: 256, MaxKeySize: 521}}, Issuer: {ecdsa: {MinKeySize: 256, MaxKeySize: 521}}}
      KeyUsage: [digitalSignature]
      ExtendedKeyUsage: [clientAuth]
`

func sealway(t *testing.T) string {
	t.Helper()
	path := os.Getenv("SEALWAY_BIN")
	if path == "" {
		path, _ = filepath.Abs("../../../../../target/debug/sealway")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("there is no binary sealway: build it (cargo build), or name it by SEALWAY_BIN: %v", err)
	}
	return path
}

// serve starts a broker and gives its folder and socket.
func serve(t *testing.T) (folder, socket string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "broker")
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(folder, "b.sock")
	path := write(t, folder, "Profiles.yaml", []byte(profiles))
	kek := write(t, folder, "kek", []byte("test "+strings.Repeat("5a", 32)+"\n"))
	command := exec.Command(sealway(t), "broker", "serve", "--dev", "--socket", socket, "--profiles", path,
		"--keys", filepath.Join(folder, "keys"), "--kek-file", kek)
	var words bytes.Buffer
	command.Stdout, command.Stderr = &words, &words
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = os.RemoveAll(folder)
	})
	for range 500 {
		if connection, err := net.Dial("unix", socket); err == nil {
			_ = connection.Close()
			return folder, socket
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("the broker does not listen:\n%s", words.String())
	return "", ""
}

func write(t *testing.T, folder, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func say(t *testing.T, ctx context.Context, arguments ...string) string {
	t.Helper()
	var output bytes.Buffer
	if err := run(ctx, arguments, &output); err != nil {
		t.Fatalf("%v: %v", arguments, err)
	}
	return output.String()
}

func TestEveryCommandAgainstARealBroker(t *testing.T) {
	folder, socket := serve(t)
	ctx := context.Background()
	if said := say(t, ctx, "--socket", socket, "health"); said != "SERVING\n" {
		t.Error(said)
	}
	digest := sha256.Sum256([]byte("hello"))
	file := write(t, folder, "input", []byte("hello"))
	want := hex.EncodeToString(digest[:]) + "\n"
	if said := say(t, ctx, "--socket", socket, "hash", "hello", "@"+file); said != want+want {
		t.Error(said)
	}
	if said := say(t, ctx, "--socket", socket, "hash", "--output-format", "raw", "hello"); said != string(digest[:]) {
		t.Errorf("%x", said)
	}
	signing(t, folder, socket)
	var made report
	line := say(t, ctx, "--socket", socket, "benchmark", "--calls", "50", "--concurrency", "4")
	if json.Unmarshal([]byte(line), &made) != nil || made.Calls != 50 || made.Failed != 0 || made.LatencyMS["p99"] <= 0 {
		t.Error(line)
	}
	if said := say(t, ctx, "--socket", socket, "--timeout", "2m", "benchmark", "--server"); !json.Valid([]byte(said)) {
		t.Error(said)
	}
	short, stop := context.WithCancel(ctx)
	time.AfterFunc(300*time.Millisecond, stop)
	if said := say(t, short, "--socket", socket, "--loop", "10", "health"); strings.Count(said, "SERVING\n") < 3 {
		t.Errorf("it was said %d times", strings.Count(said, "SERVING\n"))
	}
}

func signing(t *testing.T, folder, socket string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-2 * time.Hour),
		NotAfter: time.Now().Add(48 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	authority, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "service"}}, private)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, kind string, der []byte) string {
		return write(t, folder, name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	common := []string{"--csr", file("csr", "CERTIFICATE REQUEST", request), "--ca-cert", file("ca", "CERTIFICATE", authority)}
	key := file("key", "PRIVATE KEY", der)
	if said, err := exec.Command(sealway(t), "broker", "keys", "--socket", socket, "import", "ca", "--algorithm", "ecdsa-p256", "--file", key).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", said, err)
	}
	for _, by := range [][]string{{"--ca-key-ref", "ca"}, {"--ca-key", key}} {
		arguments := append(append([]string{"--socket", socket, "sign"}, common...), by...)
		block, _ := pem.Decode([]byte(say(t, context.Background(), arguments...)))
		if block == nil {
			t.Fatal("no PEM")
		}
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil || leaf.Subject.CommonName != "service" || leaf.Issuer.CommonName != "authority" {
			t.Errorf("%v: %v", by, err)
		}
		if said := say(t, context.Background(), append(arguments, "--encoding", "der")...); !strings.HasPrefix(said, "\x30\x82") {
			t.Error("no DER")
		}
	}
}

func TestWrongArgumentsAreReported(t *testing.T) {
	t.Setenv("CRYPTO_BROKER_SOCKET", "")
	for _, arguments := range [][]string{
		{}, {"health"}, {"--socket", "x"}, {"--socket", "x", "dance"}, {"--socket", "x", "hash"}, {"--socket", "x", "--loop", "1001", "health"},
		{"--socket", "x", "--broker-uid", "me", "health"}, {"--socket", "x", "hash", "--output-format", "xml", "a"}, {"--socket", "x", "hash", "@/none"},
		{"--socket", "x", "sign", "--csr", "/none"}, {"--socket", "x", "benchmark", "--calls", "0"}, {"--socket", "x", "--timeout", "0s", "health"},
	} {
		err := run(context.Background(), arguments, &bytes.Buffer{})
		var usage usageError
		if !errors.As(err, &usage) {
			t.Errorf("%v: %v", arguments, err)
		}
	}
	var usage usageError
	if err := run(context.Background(), []string{"--socket", filepath.Join(t.TempDir(), "none"), "health"}, &bytes.Buffer{}); err == nil || errors.As(err, &usage) {
		t.Error(err)
	}
}

func TestHelpBeforeOrAfterACommandSucceeds(t *testing.T) {
	for _, arguments := range [][]string{{"--help"}, {"-h"}, {"--socket", "/none", "sign", "--help"}, {"--socket", "/none", "hash", "-h"}} {
		var printed bytes.Buffer
		if err := run(t.Context(), arguments, &printed); err != nil || printed.String() != usage {
			t.Errorf("%v: %v: %s", arguments, err, printed.String())
		}
	}
}
