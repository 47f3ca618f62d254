package mle

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

const (
	testNowMs = 1_790_000_000_000
	testText  = `{"pan":"4111111111111111","amount":12.50}`
)

// pair is a key pair with a certificate, in PEM.
type pair struct {
	private                    *rsa.PrivateKey
	pkcs8, certificate, public []byte
}

var drawnPair = sync.OnceValue(func() *pair { return newPair(pkix.Name{CommonName: "own", SerialNumber: "4711"}, testNowMs/1000) })
var otherPair = sync.OnceValue(func() *pair { return newPair(pkix.Name{CommonName: "other"}, testNowMs/1000) })

// newPair draws a pair whose certificate is valid for an hour from begins on, in seconds.
func newPair(subject pkix.Name, begins int64) *pair {
	private := must(rsa.GenerateKey(rand.Reader, 2048))
	template := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: subject, NotBefore: time.Unix(begins, 0), NotAfter: time.Unix(begins+3600, 0)}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))
	return &pair{private, textOfPEM("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(private))), textOfPEM("CERTIFICATE", der),
		textOfPEM("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(&private.PublicKey)))}
}

func textOfPEM(label string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: label, Bytes: der})
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// builder makes tokens, wrong ones too. A field is what goes into the token, true or not.
type builder struct {
	header    string // members, without the braces
	alg       Alg    // by which the content key is encrypted
	enc       Enc
	cek, iv   []byte
	recipient *rsa.PublicKey
	plaintext string
	pkcs1     bool
}

func newBuilder(alg Alg, enc Enc, iat string) *builder {
	shape := encs[enc]
	b := &builder{alg: alg, enc: enc, cek: make([]byte, shape.cek), iv: make([]byte, shape.iv), recipient: &drawnPair().private.PublicKey, plaintext: testText}
	rand.Read(b.cek)
	rand.Read(b.iv)
	b.header = fmt.Sprintf(`"alg":"%s","enc":"%s","kid":"own"`, alg, enc)
	if iat != "" {
		b.header += `,"iat":` + iat
	}
	return b
}

// raw are the decoded parts of a token.
type raw [5][]byte

func (b *builder) encrypted() []byte {
	if b.pkcs1 {
		return must(rsa.EncryptPKCS1v15(rand.Reader, b.recipient, b.cek))
	}
	return must(rsa.EncryptOAEP(b.alg.hash(), rand.Reader, b.recipient, b.cek, nil))
}

// over makes a token of a header whose additional data is aad.
func (b *builder) over(header, aad string) raw {
	cek := make([]byte, encs[b.enc].cek)
	copy(cek, b.cek)
	ciphertext, tag, err := sealContent(b.enc, cek, b.iv, []byte(aad), []byte(b.plaintext))
	return raw{[]byte(header), b.encrypted(), b.iv, must(ciphertext, err), tag}
}

func (b *builder) of(header string) raw { return b.over(header, strict.EncodeToString([]byte(header))) }

func (b *builder) token() raw { return b.of("{" + b.header + "}") }

// adding puts another member into the header, replacing a text in the place of another.
func (b *builder) adding(member string) string {
	return b.of("{" + b.header + "," + member + "}").String()
}

func (b *builder) replacing(old, text string) string {
	if !strings.Contains(b.header, old) {
		panic(old)
	}
	return b.of("{" + strings.Replace(b.header, old, text, 1) + "}").String()
}

func (b *builder) with(change func(*builder)) string {
	other := *b
	change(&other)
	return other.token().String()
}

func (r raw) String() string {
	var parts []string
	for _, part := range r {
		parts = append(parts, strict.EncodeToString(part))
	}
	return strings.Join(parts, ".")
}

// with changes one part before it is encoded, text after that.
func (r raw) with(part int, change func([]byte) []byte) string {
	r[part] = change(append([]byte(nil), r[part]...))
	return r.String()
}

func (r raw) text(part int, change func(string) string) string {
	parts := strings.Split(r.String(), ".")
	parts[part] = change(parts[part])
	return strings.Join(parts, ".")
}

func ownKeys(t testing.TB, alg Alg) *OpeningKeys {
	t.Helper()
	key, err := NewOpeningKey(drawnPair().pkcs8, KeyOptions{Alg: alg, Kid: "own", Certificate: drawnPair().certificate})
	if err != nil {
		t.Fatal(err)
	}
	return must(NewOpeningKeys(key))
}

// opened opens a body and releases it.
func opened(body string, profile Profile, message Message, keys *OpeningKeys, nowMs uint64) (string, error) {
	guard, err := Open([]byte(body), wire.HeaderList{}, profile, message, keys, nowMs, rand.Reader)
	if err != nil {
		return "", err
	}
	plaintext, err := guard.Release(session.Reserved(guard.Claim()))
	if err != nil {
		return "", err
	}
	return string(plaintext.Bytes()), nil
}

// classOf is the class of a refusal, or the text of another error.
func classOf(err error) Class {
	var refused *Refusal
	if errors.As(err, &refused) {
		return refused.Class
	}
	return Class(fmt.Sprint(err))
}

// bare is a profile whose bodies are tokens.
func bare(profile Profile) Profile { return profile.WithMembers("", "") }

func iatOf(profile Profile) string {
	switch profile.iat {
	case Seconds:
		return fmt.Sprint(testNowMs / 1000)
	case Milliseconds:
		return fmt.Sprint(testNowMs)
	}
	return ""
}
