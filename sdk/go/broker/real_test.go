package broker

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(made T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
}

func TestEveryOperationOfARealBroker(t *testing.T) {
	socket, _ := serve(t)
	asks := client(t, Options{Socket: socket, Deadline: 30 * time.Second})
	ctx := context.Background()
	if health := must[string](t)(asks.Health(ctx)); health != "SERVING" {
		t.Error(health)
	}
	said := must[*Information](t)(asks.Information(ctx))
	if said.Version == "" || !slices.Contains(said.Profiles, "Sha256") {
		t.Errorf("%+v", said)
	}
	want := sha256.Sum256([]byte("abc"))
	hashed := must[Batch[[]byte]](t)(asks.Hash(ctx, "Sha256", []byte("abc"), nil))
	if !bytes.Equal(hashed.Outputs[0], want[:]) || hashed.Descriptor.Algorithm != "sha-256" {
		t.Errorf("%+v", hashed)
	}
	random := must[Batch[Secret]](t)(asks.Random(ctx, "Default", 24, 3))
	if len(random.Outputs) != 3 || bytes.Equal(random.Outputs[0], random.Outputs[1]) {
		t.Error("random bytes that are not")
	}
	t.Run("encryption", func(t *testing.T) { encryption(t, asks) })
	t.Run("signatures and certificates", func(t *testing.T) { signatures(t, asks) })
	t.Run("tags, derivations and shared secrets", func(t *testing.T) { agreements(t, asks) })
	t.Run("keys", func(t *testing.T) { keysOf(t, asks) })
	if in, out := asks.Traffic(); in == 0 || out == 0 {
		t.Error("nothing was counted")
	}
	for code, err := range map[codes.Code]error{
		codes.InvalidArgument: second(asks.Hash(ctx, "nobody", nil)),
		codes.NotFound:        second(asks.Sign(ctx, "P256", "nobody", nil)),
	} {
		if told := codeOf(t, err); told.Code != code || told.Delivery != Answered || told.Attempts != 1 {
			t.Error(err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func encryption(t *testing.T, asks *Client) {
	ctx := context.Background()
	must[Key](t)(asks.GenerateKey(ctx, "seal", "aes-256-gcm"))
	sealed := must[Batch[Cipher]](t)(asks.Encrypt(ctx, "Seal", "seal",
		Plain{Plaintext: Secret("one"), AAD: []byte("aad")}, Plain{Plaintext: Secret("two"), AAD: []byte("aad")})).Outputs
	for at := range sealed {
		sealed[at].AAD = []byte("aad")
	}
	sealed[1].Tag[0] ^= 1
	opened := must[Batch[Decryption]](t)(asks.Decrypt(ctx, "Seal", "seal", sealed...)).Outputs
	if string(opened[0].Plaintext) != "one" || opened[1].Refusal == nil || opened[1].Refusal.Code != codes.InvalidArgument {
		t.Error("one of a batch is refused and the other is opened")
	}
	must[Key](t)(asks.RotateKey(ctx, "seal", nil))
	renewed := must[Batch[RewrapResult]](t)(asks.Rewrap(ctx, "Seal", "seal", sealed...)).Outputs
	if renewed[0].Cipher.KeyVersion != 2 || renewed[1].Refusal == nil {
		t.Errorf("%+v", renewed)
	}
}

func signatures(t *testing.T, asks *Client) {
	ctx := context.Background()
	must[Key](t)(asks.GenerateKey(ctx, "sign", "ecdsa-p256"))
	signed := must[Batch[[]byte]](t)(asks.Sign(ctx, "P256", "sign", []byte("text")))
	der, version, err := asks.PublicKey(ctx, "sign", 0)
	if err != nil || version != 1 || signed.Descriptor.KeyVersion != 1 {
		t.Fatal(version, err)
	}
	public := must[any](t)(x509.ParsePKIXPublicKey(der)).(*ecdsa.PublicKey)
	digest := sha256.Sum256([]byte("text"))
	if !ecdsa.VerifyASN1(public, digest[:], signed.Outputs[0]) {
		t.Error("the signature is none")
	}
	valid := must[Batch[bool]](t)(asks.Verify(ctx, "P256", "sign",
		SignedMessage{Input: []byte("text"), Signature: signed.Outputs[0]}, SignedMessage{Input: []byte("other"), Signature: signed.Outputs[0]}))
	if !slices.Equal(valid.Outputs, []bool{true, false}) {
		t.Error(valid.Outputs)
	}
	authority, private := certificateOf(t)
	material := must[[]byte](t)(x509.MarshalPKCS8PrivateKey(private))
	must[Key](t)(asks.ImportKey(ctx, "ca", "ecdsa-p256", material))
	request := must[[]byte](t)(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "service"}}, private))
	made, by, err := asks.SignCertificate(ctx, &CertificateRequest{
		Profile: "P256", CSR: request, CAKey: "ca", CACertificate: authority.Raw, Subject: "CN=other,O=Example",
		NotAfter: time.Now().Add(time.Hour), CRLPoints: []string{"http://example.com/list.crl"},
	})
	if err != nil {
		t.Fatal(err)
	}
	leaf := must[*x509.Certificate](t)(x509.ParseCertificate(made))
	if leaf.CheckSignatureFrom(authority) != nil || leaf.Subject.CommonName != "other" || by.KeyID != "ca" || len(leaf.CRLDistributionPoints) != 1 {
		t.Errorf("%v by %+v", leaf.Subject, by)
	}
}

func certificateOf(t *testing.T) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	private := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-2 * time.Hour),
		NotAfter: time.Now().Add(48 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		SubjectKeyId: []byte{1, 2, 3},
	}
	der := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))
	return must[*x509.Certificate](t)(x509.ParseCertificate(der)), private
}

