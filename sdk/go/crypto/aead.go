package crypto

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"

	"sealway.dev/go/wire"
)

// NewAEAD gives AES-256-GCM under a key of 32 bytes. The library keeps an expanded copy of the key that nothing can wipe.
func NewAEAD(key []byte) (cipher.AEAD, error) {
	if len(key) != wire.KeyLen {
		return nil, wire.Refuse(wire.CodeProvider)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, wire.Refuse(wire.CodeProvider)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, wire.Refuse(wire.CodeProvider)
	}
	return aead, nil
}

// HMAC gives HMAC-SHA256 of the parts, one after the other.
func HMAC(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// Extract is HKDF-Extract of RFC 5869 with SHA-256; the input key is the parts, one after the other.
func Extract(salt []byte, input ...[]byte) []byte { return HMAC(salt, input...) }

// Expand is HKDF-Expand of RFC 5869 with SHA-256, of at most 255 * 32 bytes; the info is the parts, one after the other.
func Expand(key []byte, length int, info ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	out := make([]byte, 0, (length+sha256.Size-1)/sha256.Size*sha256.Size)
	for counter := byte(1); len(out) < length; counter++ {
		mac.Reset()
		if counter > 1 {
			mac.Write(out[len(out)-sha256.Size:])
		}
		for _, part := range info {
			mac.Write(part)
		}
		mac.Write([]byte{counter})
		out = mac.Sum(out)
	}
	clear(out[length:])
	return out[:length]
}

// Equal compares in constant time.
func Equal(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }
