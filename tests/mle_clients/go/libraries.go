package main

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/Jeffail/gabs/v2"
	"github.com/go-jose/go-jose/v4"
	"github.com/mastercard/client-encryption-go/encryption"
	fle "github.com/mastercard/client-encryption-go/field_level_encryption"
	"github.com/mastercard/client-encryption-go/jwe"
	"github.com/mastercard/client-encryption-go/mastercard_encryption"
)

// The libraries, each behind the same few calls.
type library interface {
	contentType() string
	// Returns the plaintext of the token that seal makes of a text.
	sent(text string) string
	seal(text, message string) string
	open(body, message string) string
	isSame(one, other string) bool
}

// The member that holds the token, by profile and message. The body of generic-jwe is the token itself.
var members = map[string]map[string]string{
	"mastercard-jwe":  {"request": "encryptedData", "answer": "encryptedData"},
	"visa":            {"request": "encData", "answer": "encData"},
	"visa-acceptance": {"request": "encryptedRequest", "answer": "encryptedResponse"},
	"generic-jwe":     {},
}

func libraryOf(spec *spec) library {
	certificate := must(x509.ParseCertificate(pemOf(spec.Seal.Certificate)))
	key := must(x509.ParsePKCS8PrivateKey(pemOf(spec.Open.Key)))
	if spec.Library == "go-jose" {
		return &goJose{spec: spec, public: certificate.PublicKey, private: key}
	}
	private := key.(*rsa.PrivateKey)
	if spec.Fle != nil {
		return newFieldLevel(spec, certificate, private)
	}
	return newMastercard(spec, certificate, private)
}

func pemOf(path string) []byte {
	block, _ := pem.Decode(must(os.ReadFile(path)))
	check(block != nil, path, "is no PEM")
	return block.Bytes
}

// Returns the token of a body, which must have nothing beside it.
func tokenOf(profile, message, body string) string {
	name := members[profile][message]
	if name == "" {
		return body
	}
	var value map[string]string
	check(json.Unmarshal([]byte(body), &value) == nil && len(value) == 1 && value[name] != "", "the token is not alone:", body)
	return value[name]
}

// Checks what a library does not: the media type, the names in the header, and the time.
func checkSealed(spec *spec, library library, contentType, body, message string) {
	due := "application/json"
	if spec.Profile == "generic-jwe" {
		due = "application/jose"
	}
	check(strings.HasPrefix(contentType, due), "type:", contentType)
	parts := strings.Split(tokenOf(spec.Profile, message, body), ".")
	check(len(parts) == 5, "parts:", body)
	var header struct {
		Kid string
		Iat int64
	}
	text := must(base64.RawURLEncoding.DecodeString(parts[0]))
	check(json.Unmarshal(text, &header) == nil, "header:", string(text))
	check(spec.Open.Kid == "" || header.Kid == spec.Open.Kid, "kid:", string(text))
	unit := map[string]time.Duration{"visa": time.Millisecond, "visa-acceptance": time.Second}[spec.Profile]
	if unit != 0 && message == "request" {
		since := time.Since(time.Unix(0, header.Iat*int64(unit)))
		check(since.Abs() < 2*time.Minute, "iat:", string(text))
	}
}

// Mastercard's client-encryption: numbers are doubles, members are sorted.
type mastercard struct {
	config   *jwe.JWEConfig
	isFields bool
}

func newMastercard(spec *spec, certificate *x509.Certificate, private *rsa.PrivateKey) library {
	builder := jwe.NewJWEConfigBuilder().WithCertificate(certificate).WithDecryptionKey(private)
	if spec.Shape == "whole" {
		builder.WithEncryptionPath("$", "$").WithDecryptionPath("$.encryptedData", "$")
	} else {
		builder.WithEncryptionPath("$.card", "$.secret").WithDecryptionPath("$.secret.encryptedData", "$.card")
	}
	return &mastercard{config: builder.Build(), isFields: spec.Shape == "fields"}
}

func (*mastercard) contentType() string { return "application/json" }

func (*mastercard) sent(text string) string { return must(gabs.ParseJSON([]byte(text))).String() }

func (library *mastercard) seal(text, _ string) string {
	// It would seal null for the absent value.
	if library.isFields && !must(gabs.ParseJSON([]byte(text))).Exists("card") {
		return text
	}
	return encryption.EncryptPayload(text, *library.config)
}

func (library *mastercard) open(body, _ string) string {
	return encryption.DecryptPayload(body, *library.config)
}

func (*mastercard) isSame(one, other string) bool {
	var values [2]any
	for index, text := range []string{one, other} {
		check(json.Unmarshal([]byte(text), &values[index]) == nil, "not JSON:", text)
	}
	return reflect.DeepEqual(values[0], values[1])
}

// Mastercard's client-encryption in its field-level form, with one path.
type fieldLevel struct {
	mastercard
	config *fle.FieldLevelEncryptionConfig
}

func newFieldLevel(spec *spec, certificate *x509.Certificate, private *rsa.PrivateKey) library {
	names, fingerprint := spec.Fle.Names, sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	encoding := map[string]string{"hex": fle.HEX, "base64url": fle.BASE64}[spec.Fle.Encoding]
	builder := fle.NewFieldLevelEncryptionConfigBuilder().
		WithEncryptionCertificate(certificate).
		WithDecryptionKey(private).
		WithEncryptionPath("card", "secret").
		WithDecryptionPath("secret", "card").
		WithOaepPaddingDigestAlgorithm(strings.ReplaceAll(spec.Fle.Digest, "-", "")).
		WithFieldValueEncoding(encoding).
		WithEncryptedValueFieldName(names.Value).
		WithIvFieldName(names.Iv).
		WithEncryptedKeyFieldName(names.EncryptedKey).
		WithOaepPaddingDigestAlgorithmFieldName(names.Digest).
		WithEncryptionKeyFingerprint(hex.EncodeToString(fingerprint[:])).
		WithEncryptionKeyFingerprintFieldName(names.KeyFingerprint).
		WithEncryptionCertificateFingerprintFieldName(names.CertificateFingerprint)
	return &fieldLevel{config: must(builder.Build())}
}

func (library *fieldLevel) seal(text, _ string) string {
	// As with tokens.
	if !must(gabs.ParseJSON([]byte(text))).Exists("card") {
		return text
	}
	return mastercard_encryption.EncryptPayload(text, *library.config)
}

func (library *fieldLevel) open(body, _ string) string {
	return mastercard_encryption.DecryptPayload(body, *library.config)
}

// go-jose. Any bytes can be sealed.
type goJose struct {
	spec    *spec
	public  any
	private any
	sealed  int
}

func (library *goJose) contentType() string {
	if library.spec.Profile == "generic-jwe" {
		return "application/jose; charset=utf-8"
	}
	return "application/json"
}

func (*goJose) sent(text string) string { return text }

func (library *goJose) seal(text, message string) string {
	seal := &library.spec.Seal
	enc := jose.ContentEncryption(seal.Encs[library.sealed%len(seal.Encs)])
	library.sealed++
	recipient := jose.Recipient{Algorithm: jose.KeyAlgorithm(seal.Alg), Key: library.public, KeyID: seal.Kid}
	options := new(jose.EncrypterOptions)
	switch library.spec.Profile {
	case "visa":
		options = options.WithHeader("iat", time.Now().UnixMilli()).WithType("JOSE")
	case "visa-acceptance":
		options = options.WithHeader("iat", time.Now().Unix()).WithContentType("JWT")
	}
	encrypter := must(jose.NewEncrypter(enc, recipient, options))
	token := must(must(encrypter.Encrypt([]byte(text))).CompactSerialize())
	name := members[library.spec.Profile][message]
	if name == "" {
		return token
	}
	return string(must(json.Marshal(map[string]string{name: token})))
}

func (library *goJose) open(body, message string) string {
	encs := make([]jose.ContentEncryption, len(library.spec.Open.Encs))
	for index, enc := range library.spec.Open.Encs {
		encs[index] = jose.ContentEncryption(enc)
	}
	algs := []jose.KeyAlgorithm{jose.KeyAlgorithm(library.spec.Open.Alg)}
	token := must(jose.ParseEncryptedCompact(tokenOf(library.spec.Profile, message, body), algs, encs))
	return string(must(token.Decrypt(library.private)))
}

func (*goJose) isSame(one, other string) bool { return one == other }
