package crypto

import (
	stdcrypto "crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"

	"sealway.dev/go/wire"
)

// SignatureLen is the length of r ‖ s of ES256 (RFC 7518 section 3.4).
const SignatureLen = 64

// Signer is an identity key: it signs with ES256. One that is kept elsewhere implements it too.
type Signer interface {
	// PublicKey gives the 65 bytes of the uncompressed point.
	PublicKey() []byte
	// Sign gives r ‖ s over SHA-256 of the message.
	Sign(message []byte) ([]byte, error)
}

// KeyID names an identity key: the first 16 bytes of SHA-256 of its 65 bytes, in hexadecimal.
func KeyID(public []byte) string {
	hash := sha256.Sum256(public)
	return hex.EncodeToString(hash[:16])
}

// ParseIdentity makes an identity key of its private scalar of 32 bytes. Its signatures are those of RFC 6979.
func ParseIdentity(scalar []byte) (Signer, error) {
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar)
	if err != nil {
		return nil, wire.Refuse(wire.CodePublicKeyInvalid)
	}
	public, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, wire.Refuse(wire.CodePublicKeyInvalid)
	}
	return &identity{key: key, public: public}, nil
}

type identity struct {
	key    *ecdsa.PrivateKey
	public []byte
}

func (i *identity) PublicKey() []byte { return i.public }

// String hides the scalar from every format.
func (i *identity) String() string { return "Identity(" + KeyID(i.public) + ")" }

// Format is String, whatever the verb: no verb shows a key.
func (i *identity) Format(state fmt.State, _ rune) { io.WriteString(state, i.String()) }

func (i *identity) Sign(message []byte) ([]byte, error) {
	hash := sha256.Sum256(message)
	der, err := i.key.Sign(nil, hash[:], stdcrypto.SHA256)
	if err != nil {
		return nil, wire.Refuse(wire.CodeProvider)
	}
	var parts struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &parts); err != nil {
		return nil, wire.Refuse(wire.CodeProvider)
	}
	signature := make([]byte, SignatureLen)
	parts.R.FillBytes(signature[:32])
	parts.S.FillBytes(signature[32:])
	return signature, nil
}

// ValidPoint says whether these are the 65 bytes of a point of P-256.
func ValidPoint(public []byte) bool {
	if len(public) != wire.PointLen || public[0] != 4 {
		return false
	}
	_, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), public)
	return err == nil
}

// Verify says whether r ‖ s is the signature of a public key of 65 bytes over SHA-256 of the message.
func Verify(public, message, signature []byte) bool {
	if len(signature) != SignatureLen || len(public) != wire.PointLen || public[0] != 4 {
		return false
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), public)
	if err != nil {
		return false
	}
	hash := sha256.Sum256(message)
	r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
	return ecdsa.Verify(key, hash[:], r, s)
}
