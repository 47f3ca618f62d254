package mle

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	keyFileMax = 64 << 10
	rsaBitsMin = 2048
	rsaBitsMax = 8192
)

// KeyError is key material or an option that cannot be used. It holds nothing of the material but lengths, labels and names of keys.
type KeyError struct{ Text string }

func (e *KeyError) Error() string { return "sealway: mle: " + e.Text }

// KidFrom is a derivation of a key's name. Each scheme has its own, so it is configured and never guessed. spec/mle.md#kid
type KidFrom string

// The derivations.
const (
	// SPKISHA256Hex is the lower-case hexadecimal SHA-256 of the SubjectPublicKeyInfo: Mastercard.
	SPKISHA256Hex KidFrom = "spki_sha256_hex"
	// CertificateSHA256Hex is the lower-case hexadecimal SHA-256 of the certificate: Mastercard's library for Node, by option.
	CertificateSHA256Hex KidFrom = "certificate_sha256_hex"
	// CertificateSHA256Base64 is the padded base64 of the SHA-256 of the certificate: Mastercard's library for Node, by option.
	CertificateSHA256Base64 KidFrom = "certificate_sha256_base64"
	// X5TS256 is the base64url of the SHA-256 of the certificate (RFC 7515 section 4.1.8).
	X5TS256 KidFrom = "x5t_s256"
	// SubjectSerialNumber is the attribute serialNumber of the certificate's subject: Visa Acceptance.
	SubjectSerialNumber KidFrom = "subject_serial_number"
	// JWKThumbprint is the thumbprint of RFC 7638 with SHA-256.
	JWKThumbprint KidFrom = "jwk_thumbprint"
)

// KeyOptions configure a key. One of Kid and KidFrom is required.
type KeyOptions struct {
	// Alg is the one algorithm of the key. The default is RSA-OAEP-256.
	Alg Alg
	// Enc is the content encryption of a key that seals. The default is A256GCM. A key that opens has none.
	Enc Enc
	// Kid is the name of the key in tokens, 1 to 256 bytes.
	Kid string
	// KidFrom derives the name.
	KidFrom KidFrom
	// Certificate is the certificate of a key that opens, in PEM or DER: for names that derive from one and for tokens with x5t#S256.
	Certificate []byte
}

// public is a public key and the certificate in which it came.
type public struct {
	key         *rsa.PublicKey
	spki        []byte
	certificate *x509.Certificate
}

// OpeningKey opens tokens. Every format verb shows its name alone.
type OpeningKey struct {
	kid         string
	alg         Alg
	private     *rsa.PrivateKey
	certificate []byte // its SHA-256, or nil
}

// NewOpeningKey loads an RSA private key of 2048 to 8192 bits: PKCS#8 or PKCS#1, in PEM or DER. Its error is a [*KeyError].
func NewOpeningKey(private []byte, options KeyOptions) (*OpeningKey, error) {
	alg, err := options.alg()
	if err != nil {
		return nil, err
	}
	if options.Enc != "" {
		return nil, &KeyError{"KeyOptions.Enc is of keys that seal: a key that opens takes what its profile allows"}
	}
	key, err := readPrivate(private)
	if err != nil {
		return nil, err
	}
	spki, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, &KeyError{"the public half of the key cannot be encoded"}
	}
	half := &public{key: &key.PublicKey, spki: spki}
	if options.Certificate != nil {
		if half, err = readPublic(options.Certificate); err != nil {
			return nil, err
		}
		if !half.key.Equal(&key.PublicKey) {
			return nil, &KeyError{"KeyOptions.Certificate is not that of the private key"}
		}
	}
	kid, err := options.kid(half)
	if err != nil {
		return nil, err
	}
	opening := &OpeningKey{kid: kid, alg: alg, private: key}
	if half.certificate != nil {
		hash := sha256.Sum256(half.certificate.Raw)
		opening.certificate = hash[:]
	}
	return opening, nil
}

// Kid returns the name of the key.
func (k *OpeningKey) Kid() string { return k.kid }

