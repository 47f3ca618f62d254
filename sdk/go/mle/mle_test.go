package mle

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

var randomReader = rand.Reader

// counting counts what is drawn.
type counting struct{ count int }

func (c *counting) Read(p []byte) (int, error) {
	c.count += len(p)
	return rand.Read(p)
}

func profiles() []Profile {
	generic := must(GenericJWE(Generic{Algs: []Alg{RSAOAEP256, RSAOAEP}, Encs: []Enc{A128GCM, A192GCM, A256GCM, A128CBCHS256, A192CBCHS384, A256CBCHS512}, CTY: "JWT"}))
	return []Profile{MastercardJWE(), Visa(), VisaAcceptance(), generic}
}

func sealingKey(t testing.TB, of *pair, options KeyOptions) *SealingKey {
	t.Helper()
	key, err := NewSealingKey(of.certificate, options)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestEveryPairOfAlgorithmsOfEveryProfileOpensWhatItSealed(t *testing.T) {
	count := 0
	for _, profile := range profiles() {
		for _, message := range []Message{Request, Answer} {
			for _, alg := range []Alg{RSAOAEP256, RSAOAEP} {
				for enc := range encs {
					key := sealingKey(t, drawnPair(), KeyOptions{Alg: alg, Enc: enc, Kid: "own"})
					body, err := Seal([]byte(testText), profile, message, key, testNowMs, rand.Reader)
					if !profile.Allows(message, alg, enc) {
						var wrong *KeyError
						if !errors.As(err, &wrong) {
							t.Fatalf("%s %s %s: %v", profile.Name(), alg, enc, err)
						}
						continue
					}
					for _, text := range []string{testText, "", "a", strings.Repeat("é\U0001f600", 10_000)} {
						body = must(Seal([]byte(text), profile, message, key, testNowMs, rand.Reader))
						got, err := opened(string(body), profile, message, ownKeys(t, alg), testNowMs)
						if err != nil || got != text {
							t.Fatalf("%s %s %s: %v", profile.Name(), alg, enc, err)
						}
					}
					count++
				}
			}
		}
	}
	if count < 30 {
		t.Fatal(count)
	}
}

func TestAHeaderHasItsMembersInTheOrderOfTheSpecification(t *testing.T) {
	key := sealingKey(t, drawnPair(), KeyOptions{Kid: `o"wn`})
	for profile, want := range map[string]string{"mastercard-jwe": `{"alg":"RSA-OAEP-256","enc":"A256GCM","kid":"o\"wn","cty":"application/json"}`,
		"visa":            `{"alg":"RSA-OAEP-256","enc":"A256GCM","kid":"o\"wn","iat":1790000000000}`,
		"visa-acceptance": `{"alg":"RSA-OAEP-256","enc":"A256GCM","kid":"o\"wn","iat":1790000000}`,
		"generic-jwe":     `{"alg":"RSA-OAEP-256","enc":"A256GCM","kid":"o\"wn","cty":"JWT"}`} {
		for _, p := range profiles() {
			if p.Name() == profile {
				body := must(Seal(nil, bare(p), Request, key, testNowMs, rand.Reader))
				if got := must(strict.DecodeString(strings.Split(string(body), ".")[0])); string(got) != want {
					t.Errorf("%s", got)
				}
			}
		}
	}
}

func TestAnIVOf16BytesAndTheLettersOfStandardBase64AreReadInMastercardsProfile(t *testing.T) {
	keys := ownKeys(t, RSAOAEP256)
	for range 20 {
		b := newBuilder(RSAOAEP256, A256GCM, "")
		b.iv = make([]byte, 16)
		rand.Read(b.iv)
		token := b.token()
		for part := 1; part < 5; part++ {
			mixed := token.text(part, func(text string) string { return strings.NewReplacer("-", "+", "_", "/").Replace(text) })
			first, err := Open([]byte(token.String()), wire.HeaderList{}, bare(MastercardJWE()), Request, keys, testNowMs, rand.Reader)
			second, mixedErr := Open([]byte(mixed), wire.HeaderList{}, bare(MastercardJWE()), Request, keys, testNowMs, rand.Reader)
			if err != nil || mixedErr != nil || first.Claim() != second.Claim() {
				t.Fatal("another spelling of a token is the same token", err, mixedErr)
			}
		}
	}
}

func TestAClaimIsThatOfTheSpecification(t *testing.T) {
	profile := bare(Visa()).WithReplay(session.ReplayPolicy{WindowMs: 120_000})
	token := newBuilder(RSAOAEP256, A128GCM, iatOf(profile)).token()
	input := []byte{5}
	for _, part := range token {
		input = append(append(input, 0, 0, 0, 0, 0, 0, byte(len(part)>>8), byte(len(part))), part...)
	}
	hash := sha256.Sum256(input)
	keys := ownKeys(t, RSAOAEP256)
	guard := must(Open([]byte(token.String()), wire.HeaderList{}, profile, Request, keys, testNowMs+5, rand.Reader))
	if claim := guard.Claim(); claim.Key != [16]byte(hash[:16]) || claim.Sealed || claim.StampMs != testNowMs || claim.ExpiresMs != testNowMs+5+240_001 {
		t.Fatal(claim)
	}
	if _, err := guard.Release(session.Reserved(session.Claim{})); err == nil {
		t.Fatal("another claim releases it")
	}
	// Without a time the claim is ahead of the clock by half of the window.
	untimed := newBuilder(RSAOAEP256, A128GCM, "").token()
	guard = must(Open([]byte(untimed.String()), wire.HeaderList{}, profile, Answer, keys, testNowMs, rand.Reader))
	if claim := guard.Claim(); claim.StampMs != testNowMs+60_000 {
		t.Fatal(claim)
	}
	// The window holds to the millisecond, both ways.
	for offset, isGood := range map[int64]bool{-120_001: false, -120_000: true, 120_000: true, 120_001: false} {
		if _, err := opened(token.String(), profile, Request, keys, uint64(testNowMs+offset)); (err == nil) != isGood || !isGood && classOf(err) != ClassIat {
			t.Errorf("%d: %v", offset, err)
		}
	}
}

func TestKeysAreChosenByNameAndNeverTried(t *testing.T) {
	own := ownKeys(t, RSAOAEP256).byKid["own"]
	next := must(NewOpeningKey(otherPair().pkcs8, KeyOptions{Kid: "next"}))
	keys := must(NewOpeningKeys(own, next))
	profile := bare(MastercardJWE())
	for _, of := range []struct {
		pair *pair
		kid  string
		want Class
	}{{drawnPair(), "own", ""}, {otherPair(), "next", ""}, {otherPair(), "own", ClassUnwrap}, {drawnPair(), "next", ClassUnwrap}, {drawnPair(), "gone", ClassKid}} {
		body := must(Seal([]byte("{}"), profile, Request, sealingKey(t, of.pair, KeyOptions{Kid: of.kid}), testNowMs, rand.Reader))
		if _, err := opened(string(body), profile, Request, keys, testNowMs); of.want == "" && err != nil || of.want != "" && classOf(err) != of.want {
			t.Errorf("%s: %v", of.kid, err)
		}
		told := wire.HeaderList{{Name: "keyId", Value: of.kid}}
		_, err := Open(body, told, profile, Request, keys, testNowMs, rand.Reader)
		told[0].Value += "x"
		if _, other := Open(body, told, profile, Request, keys, testNowMs, rand.Reader); of.want == "" && (err != nil || classOf(other) != ClassKid) {
			t.Errorf("keyId: %v %v", err, other)
		}
	}
	nameless := newBuilder(RSAOAEP256, A256GCM, "").replacing(`,"kid":"own"`, "")
	generic := must(GenericJWE(Generic{AllowsNoKid: true}))
	if _, err := opened(nameless, generic, Request, must(NewOpeningKeys(own)), testNowMs); err != nil {
		t.Error(err)
	}
	if _, err := opened(nameless, generic, Request, keys, testNowMs); classOf(err) != ClassKid {
		t.Error(err)
	}
	// x5t#S256 of the key's certificate, and of a key without one.
	der := must(x509.ParseCertificate(decoded(drawnPair().certificate)))
	hash := sha256.Sum256(der.Raw)
	told := newBuilder(RSAOAEP256, A256GCM, "").adding(`"x5t#S256":"` + strict.EncodeToString(hash[:]) + `"`)
	if _, err := opened(told, profile, Request, keys, testNowMs); err != nil {
		t.Error(err)
	}
	uncertified := must(NewOpeningKey(drawnPair().pkcs8, KeyOptions{Kid: "own"}))
	if _, err := opened(told, profile, Request, must(NewOpeningKeys(uncertified)), testNowMs); classOf(err) != ClassParam {
		t.Error(err)
	}
}

func decoded(text []byte) []byte {
	return must(readBlocks(text))[0].der
}

func TestTheNewestValidKeyOfARecipientSeals(t *testing.T) {
	now := int64(testNowMs / 1000)
	key := func(begins int64) *SealingKey {
		return sealingKey(t, newPair(pkix.Name{CommonName: "r"}, begins), KeyOptions{Kid: fmt.Sprint(begins - now)})
	}
	public := must(NewSealingKey(drawnPair().public, KeyOptions{Kid: "public"}))
	old, present, next := key(now-3601), key(now-60), key(now+1)
	for want, keys := range map[string][]*SealingKey{"-60": {old, present, public, next, nil}, "public": {next, public, old}} {
		if got := Newest(keys, testNowMs); got == nil || got.Kid() != want {
			t.Errorf("%s: %v", want, got)
		}
	}
	if got := Newest([]*SealingKey{old, next}, testNowMs); got != nil {
		t.Error(got.Kid())
	}
	if _, err := Seal(nil, MastercardJWE(), Request, nil, testNowMs, rand.Reader); err == nil {
		t.Error("sealed without a key")
	}
}

func TestTheNameOfAKeyIsDerivedAsItsSchemeDoes(t *testing.T) {
	certificate := must(x509.ParseCertificate(decoded(drawnPair().certificate)))
	spki, whole := sha256.Sum256(certificate.RawSubjectPublicKeyInfo), sha256.Sum256(certificate.Raw)
	for from, want := range map[KidFrom]string{SPKISHA256Hex: hex.EncodeToString(spki[:]), CertificateSHA256Hex: hex.EncodeToString(whole[:]),
		CertificateSHA256Base64: base64.StdEncoding.EncodeToString(whole[:]), X5TS256: strict.EncodeToString(whole[:]), SubjectSerialNumber: "4711"} {
		opening := must(NewOpeningKey(drawnPair().pkcs8, KeyOptions{KidFrom: from, Certificate: drawnPair().certificate}))
		if sealing := sealingKey(t, drawnPair(), KeyOptions{KidFrom: from}); sealing.Kid() != want || opening.Kid() != want {
			t.Errorf("%s: %s", from, sealing.Kid())
		}
		_, err := NewSealingKey(drawnPair().public, KeyOptions{KidFrom: from})
		if (err == nil) != (from == SPKISHA256Hex) {
			t.Errorf("%s of a public key: %v", from, err)
		}
	}
	// The example of RFC 7638 section 3.1.
	n := must(strict.DecodeString("0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"))
	public := textOfPEM("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: new(big.Int).SetBytes(n), E: 65537})))
	if key := must(NewSealingKey(public, KeyOptions{KidFrom: JWKThumbprint})); key.Kid() != "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs" {
		t.Error(key.Kid())
	}
}

func TestAKeyThatIsNotFitForUseIsNamed(t *testing.T) {
	own, kid := drawnPair(), KeyOptions{Kid: "k"}
	pkcs1 := textOfPEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(own.private))
	curve := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	curvePublic := textOfPEM("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(&curve.PublicKey)))
	short := must(rsa.GenerateKey(rand.Reader, 1024))
	// A power of 65537 modulo each prime, as the flawed library made them.
	product := big.NewInt(2)
	for prime := int64(3); prime < 168; prime += 2 {
		if big.NewInt(prime).ProbablyPrime(0) {
			product.Mul(product, big.NewInt(prime))
		}
	}
	roca := new(big.Int).Exp(big.NewInt(65537), big.NewInt(12345), product)
	for roca.BitLen() < 2048 {
		roca.Add(roca, new(big.Int).Lsh(product, uint(2047-product.BitLen())))
	}
	public := func(n *big.Int, e int) []byte {
		return textOfPEM("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: n, E: e})))
	}
	for _, good := range [][]byte{own.pkcs8, pkcs1, decoded(own.pkcs8), decoded(pkcs1), append(bytes.Clone(own.certificate), own.pkcs8...)} {
		if _, err := NewOpeningKey(good, kid); err != nil {
			t.Error(err)
		}
	}
	for _, good := range [][]byte{own.certificate, own.public, decoded(own.certificate), decoded(own.public)} {
		if _, err := NewSealingKey(good, kid); err != nil {
			t.Error(err)
		}
	}
	opening := func(data []byte, options KeyOptions) error {
		_, err := NewOpeningKey(data, options)
		return err
	}
	sealing := func(data []byte, options KeyOptions) error {
		_, err := NewSealingKey(data, options)
		return err
	}
	key := must(NewOpeningKey(own.pkcs8, kid))
	_, twice := NewOpeningKeys(key, key)
	_, none := NewOpeningKeys()
	_, alg := GenericJWE(Generic{Algs: []Alg{"RSA1_5"}})
	_, enc := GenericJWE(Generic{Encs: []Enc{"A256CBC"}})
	_, unit := GenericJWE(Generic{Iat: "minutes"})
	for want, err := range map[string]error{
		"has 0 bytes":                   opening(nil, kid),
		"1 to 65536":                    opening(make([]byte, 65537), kid),
		"no end, or is not base64":      opening(own.pkcs8[:len(own.pkcs8)-40], kid),
		"more than one block":           opening(append(bytes.Clone(own.pkcs8), pkcs1...), kid),
		"is encrypted":                  opening(textOfPEM("ENCRYPTED PRIVATE KEY", []byte{1}), kid),
		"not an RSA key":                opening(textOfPEM("EC PRIVATE KEY", []byte{1}), kid),
		"the text holds none":           opening(own.certificate, kid),
		"this is a certificate":         opening(decoded(own.certificate), kid),
		"neither PKCS#8 nor PKCS#1":     opening([]byte("secret"), kid),
		"is not an RSA key":             opening(textOfPEM("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(curve))), kid),
		"1024 bits":                     opening(textOfPEM("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(short))), kid),
		"not that of the private key":   opening(own.pkcs8, KeyOptions{Kid: "k", Certificate: otherPair().certificate}),
		"KeyOptions.Enc is of keys":     opening(own.pkcs8, KeyOptions{Kid: "k", Enc: A256GCM}),
		"one of KeyOptions.Kid":         opening(own.pkcs8, KeyOptions{}),
		"one of KeyOptions.Kid and":     opening(own.pkcs8, KeyOptions{Kid: "k", KidFrom: SPKISHA256Hex}),
		"KeyOptions.KidFrom is unknown": opening(own.pkcs8, KeyOptions{KidFrom: "guess"}),
		"derived from a certificate":    opening(own.pkcs8, KeyOptions{KidFrom: X5TS256}),
		"1 to 256 bytes of UTF-8":       opening(own.pkcs8, KeyOptions{Kid: strings.Repeat("k", 257)}),
		"KeyOptions.Alg is":             opening(own.pkcs8, KeyOptions{Kid: "k", Alg: "RSA1_5"}),
		"holds a private key":           sealing(own.pkcs8, kid),
		"no certificate and no public":  sealing(textOfPEM("X509 CRL", []byte{1}), kid),
		"neither a certificate nor":     sealing([]byte("secret"), kid),
		"not an RSA key for encryption": sealing(curvePublic, kid),
		"even, or below 3":              sealing(public(own.private.N, 4), kid),
		"ROCA":                          sealing(public(roca, 65537), kid),
		"no attribute serialNumber":     sealing(otherPair().certificate, KeyOptions{KidFrom: SubjectSerialNumber}),
		"KeyOptions.Enc is \"A256CBC\"": sealing(own.public, KeyOptions{Kid: "k", Enc: "A256CBC"}),
		"KeyOptions.Certificate is of":  sealing(own.public, KeyOptions{Kid: "k", Certificate: own.certificate}),
		"two keys that open have":       twice,
		"there is no key that opens":    none,
		"Generic.Algs has \"RSA1_5\"":   alg,
		"Generic.Encs has \"A256CBC\"":  enc,
		"Generic.Iat is \"minutes\"":    unit,
	} {
		var wrong *KeyError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		body := must(Seal([]byte(testText), MastercardJWE(), Request, sealingKey(t, own, KeyOptions{Kid: "own"}), testNowMs, rand.Reader))
		guard := must(Open(body, wire.HeaderList{}, MastercardJWE(), Request, ownKeys(t, RSAOAEP256), testNowMs, rand.Reader))
		plaintext := must(guard.Release(session.Reserved(guard.Claim())))
		if text := fmt.Sprintf(verb+verb, key, plaintext); !strings.Contains(text, "OpeningKey(k RSA-OAEP-256)") || !strings.Contains(text, "Plaintext(41 bytes, own A256GCM)") {
			t.Errorf("%s: %s", verb, text)
		}
	}
}

// sealway runs a command of the gateway's program, which another library's cryptography serves.
func sealway(t *testing.T, input []byte, args ...string) []byte {
	t.Helper()
	binary := os.Getenv("SEALWAY_BIN")
	if binary == "" {
		binary = "../../../target/debug/sealway"
	}
	command := exec.Command(binary, append([]string{"mle"}, args...)...)
	command.Stdin = bytes.NewReader(input)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		t.Fatalf("sealway mle %s: %v %s; set SEALWAY_BIN to the binary sealway, or build it (cargo build --package sealway-cli)", strings.Join(args, " "), err, said.Bytes())
	}
	return out
}

func TestTheGatewaysProgramOpensWhatThisPackageSealsAndTheReverse(t *testing.T) {
	folder := t.TempDir()
	private, certificate := filepath.Join(folder, "key.pem"), filepath.Join(folder, "certificate.pem")
	own := drawnPair()
	for path, data := range map[string][]byte{private: own.pkcs8, certificate: own.certificate} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keys := must(NewOpeningKeys(must(NewOpeningKey(own.pkcs8, KeyOptions{KidFrom: SPKISHA256Hex}))))
	for _, profile := range []Profile{MastercardJWE(), Visa(), VisaAcceptance()} {
		for _, enc := range profile.request.encs {
			body := sealway(t, []byte(testText), "encrypt", "--profile", profile.Name(), "--enc", string(enc), "--key", certificate, "--kid-from", "spki_sha256_hex")
			guard, err := Open(body, wire.HeaderList{}, profile.WithReplay(session.ReplayPolicy{WindowMs: wire.WindowMsMax}), Request, keys, nowMs(t, body, profile), rand.Reader)
			if err != nil {
				t.Fatalf("%s %s: %v", profile.Name(), enc, err)
			}
			if got := must(guard.Release(session.Reserved(guard.Claim()))).Bytes(); string(got) != testText {
				t.Fatalf("%s %s: %s", profile.Name(), enc, got)
			}
		}
		for _, enc := range profile.answer.encs {
			key := sealingKey(t, own, KeyOptions{Enc: enc, KidFrom: SPKISHA256Hex})
			// Without a time in the header the program's clock does not matter.
			profileOf := profile
			profileOf.iat = NoIat
			body := must(Seal([]byte(testText), profileOf, Answer, key, testNowMs, rand.Reader))
			if got := sealway(t, body, "decrypt", "--profile", profile.Name(), "--message", "answer", "--key", private, "--kid-from", "spki_sha256_hex"); string(got) != testText {
				t.Fatalf("%s %s: %s", profile.Name(), enc, got)
			}
		}
	}
}

// nowMs is the time that a token was made at, or the time of the tests.
func nowMs(t *testing.T, body []byte, profile Profile) uint64 {
	t.Helper()
	token := must(profile.unwrapBody(Request, body))
	var header struct{ Iat uint64 }
	if err := json.Unmarshal(must(strict.DecodeString(strings.Split(string(token), ".")[0])), &header); err != nil {
		t.Fatal(err)
	}
	switch {
	case header.Iat == 0:
		return testNowMs
	case profile.iat == Seconds:
		return header.Iat * 1000
	}
	return header.Iat
}