func agreements(t *testing.T, asks *Client) {
	ctx := context.Background()
	for key, algorithm := range map[string]string{"kem": "ml-kem-768", "mac": "hmac-sha-256", "derive": "hkdf-sha-256"} {
		must[Key](t)(asks.GenerateKey(ctx, key, algorithm))
	}
	public, _, err := asks.PublicKey(ctx, "kem", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, sent := range []Batch[Encapsulation]{
		must[Batch[Encapsulation]](t)(asks.EncapsulateTo(ctx, "Kem", "kem", 2)),
		must[Batch[Encapsulation]](t)(asks.EncapsulateToPublic(ctx, "Kem", public, 2)),
	} {
		told := must[Batch[Secret]](t)(asks.Decapsulate(ctx, "Kem", "kem", 0, sent.Outputs[0].Ciphertext, sent.Outputs[1].Ciphertext))
		if !bytes.Equal(told.Outputs[0], sent.Outputs[0].SharedSecret) || bytes.Equal(told.Outputs[0], told.Outputs[1]) {
			t.Error("the two sides do not agree")
		}
	}
	unwrapping(t, asks)
	tags := must[Batch[[]byte]](t)(asks.Mac(ctx, "Mac", "mac", []byte("one"), []byte("two"))).Outputs
	valid := must[Batch[bool]](t)(asks.VerifyMac(ctx, "Mac", "mac",
		SignedMessage{Input: []byte("one"), Signature: tags[0], KeyVersion: 1}, SignedMessage{Input: []byte("one"), Signature: tags[1], KeyVersion: 1}))
	if !slices.Equal(valid.Outputs, []bool{true, false}) {
		t.Error(valid.Outputs)
	}
	derived := must[Batch[Secret]](t)(asks.Derive(ctx, "Derive", "derive", 0,
		Derivation{Info: []byte("a"), Length: 48}, Derivation{Info: []byte("a"), Length: 48}, Derivation{Info: []byte("b"), Length: 48})).Outputs
	if !bytes.Equal(derived[0], derived[1]) || bytes.Equal(derived[0], derived[2]) || len(derived[0]) != 48 {
		t.Error("derived keys that are not")
	}
}

func unwrapping(t *testing.T, asks *Client) {
	ctx := context.Background()
	must[Key](t)(asks.GenerateKey(ctx, "unwrap", "rsa-unwrap-2048"))
	der, _, err := asks.PublicKey(ctx, "unwrap", 0)
	if err != nil {
		t.Fatal(err)
	}
	public := must[any](t)(x509.ParsePKIXPublicKey(der)).(*rsa.PublicKey)
	var wrapped []WrappedKey
	var keys [][]byte
	for _, length := range []uint32{16, 64} {
		key := bytes.Repeat([]byte{7}, int(length))
		encrypted := must[[]byte](t)(rsa.EncryptOAEP(sha256.New(), rand.Reader, public, key, nil))
		wrapped, keys = append(wrapped, WrappedKey{EncryptedKey: encrypted, Length: length}), append(keys, key)
	}
	wrong := WrappedKey{EncryptedKey: make([]byte, 256), Length: 32}
	told := must[Batch[Secret]](t)(asks.Unwrap(ctx, "Unwrap", "unwrap", 1, append(wrapped, wrong)...))
	if !bytes.Equal(told.Outputs[0], keys[0]) || !bytes.Equal(told.Outputs[1], keys[1]) || told.Descriptor.KeyVersion != 1 {
		t.Error("these are not the keys that were wrapped")
	}
	if len(told.Outputs[2]) != 32 {
		t.Error("an encrypted key that does not decrypt has another length")
	}
	if second(asks.Unwrap(ctx, "Unwrap", "unwrap", 0, WrappedKey{EncryptedKey: []byte("x"), Length: 33})) == nil {
		t.Error("no content key has 33 bytes")
	}
}

func keysOf(t *testing.T, asks *Client) {
	ctx := context.Background()
	page, more, err := asks.ListKeys(ctx, "", 2)
	if err != nil || len(page) != 2 || !more || !slices.ContainsFunc(page, func(key Key) bool { return key.ID == "ca" && key.IsImported }) {
		t.Errorf("%+v %v: %v", page, more, err)
	}
	key := must[Key](t)(asks.DisableKey(ctx, "sign", 0))
	if key.Versions[0].IsEnabled || time.Since(key.Versions[0].Created) > time.Hour {
		t.Errorf("%+v", key)
	}
	if told := codeOf(t, second(asks.Sign(ctx, "P256", "sign", []byte("x")))); told.Code != codes.FailedPrecondition {
		t.Error(told)
	}
	if key = must[Key](t)(asks.EnableKey(ctx, "sign", 1)); !key.Versions[0].IsEnabled {
		t.Errorf("%+v", key)
	}
	if told := codeOf(t, second(asks.GenerateKey(ctx, "sign", "ecdsa-p256"))); told.Code != codes.AlreadyExists {
		t.Error(told)
	}
}

func TestAClientWorksAgainAfterItsBrokerRestarts(t *testing.T) {
	socket, kill := serve(t)
	asks := client(t, Options{Socket: socket, Deadline: 20 * time.Second, Retry: RetryOptions{Attempts: 200, Longest: 50 * time.Millisecond}})
	ctx := context.Background()
	must[Batch[[]byte]](t)(asks.Hash(ctx, "Sha256", nil))
	kill()
	quick, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	if _, err := asks.Hash(quick, "Sha256", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	serveIn(t, filepath.Dir(socket))
	_, err := asks.Hash(ctx, "Sha256", nil)
	for begun := time.Now(); err != nil && codeOf(t, err).IsPassing() && time.Since(begun) < 5*time.Second; {
		// The breaker that opened meanwhile lets a probe through after a while.
		time.Sleep(20 * time.Millisecond)
		_, err = asks.Hash(ctx, "Sha256", nil)
	}
	if err != nil {
		t.Error(err)
	}
	if shown := fmt.Sprint(asks); shown != "Client("+socket+")" {
		t.Error(shown)
	}
}