// String shows no secret.
func (k *OpeningKey) String() string { return "OpeningKey(" + k.kid + " " + string(k.alg) + ")" }

// Format shows no secret, whatever the verb.
func (k *OpeningKey) Format(state fmt.State, _ rune) { io.WriteString(state, k.String()) }

// unwrap performs the private operation; nil if the encrypted key does not decrypt.
func (k *OpeningKey) unwrap(encrypted []byte) []byte {
	cek, err := rsa.DecryptOAEP(k.alg.hash(), nil, k.private, encrypted, nil)
	if err != nil {
		return nil
	}
	return cek
}

// OpeningKeys are the live keys that open messages, by name. All of them are live, so that keys can be rotated.
type OpeningKeys struct{ byKid map[string]*OpeningKey }

// NewOpeningKeys puts keys together. Two keys of one name, and none at all, are a [*KeyError].
func NewOpeningKeys(keys ...*OpeningKey) (*OpeningKeys, error) {
	byKid := make(map[string]*OpeningKey, len(keys))
	for _, key := range keys {
		if key == nil {
			return nil, &KeyError{"a key that opens is nil"}
		}
		if byKid[key.kid] != nil {
			return nil, &KeyError{"two keys that open have the kid " + quote(key.kid)}
		}
		byKid[key.kid] = key
	}
	if len(byKid) == 0 {
		return nil, &KeyError{"there is no key that opens"}
	}
	return &OpeningKeys{byKid}, nil
}

// SealingKey seals tokens to one recipient, with one pair of algorithms.
type SealingKey struct {
	kid        string
	alg        Alg
	enc        Enc
	key        *rsa.PublicKey
	begins     int64 // of its certificate, in seconds of the epoch; the least number without one
	ends       int64
	isAnytimes bool
}

// NewSealingKey loads the recipient's certificate or SubjectPublicKeyInfo, in PEM or DER. Its error is a [*KeyError].
func NewSealingKey(recipient []byte, options KeyOptions) (*SealingKey, error) {
	alg, err := options.alg()
	if err != nil {
		return nil, err
	}
	if options.Certificate != nil {
		return nil, &KeyError{"KeyOptions.Certificate is of keys that open: a key that seals is its certificate"}
	}
	enc := options.Enc
	if enc == "" {
		enc = A256GCM
	}
	if _, known := encs[enc]; !known {
		return nil, &KeyError{fmt.Sprintf("KeyOptions.Enc is %s: it is one of %s", quote(string(enc)), encNames)}
	}
	half, err := readPublic(recipient)
	if err != nil {
		return nil, err
	}
	kid, err := options.kid(half)
	if err != nil {
		return nil, err
	}
	sealing := &SealingKey{kid: kid, alg: alg, enc: enc, key: half.key, isAnytimes: half.certificate == nil}
	if !sealing.isAnytimes {
		sealing.begins, sealing.ends = half.certificate.NotBefore.Unix(), half.certificate.NotAfter.Unix()
	}
	return sealing, nil
}

// Kid returns the recipient's name of the key.
func (k *SealingKey) Kid() string { return k.kid }

// Public returns the recipient's key.
func (k *SealingKey) Public() *rsa.PublicKey { return k.key }

// Algorithms returns the algorithms that it seals with.
func (k *SealingKey) Algorithms() (Alg, Enc) { return k.alg, k.enc }

// Newest returns the key whose certificate began last among those that are valid now, or nil. A public key without a certificate is
// always valid, and older than all certificates.
func Newest(keys []*SealingKey, nowMs uint64) *SealingKey {
	var newest *SealingKey
	for _, key := range keys {
		now := int64(nowMs / 1000)
		if key == nil || !key.isAnytimes && (now < key.begins || now > key.ends) {
			continue
		}
		if newest == nil || newest.isAnytimes && !key.isAnytimes || !key.isAnytimes && key.begins > newest.begins {
			newest = key
		}
	}
	return newest
}

