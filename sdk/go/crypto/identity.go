package crypto

import (
	"bytes"
	stdcrypto "crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	_ "crypto/sha512" // of ES384
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"

	"sealway.dev/go/wire"
)

// SignatureAlgorithm is an algorithm of identity keys and roots. The length of a public key names its algorithm.
// spec/session-3.md#algorithms
type SignatureAlgorithm string

// The algorithms. Of a composite one, whose name has a +, both parts sign and both must verify. Those with ML-DSA need the module
// sealway.dev/go/mldsa.
const (
	ES256        SignatureAlgorithm = "ES256"
	ES384        SignatureAlgorithm = "ES384"
	MLDSA65      SignatureAlgorithm = "ML-DSA-65"
	MLDSA87      SignatureAlgorithm = "ML-DSA-87"
	ES256MLDSA65 SignatureAlgorithm = "ES256+ML-DSA-65"
	ES384MLDSA87 SignatureAlgorithm = "ES384+ML-DSA-87"
)

// SignatureAlgorithms returns all algorithms, the default first.
func SignatureAlgorithms() []SignatureAlgorithm {
	return []SignatureAlgorithm{ES256, ES384, MLDSA65, MLDSA87, ES256MLDSA65, ES384MLDSA87}
}

// curve is the classical part of an algorithm: ECDSA with r ‖ s of RFC 7518 section 3.4.
type curve struct {
	elliptic.Curve
	hash      stdcrypto.Hash
	scalarLen int
}

func (c *curve) publicLen() int { return 1 + 2*c.scalarLen }

var (
	p256 = &curve{elliptic.P256(), stdcrypto.SHA256, 32}
	p384 = &curve{elliptic.P384(), stdcrypto.SHA384, 48}
)

// lattice is the ML-DSA part of an algorithm, FIPS 204 table 2.
type lattice struct {
	set                     int
	publicLen, signatureLen int
}

var (
	mldsa65 = &lattice{65, 1952, 3309}
	mldsa87 = &lattice{87, 2592, 4627}
)

// parts returns the parts of an algorithm, of which a part that it lacks is nil; both are nil for an unknown one.
func (a SignatureAlgorithm) parts() (*curve, *lattice) {
	switch a {
	case ES256:
		return p256, nil
	case ES384:
		return p384, nil
	case MLDSA65:
		return nil, mldsa65
	case MLDSA87:
		return nil, mldsa87
	case ES256MLDSA65:
		return p256, mldsa65
	case ES384MLDSA87:
		return p384, mldsa87
	}
	return nil, nil
}

// PublicLen is the length of a public key in bytes; 0 for an unknown algorithm.
func (a SignatureAlgorithm) PublicLen() (sum int) {
	classical, quantum := a.parts()
	if classical != nil {
		sum += classical.publicLen()
	}
	if quantum != nil {
		sum += quantum.publicLen
	}
	return sum
}

// SignatureLen is the length of a signature in bytes; 0 for an unknown algorithm.
func (a SignatureAlgorithm) SignatureLen() (sum int) {
	classical, quantum := a.parts()
	if classical != nil {
		sum += 2 * classical.scalarLen
	}
	if quantum != nil {
		sum += quantum.signatureLen
	}
	return sum
}

// Available says whether this program can verify signatures of the algorithm: whether it is known and, of one with ML-DSA, the module
// sealway.dev/go/mldsa is imported.
func (a SignatureAlgorithm) Available() bool {
	_, quantum := a.parts()
	return a.PublicLen() > 0 && (quantum == nil || registered != nil)
}

// HasPublic says whether a public key has the form of the algorithm: its length and, with a curve, the first byte of a point.
func (a SignatureAlgorithm) HasPublic(public []byte) bool {
	classical, _ := a.parts()
	return len(public) > 0 && len(public) == a.PublicLen() && (classical == nil || public[0] == 4)
}

// AlgorithmOf returns the algorithm of a public key by its length; false if no algorithm has the length.
func AlgorithmOf(public []byte) (SignatureAlgorithm, bool) {
	for _, algorithm := range SignatureAlgorithms() {
		if algorithm.PublicLen() == len(public) {
			return algorithm, true
		}
	}
	return "", false
}

// MLDSA is an implementation of ML-DSA (FIPS 204) with an empty context. set is 65 or 87.
type MLDSA interface {
	// NewKey returns the key of a seed of 32 bytes.
	NewKey(set int, seed *[32]byte) Signer
	// Verify says whether a signature of the set's length is that of a public key of the set's length.
	Verify(set int, public, message, signature []byte) bool
}

var registered MLDSA

// RegisterMLDSA makes ML-DSA available to the whole program. The module sealway.dev/go/mldsa calls it when it is imported; it is not to
// be called after the start of the program.
func RegisterMLDSA(implementation MLDSA) { registered = implementation }

// Signer is an identity key or a root. A key that is kept elsewhere implements it too.
type Signer interface {
	// PublicKey gives the public key, whose length names the algorithm.
	PublicKey() []byte
	// Sign gives the signature of a message, which the algorithm hashes itself: r ‖ s over SHA-256 for ES256.
	Sign(message []byte) ([]byte, error)
}

// KeyID names an identity key: the first 16 bytes of SHA-256 of its public key, in hexadecimal.
func KeyID(public []byte) string {
	hash := sha256.Sum256(public)
	return hex.EncodeToString(hash[:16])
}

// ParseIdentity makes an identity key of ES256 of its private scalar of 32 bytes. Its signatures are those of RFC 6979.
func ParseIdentity(scalar []byte) (Signer, error) { return ES256.ParseKey(scalar) }

// ParseKey makes a key of its private bytes: the scalar of a curve (32 or 48 bytes), the seed of ML-DSA (32 bytes), of a composite
// algorithm both in this order. Signatures are deterministic. public_key_invalid for other bytes, provider if the algorithm is not
// [SignatureAlgorithm.Available].
func (a SignatureAlgorithm) ParseKey(private []byte) (Signer, error) {
	if !a.Available() {
		return nil, wire.Refuse(wire.CodeProvider)
	}
	classical, quantum := a.parts()
	var parts []Signer
	if classical != nil {
		scalar := private[:min(len(private), classical.scalarLen)]
		private = private[len(scalar):]
		key, err := ecdsa.ParseRawPrivateKey(classical.Curve, scalar)
		if err != nil {
			return nil, wire.Refuse(wire.CodePublicKeyInvalid)
		}
		public, err := key.PublicKey.Bytes()
		if err != nil {
			return nil, wire.Refuse(wire.CodePublicKeyInvalid)
		}
		parts = append(parts, &identity{classical, key, public})
	}
	if quantum != nil && len(private) == len([32]byte{}) {
		parts = append(parts, registered.NewKey(quantum.set, (*[32]byte)(private)))
		private = nil
	}
	switch {
	case len(private) > 0 || len(parts) == 0 || quantum != nil && classical != nil && len(parts) < 2:
		return nil, wire.Refuse(wire.CodePublicKeyInvalid)
	case len(parts) == 1:
		return parts[0], nil
	}
	return Composite(parts[0], parts[1])
}

type identity struct {
	curve  *curve
	key    *ecdsa.PrivateKey
	public []byte
}

func (i *identity) PublicKey() []byte { return i.public }

// String hides the scalar from every format.
func (i *identity) String() string { return "Identity(" + KeyID(i.public) + ")" }

// Format is String, whatever the verb: no verb shows a key.
func (i *identity) Format(state fmt.State, _ rune) { io.WriteString(state, i.String()) }

