package crypto_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"sealway.dev/go/crypto"
)

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// available are the algorithms that this program has: all of them where the module mldsa runs these tests.
func available() []crypto.SignatureAlgorithm {
	return slices.DeleteFunc(crypto.SignatureAlgorithms(), func(a crypto.SignatureAlgorithm) bool { return !a.Available() })
}

// privateOf are private bytes of an algorithm.
func privateOf(algorithm crypto.SignatureAlgorithm, fill byte) []byte {
	length := map[crypto.SignatureAlgorithm]int{crypto.ES256: 32, crypto.ES384: 48, crypto.MLDSA65: 32, crypto.MLDSA87: 32, crypto.ES256MLDSA65: 64, crypto.ES384MLDSA87: 80}
	return bytes.Repeat([]byte{fill}, length[algorithm])
}

func TestEachAlgorithmHasTheSizesOfTheSpecAndVerifiesItsOwnSignaturesAlone(t *testing.T) {
	sizes := map[crypto.SignatureAlgorithm][2]int{"ES256": {65, 64}, "ES384": {97, 96}, "ML-DSA-65": {1952, 3309}, "ML-DSA-87": {2592, 4627},
		"ES256+ML-DSA-65": {2017, 3373}, "ES384+ML-DSA-87": {2689, 4723}}
	if len(sizes) != len(crypto.SignatureAlgorithms()) {
		t.Fatal(crypto.SignatureAlgorithms())
	}
	for algorithm, size := range sizes {
		if algorithm.PublicLen() != size[0] || algorithm.SignatureLen() != size[1] {
			t.Errorf("%s: %d and %d bytes", algorithm, algorithm.PublicLen(), algorithm.SignatureLen())
		}
	}
	message := []byte("sealway/3 signature and a hash")
	for _, algorithm := range available() {
		key := must(algorithm.ParseKey(privateOf(algorithm, 7)))(t)
		public, signature := key.PublicKey(), must(key.Sign(message))(t)
		if of, known := crypto.AlgorithmOf(public); !known || of != algorithm || len(signature) != algorithm.SignatureLen() || !crypto.ValidPublicKey(public) {
			t.Fatalf("%s: %s, %d bytes", algorithm, of, len(signature))
		}
		if !crypto.Verify(public, message, signature) || !bytes.Equal(signature, must(key.Sign(message))(t)) {
			t.Fatalf("%s does not verify, or is not deterministic", algorithm)
		}
		for _, at := range []int{0, 31, 32, 63, 64, 95, 96, len(signature) / 2, len(signature) - 1} {
			if at >= len(signature) {
				continue
			}
			wrong := bytes.Clone(signature)
			wrong[at] ^= 1
			if crypto.Verify(public, message, wrong) {
				t.Fatalf("%s: byte %d does not count", algorithm, at)
			}
		}
		other := must(algorithm.ParseKey(privateOf(algorithm, 9)))(t)
		if crypto.Verify(public, message[1:], signature) || crypto.Verify(other.PublicKey(), message, signature) ||
			crypto.Verify(public, message, signature[1:]) || crypto.Verify(public, message, append(signature, 0)) || crypto.Verify(public, message, nil) ||
			crypto.Verify(public[1:], message, signature) {
			t.Fatalf("%s verifies what it did not sign", algorithm)
		}
		for _, private := range [][]byte{nil, privateOf(algorithm, 7)[1:], append(privateOf(algorithm, 7), 7)} {
			if _, err := algorithm.ParseKey(private); err == nil {
				t.Fatalf("%s has a key of %d bytes", algorithm, len(private))
			}
		}
	}
}

// TestACompositeAlgorithmAcceptsNeitherPartAlone is about downgrades: an attacker that has broken one part forges signatures of it alone.
func TestACompositeAlgorithmAcceptsNeitherPartAlone(t *testing.T) {
	message := []byte("sealway/3 signature and a hash")
	for _, c := range []struct{ whole, classical, quantum crypto.SignatureAlgorithm }{
		{crypto.ES256MLDSA65, crypto.ES256, crypto.MLDSA65}, {crypto.ES384MLDSA87, crypto.ES384, crypto.MLDSA87},
	} {
		if !c.whole.Available() {
			if _, err := c.whole.ParseKey(privateOf(c.whole, 7)); err == nil || crypto.Verify(make([]byte, c.whole.PublicLen()), message, make([]byte, c.whole.SignatureLen())) {
				t.Fatalf("%s without ML-DSA", c.whole)
			}
			continue
		}
		private := privateOf(c.whole, 7)
		first, second := must(c.classical.ParseKey(private[:len(private)-32]))(t), must(c.quantum.ParseKey(private[len(private)-32:]))(t)
		key := must(crypto.Composite(first, second))(t)
		if again := must(c.whole.ParseKey(private))(t); !bytes.Equal(again.PublicKey(), key.PublicKey()) || !bytes.Equal(key.PublicKey(), append(bytes.Clone(first.PublicKey()), second.PublicKey()...)) {
			t.Fatal("another public key")
		}
		good, cut := must(key.Sign(message))(t), c.classical.SignatureLen()
		impostor := must(must(c.whole.ParseKey(privateOf(c.whole, 9)))(t).Sign(message))(t)
		join := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
		for name, wrong := range map[string][]byte{
			"the classical part alone": good[:cut], "the ML-DSA part alone": good[cut:],
			"swapped parts":                     join(good[cut:], good[:cut]),
			"a classical part of an impostor":   join(impostor[:cut], good[cut:]),
			"an ML-DSA part of an impostor":     join(good[:cut], impostor[cut:]),
			"an ML-DSA part of zeros":           join(good[:cut], make([]byte, c.quantum.SignatureLen())),
			"a classical part of zeros":         join(make([]byte, cut), good[cut:]),
			"parts that sign the message alone": join(must(first.Sign(message))(t), must(second.Sign(message))(t)),
			"a classical part of the message":   join(must(first.Sign(message))(t), good[cut:]),
			"an ML-DSA part of the message":     join(good[:cut], must(second.Sign(message))(t)),
		} {
			if crypto.Verify(key.PublicKey(), message, wrong) {
				t.Errorf("%s verifies with %s", c.whole, name)
			}
		}
		if !crypto.Verify(key.PublicKey(), message, good) || crypto.Verify(first.PublicKey(), message, good[:cut]) || crypto.Verify(second.PublicKey(), message, good[cut:]) {
			t.Errorf("a part of %s is a signature of a key of its own", c.whole)
		}
		if _, err := crypto.Composite(second, first); err == nil {
			t.Error("the parts of a composite key can be swapped")
		}
		if _, err := crypto.Composite(first, first); err == nil {
			t.Error("two classical parts are a composite key")
		}
		off := bytes.Clone(key.PublicKey())
		off[1] ^= 1
		if crypto.ValidPublicKey(off) {
			t.Error("a point off the curve is valid")
		}
	}
}