func (o KeyOptions) alg() (Alg, error) {
	switch {
	case o.Alg == "":
		return RSAOAEP256, nil
	case o.Alg.isRSA():
		return o.Alg, nil
	}
	return "", &KeyError{fmt.Sprintf("KeyOptions.Alg is %s: it is RSA-OAEP-256 or RSA-OAEP", quote(string(o.Alg)))}
}

// kid returns the name of a key.
func (o KeyOptions) kid(of *public) (string, error) {
	if (o.Kid == "") == (o.KidFrom == "") {
		return "", &KeyError{"one of KeyOptions.Kid and KeyOptions.KidFrom is required"}
	}
	kid := o.Kid
	if o.KidFrom != "" {
		var err error
		if kid, err = o.KidFrom.derive(of); err != nil {
			return "", err
		}
	}
	if kid == "" || len(kid) > kidMax || !utf8.ValidString(kid) {
		return "", &KeyError{fmt.Sprintf("the kid is not 1 to %d bytes of UTF-8", kidMax)}
	}
	return kid, nil
}

func (from KidFrom) derive(of *public) (string, error) {
	switch from {
	case SPKISHA256Hex:
		hash := sha256.Sum256(of.spki)
		return hex.EncodeToString(hash[:]), nil
	case JWKThumbprint:
		// RFC 7638 section 3.3: the required members in lexical order, without white space.
		e, n := strict.EncodeToString(big.NewInt(int64(of.key.E)).Bytes()), strict.EncodeToString(of.key.N.Bytes())
		hash := sha256.Sum256([]byte(`{"e":"` + e + `","kty":"RSA","n":"` + n + `"}`))
		return strict.EncodeToString(hash[:]), nil
	case CertificateSHA256Hex, CertificateSHA256Base64, X5TS256, SubjectSerialNumber:
	default:
		return "", &KeyError{fmt.Sprintf("KeyOptions.KidFrom is unknown: %s", quote(string(from)))}
	}
	if of.certificate == nil {
		return "", &KeyError{fmt.Sprintf("%s is derived from a certificate, and there is none", from)}
	}
	hash := sha256.Sum256(of.certificate.Raw)
	switch from {
	case CertificateSHA256Hex:
		return hex.EncodeToString(hash[:]), nil
	case CertificateSHA256Base64:
		return base64.StdEncoding.EncodeToString(hash[:]), nil
	case X5TS256:
		return strict.EncodeToString(hash[:]), nil
	}
	var numbers []string
	for _, attribute := range of.certificate.Subject.Names {
		if text, isText := attribute.Value.(string); isText && attribute.Type.Equal([]int{2, 5, 4, 5}) {
			numbers = append(numbers, text)
		}
	}
	if len(numbers) != 1 {
		return "", &KeyError{"the certificate's subject has no attribute serialNumber, or more than one"}
	}
	return numbers[0], nil
}

// block is a block of a PEM text, or the whole input, without a label, if that is DER.
type block struct {
	label string
	der   []byte
}

func readBlocks(data []byte) (blocks []block, err error) {
	if len(data) == 0 || len(data) > keyFileMax {
		return nil, &KeyError{fmt.Sprintf("the key has %d bytes: it may have 1 to %d", len(data), keyFileMax)}
	}
	begin := []byte("-----BEGIN ")
	count := bytes.Count(data, begin)
	if count == 0 {
		return []block{{"", data}}, nil
	}
	for found, rest := pem.Decode(data); found != nil; found, rest = pem.Decode(rest) {
		if found.Type == "ENCRYPTED PRIVATE KEY" || found.Headers["DEK-Info"] != "" {
			return nil, &KeyError{"the private key is encrypted: decrypt it"}
		}
		blocks = append(blocks, block{found.Type, found.Bytes})
	}
	if len(blocks) != count {
		return nil, &KeyError{"a PEM block has no end, or is not base64"}
	}
	return blocks, nil
}

