package mle

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"hash"
	"slices"
)

// Alg is a key management algorithm, by its registered name. spec/mle.md#algorithms
type Alg string

// The algorithms of RSA keys (RFC 7518 section 4.3). RSA1_5, PBES2 and "none" do not exist here.
const (
	// RSAOAEP256 is RSAES-OAEP with SHA-256 and MGF1 with SHA-256.
	RSAOAEP256 Alg = "RSA-OAEP-256"
	// RSAOAEP is RSAES-OAEP with SHA-1 and MGF1 with SHA-1.
	RSAOAEP Alg = "RSA-OAEP"
	// ecdhES is read, and no key for it can be loaded.
	ecdhES Alg = "ECDH-ES"
)

// knownAlgs are the names that a header may have. For those beside RSA's no key can be loaded.
var knownAlgs = []Alg{RSAOAEP256, RSAOAEP, ecdhES, "dir", "A128KW", "A256KW"}

func (a Alg) isRSA() bool { return a == RSAOAEP256 || a == RSAOAEP }

func (a Alg) hash() hash.Hash {
	if a == RSAOAEP {
		return sha1.New()
	}
	return sha256.New()
}

// Enc is a content encryption algorithm, by its registered name. spec/mle.md#algorithms
type Enc string

// The algorithms of contents (RFC 7518 section 5).
const (
	A128GCM      Enc = "A128GCM"
	A192GCM      Enc = "A192GCM"
	A256GCM      Enc = "A256GCM"
	A128CBCHS256 Enc = "A128CBC-HS256"
	A192CBCHS384 Enc = "A192CBC-HS384"
	A256CBCHS512 Enc = "A256CBC-HS512"
)

// encShape has the lengths of an algorithm in bytes, and the hash of its MAC; nil for GCM.
type encShape struct {
	cek, iv, tag int
	mac          func() hash.Hash
}

var encs = map[Enc]encShape{
	A128GCM:      {16, 12, 16, nil},
	A192GCM:      {24, 12, 16, nil},
	A256GCM:      {32, 12, 16, nil},
	A128CBCHS256: {32, 16, 16, sha256.New},
	A192CBCHS384: {48, 16, 24, sha512.New384},
	A256CBCHS512: {64, 16, 32, sha512.New},
}

// longIV is the length of the IV that Mastercard's libraries send with AES-GCM, in bytes, against RFC 7518 section 5.3.
const longIV = 16

var errContent = errors.New("the content does not open")

// openContent verifies the tag over the additional data and the ciphertext, and decrypts it in place. All lengths were checked but
// that of the ciphertext.
func openContent(enc Enc, cek, iv, aad, ciphertext, tag []byte) ([]byte, error) {
	shape := encs[enc]
	if shape.mac == nil {
		gcm, err := newGCM(cek, len(iv))
		if err != nil {
			return nil, err
		}
		return gcm.Open(ciphertext[:0], iv, append(ciphertext, tag...), aad)
	}
	mac, key := cek[:shape.cek/2], cek[shape.cek/2:]
	// The MAC decides before any byte is decrypted, so that the padding is never an oracle (RFC 7518 section 5.2.2.2).
	if !hmac.Equal(macOf(shape, mac, aad, iv, ciphertext), tag) || len(ciphertext) == 0 || len(ciphertext)%aes.BlockSize != 0 {
		return nil, errContent
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(ciphertext, ciphertext)
	padding := int(ciphertext[len(ciphertext)-1])
	if padding == 0 || padding > aes.BlockSize {
		return nil, errContent
	}
	plaintext, tail := ciphertext[:len(ciphertext)-padding], ciphertext[len(ciphertext)-padding:]
	if slices.ContainsFunc(tail, func(b byte) bool { return int(b) != padding }) {
		return nil, errContent
	}
	return plaintext, nil
}

// sealContent encrypts a copy of the plaintext.
func sealContent(enc Enc, cek, iv, aad, plaintext []byte) (ciphertext, tag []byte, err error) {
	shape := encs[enc]
	if shape.mac == nil {
		gcm, err := newGCM(cek, len(iv))
		if err != nil {
			return nil, nil, err
		}
		sealed := gcm.Seal(make([]byte, 0, len(plaintext)+shape.tag), iv, plaintext, aad)
		return sealed[:len(plaintext)], sealed[len(plaintext):], nil
	}
	mac, key := cek[:shape.cek/2], cek[shape.cek/2:]
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, err
	}
	padding := aes.BlockSize - len(plaintext)%aes.BlockSize
	ciphertext = append(make([]byte, 0, len(plaintext)+padding), plaintext...)
	for range padding {
		ciphertext = append(ciphertext, byte(padding))
	}
	cipher.NewCBCEncrypter(block, iv).CryptBlocks(ciphertext, ciphertext)
	return ciphertext, macOf(shape, mac, aad, iv, ciphertext), nil
}

func newGCM(key []byte, ivLen int) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	if ivLen == longIV {
		return cipher.NewGCMWithNonceSize(block, longIV)
	}
	return cipher.NewGCM(block)
}

// macOf returns the tag of RFC 7518 section 5.2.2.1: the first half of the MAC, whose last input is the length of the additional
// data in bits.
func macOf(shape encShape, key, aad, iv, ciphertext []byte) []byte {
	mac := hmac.New(shape.mac, key)
	for _, part := range [][]byte{aad, iv, ciphertext, binary.BigEndian.AppendUint64(nil, uint64(len(aad))*8)} {
		mac.Write(part)
	}
	return mac.Sum(nil)[:shape.tag]
}