// der are PKCS #8 documents of an algorithm, as other programs write them.
func der(t *testing.T, algorithm crypto.SignatureAlgorithm, private []byte) (documents [][]byte) {
	curve := map[crypto.SignatureAlgorithm]elliptic.Curve{crypto.ES256: elliptic.P256(), crypto.ES256MLDSA65: elliptic.P256(),
		crypto.ES384: elliptic.P384(), crypto.ES384MLDSA87: elliptic.P384()}[algorithm]
	if curve != nil {
		scalar := private[:(curve.Params().BitSize+7)/8]
		private = private[len(scalar):]
		key := must(ecdsa.ParseRawPrivateKey(curve, scalar))(t)
		documents = append(documents, must(x509.MarshalPKCS8PrivateKey(key))(t))
	}
	if len(private) > 0 {
		oid := "11"
		if oid = "12"; strings.Contains(string(algorithm), "87") {
			oid = "13"
		}
		documents = append(documents, must(hex.DecodeString("3034020100300b06096086480165030403"+oid+"04228020"+hex.EncodeToString(private)))(t))
	}
	return documents
}

func TestAKeyFileOfEachAlgorithmIsReadAsPEMAndAsDER(t *testing.T) {
	for _, algorithm := range available() {
		private := privateOf(algorithm, 7)
		want := must(algorithm.ParseKey(private))(t).PublicKey()
		var text []byte
		documents := der(t, algorithm, private)
		for _, document := range documents {
			text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: document})...)
		}
		for _, file := range [][]byte{text, slices.Concat(documents...)} {
			if key := must(crypto.ParseIdentityPKCS8(file))(t); !bytes.Equal(key.PublicKey(), want) {
				t.Fatalf("%s: another key", algorithm)
			}
		}
		for cut := 1; cut < len(documents[0]); cut += 7 {
			if _, err := crypto.ParseIdentityPKCS8(documents[0][:cut]); err == nil {
				t.Fatalf("%s: a key file of %d bytes", algorithm, cut)
			}
		}
	}
}

func TestAKeyFileThatIsNoneNamesTheKeyAtFault(t *testing.T) {
	first := der(t, crypto.ES256, privateOf(crypto.ES256, 7))[0]
	block := func(kind string, data []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}) }
	quantum := func(oid, rest string) []byte {
		body := must(hex.DecodeString("020100300b06096086480165030403" + oid + rest))(t)
		return append([]byte{0x30, byte(len(body))}, body...)
	}
	rsa := must(hex.DecodeString("3012020100300d06092a864886f70d0101010500"))(t)
	for want, file := range map[string][]byte{
		"has 0 keys":             nil,
		"is neither PEM nor DER": []byte("hello"),
		`block 1 of the key file is "EC PRIVATE KEY"`: block("EC PRIVATE KEY", first),
		`block 2 of the key file is "PUBLIC KEY"`:     append(block("PRIVATE KEY", first), block("PUBLIC KEY", first)...),
		"key 1 of the key file is no PKCS#8 key":      rsa,
		"are no composite key":                        slices.Concat(first, first),
		"has 3 keys":                                  slices.Concat(first, first, first),
		"key 1 of the key file is of ML-DSA, but not": quantum("11", "04228020"+strings.Repeat("07", 32)),
		"key 2 of the key file is of ML-DSA, but not": append(bytes.Clone(first), quantum("12", "04220420"+strings.Repeat("07", 32))...),
	} {
		if _, err := crypto.ParseIdentityPKCS8(file); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0707") {
			t.Errorf("%q: %v", want, err)
		}
	}
	if _, err := crypto.ParseIdentityPKCS8(der(t, crypto.MLDSA65, privateOf(crypto.MLDSA65, 7))[0]); !crypto.MLDSA65.Available() &&
		(err == nil || !strings.Contains(err.Error(), "sealway.dev/go/mldsa")) {
		t.Error(err)
	}
}