// sole returns the one block with one of the labels, if there is one.
func sole(blocks []block, labels ...string) (*block, error) {
	var found *block
	for i := range blocks {
		if !slices.Contains(labels, blocks[i].label) {
			continue
		}
		if found != nil {
			return nil, &KeyError{fmt.Sprintf("the PEM text holds more than one block of the kind %q", labels[0])}
		}
		found = &blocks[i]
	}
	return found, nil
}

func readPrivate(data []byte) (*rsa.PrivateKey, error) {
	blocks, err := readBlocks(data)
	if err != nil {
		return nil, err
	}
	found, err := sole(blocks, "PRIVATE KEY", "RSA PRIVATE KEY", "")
	if err != nil {
		return nil, err
	}
	if found == nil {
		if other, _ := sole(blocks, "EC PRIVATE KEY", "DSA PRIVATE KEY", "OPENSSH PRIVATE KEY"); other != nil {
			return nil, &KeyError{"the key is not an RSA key"}
		}
		return nil, &KeyError{"a private key is due, and the text holds none"}
	}
	var key any
	if key, err = x509.ParsePKCS8PrivateKey(found.der); err != nil {
		key, err = x509.ParsePKCS1PrivateKey(found.der)
	}
	if err != nil {
		if _, err := readPublic(data); err == nil {
			return nil, &KeyError{"a private key is due, and this is a certificate or a public key"}
		}
		return nil, &KeyError{"the private key is neither PKCS#8 nor PKCS#1"}
	}
	private, isRSA := key.(*rsa.PrivateKey)
	if !isRSA {
		return nil, &KeyError{"the key is not an RSA key"}
	}
	return private, checkRSA(&private.PublicKey)
}

func readPublic(data []byte) (*public, error) {
	blocks, err := readBlocks(data)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(blocks, func(b block) bool { return strings.HasSuffix(b.label, "PRIVATE KEY") }) {
		return nil, &KeyError{"a certificate or a public key is due, and the text holds a private key"}
	}
	found, err := sole(blocks, "CERTIFICATE", "")
	if err == nil && found == nil {
		found, err = sole(blocks, "PUBLIC KEY")
	}
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, &KeyError{"the PEM text holds no certificate and no public key"}
	}
	half := &public{spki: found.der}
	var key any
	if half.certificate, err = x509.ParseCertificate(found.der); err == nil {
		half.spki, key = half.certificate.RawSubjectPublicKeyInfo, half.certificate.PublicKey
	} else if key, err = x509.ParsePKIXPublicKey(found.der); err != nil {
		return nil, &KeyError{"it is neither a certificate nor a SubjectPublicKeyInfo"}
	}
	var isRSA bool
	if half.key, isRSA = key.(*rsa.PublicKey); !isRSA {
		return nil, &KeyError{"the key is not an RSA key for encryption (rsaEncryption)"}
	}
	return half, checkRSA(half.key)
}

func checkRSA(key *rsa.PublicKey) error {
	if bits := key.N.BitLen(); bits < rsaBitsMin || bits > rsaBitsMax {
		return &KeyError{fmt.Sprintf("the RSA key has %d bits: it may have %d to %d", bits, rsaBitsMin, rsaBitsMax)}
	}
	if key.E < 3 || key.E%2 == 0 {
		return &KeyError{"the public exponent is even, or below 3"}
	}
	if isROCA(key.N) {
		return &KeyError{"the RSA key has the structure of CVE-2017-15361 (ROCA)"}
	}
	return nil
}

// isROCA says whether a modulus is a power of 65537 modulo every odd prime below 168 (Nemec et al., "The Return of Coppersmith's
// Attack", section 2.2). An honest modulus is so with a probability below 2⁻²⁷.
func isROCA(modulus *big.Int) bool {
	for prime := int64(3); prime < 168; prime += 2 {
		if !big.NewInt(prime).ProbablyPrime(0) {
			continue
		}
		rest := new(big.Int).Mod(modulus, big.NewInt(prime)).Int64()
		power, steps := int64(1), int64(0)
		for ; power != rest && steps < prime; steps++ {
			power = power * 65537 % prime
		}
		if power != rest {
			return false
		}
	}
	return true
}
