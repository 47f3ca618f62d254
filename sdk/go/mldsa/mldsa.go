// Package mldsa gives identity keys and roots of ML-DSA (FIPS 204) to a program that uses sealway.dev/go. Importing it is enough:
//
//	import _ "sealway.dev/go/mldsa"
//
// Without it the algorithms ML-DSA-65, ML-DSA-87 and those composed with them are unavailable, and the program does not contain the
// library. The arithmetic is that of github.com/cloudflare/circl. Signatures are deterministic, and their context is empty.
package mldsa

import (
	"fmt"
	"io"

	"github.com/cloudflare/circl/sign/mldsa/mldsa65"
	"github.com/cloudflare/circl/sign/mldsa/mldsa87"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

func init() { crypto.RegisterMLDSA(implementation{}) }

type implementation struct{}

// NewKey returns the key of a seed.
func (implementation) NewKey(set int, seed *[32]byte) crypto.Signer {
	if set == 87 {
		public, private := mldsa87.NewKeyFromSeed(seed)
		return &key{public.Bytes(), mldsa87.SignatureSize, func(message, signature []byte) error {
			return mldsa87.SignTo(private, message, nil, false, signature)
		}}
	}
	public, private := mldsa65.NewKeyFromSeed(seed)
	return &key{public.Bytes(), mldsa65.SignatureSize, func(message, signature []byte) error {
		return mldsa65.SignTo(private, message, nil, false, signature)
	}}
}

// Verify says whether a signature is that of a public key.
func (implementation) Verify(set int, public, message, signature []byte) bool {
	if set == 87 {
		var key mldsa87.PublicKey
		return key.UnmarshalBinary(public) == nil && mldsa87.Verify(&key, message, nil, signature)
	}
	var key mldsa65.PublicKey
	return key.UnmarshalBinary(public) == nil && mldsa65.Verify(&key, message, nil, signature)
}

type key struct {
	public       []byte
	signatureLen int
	sign         func(message, signature []byte) error
}

// PublicKey returns the public key.
func (k *key) PublicKey() []byte { return k.public }

// Sign returns the signature of a message.
func (k *key) Sign(message []byte) ([]byte, error) {
	signature := make([]byte, k.signatureLen)
	if err := k.sign(message, signature); err != nil {
		return nil, wire.Refuse(wire.CodeProvider)
	}
	return signature, nil
}

// String hides the seed from every format.
func (k *key) String() string { return "Identity(" + crypto.KeyID(k.public) + ")" }

// Format is String, whatever the verb: no verb shows a key.
func (k *key) Format(state fmt.State, _ rune) { io.WriteString(state, k.String()) }