func (i *identity) Sign(message []byte) ([]byte, error) {
	der, err := i.key.Sign(nil, i.curve.digest(message), i.curve.hash)
	if err != nil {
		return nil, wire.Refuse(wire.CodeProvider)
	}
	var parts struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &parts); err != nil {
		return nil, wire.Refuse(wire.CodeProvider)
	}
	signature := make([]byte, 2*i.curve.scalarLen)
	parts.R.FillBytes(signature[:i.curve.scalarLen])
	parts.S.FillBytes(signature[i.curve.scalarLen:])
	return signature, nil
}

func (c *curve) digest(message []byte) []byte {
	hash := c.hash.New()
	hash.Write(message)
	return hash.Sum(nil)
}

func (c *curve) point(public []byte) *ecdsa.PublicKey {
	if len(public) != c.publicLen() || public[0] != 4 {
		return nil
	}
	key, err := ecdsa.ParseUncompressedPublicKey(c.Curve, public)
	if err != nil {
		return nil
	}
	return key
}

func (c *curve) verify(public, message, signature []byte) bool {
	key := c.point(public)
	if key == nil || len(signature) != 2*c.scalarLen {
		return false
	}
	r, s := new(big.Int).SetBytes(signature[:c.scalarLen]), new(big.Int).SetBytes(signature[c.scalarLen:])
	return ecdsa.Verify(key, c.digest(message), r, s)
}

// composite signs with both parts.
type composite struct {
	algorithm SignatureAlgorithm
	parts     [2]Signer
	public    []byte
}

// Composite joins a key of a curve and one of ML-DSA, such as two that are kept elsewhere; public_key_invalid if no algorithm consists of
// the two. Neither may be used as a key of its own.
func Composite(classical, quantum Signer) (Signer, error) {
	public := append(bytes.Clone(classical.PublicKey()), quantum.PublicKey()...)
	algorithm, _ := AlgorithmOf(public)
	first, second := algorithm.parts()
	if first == nil || second == nil || len(classical.PublicKey()) != first.publicLen() {
		return nil, wire.Refuse(wire.CodePublicKeyInvalid)
	}
	return &composite{algorithm, [2]Signer{classical, quantum}, public}, nil
}

func (c *composite) PublicKey() []byte { return c.public }

func (c *composite) Sign(message []byte) ([]byte, error) {
	framed := c.algorithm.framed(message)
	var signature []byte
	for _, part := range c.parts {
		made, err := part.Sign(framed)
		if err != nil {
			return nil, err
		}
		signature = append(signature, made...)
	}
	return signature, nil
}

// String hides both parts from every format.
func (c *composite) String() string { return "Identity(" + KeyID(c.public) + ")" }

// Format is String, whatever the verb: no verb shows a key.
func (c *composite) Format(state fmt.State, _ rune) { io.WriteString(state, c.String()) }

// framed is field(alg) ‖ m, which the parts of a composite key sign: so no signature of a part is one of a key of its own.
func (a SignatureAlgorithm) framed(message []byte) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(a))), a...), message...)
}

// ValidPublicKey says whether a public key is one of a known algorithm, and its point on the curve.
func ValidPublicKey(public []byte) bool {
	algorithm, _ := AlgorithmOf(public)
	classical, _ := algorithm.parts()
	return algorithm.HasPublic(public) && (classical == nil || classical.point(public[:classical.publicLen()]) != nil)
}

// Verify says whether a signature of a message is that of a public key, whose length names the algorithm: of a composite one, whether
// both parts are. False if the algorithm is not [SignatureAlgorithm.Available].
func Verify(public, message, signature []byte) bool {
	algorithm, _ := AlgorithmOf(public)
	if !algorithm.Available() || len(signature) != algorithm.SignatureLen() {
		return false
	}
	classical, quantum := algorithm.parts()
	switch {
	case quantum == nil:
		return classical.verify(public, message, signature)
	case classical == nil:
		return registered.Verify(quantum.set, public, message, signature)
	}
	framed, point, first := algorithm.framed(message), classical.publicLen(), 2*classical.scalarLen
	return classical.verify(public[:point], framed, signature[:first]) && registered.Verify(quantum.set, public[point:], framed, signature[first:])
}
