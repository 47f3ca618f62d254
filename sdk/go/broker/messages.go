package broker

import (
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"

	"sealway.dev/go/broker/internal/wire"
)

// Descriptor says what an artefact was made by, so that a rotation can find it.
type Descriptor struct {
	Profile, Operation, Algorithm string
	// KeyID is empty where no key of the store took part.
	KeyID      string
	KeyVersion uint32
	// Deprecation is set when the profile is to go away.
	Deprecation *Deprecation
}

// Deprecation is a profile's.
type Deprecation struct{ ReplacedBy, DeprecatedSince, RemoveAfter, Reason string }

func descriptor(of *wire.Descriptor) Descriptor {
	made := Descriptor{
		Profile: of.GetProfile(), Operation: of.GetOperation(), Algorithm: of.GetAlgorithm(), KeyID: of.GetKeyId(),
		KeyVersion: of.GetKeyVersion(),
	}
	if going := of.GetDeprecation(); going != nil {
		made.Deprecation = &Deprecation{going.GetReplacedBy(), going.GetDeprecatedSince(), going.GetRemoveAfter(), going.GetReason()}
	}
	return made
}

// Batch is the result of a batch: one output for each input, in the order of the inputs.
type Batch[T any] struct {
	Outputs    []T
	Descriptor Descriptor
}

// batch holds an answer to the number of its inputs: an output that stands for another input would be worse than none.
func batch[T any](operation string, of *wire.Descriptor, outputs []T, inputs int) (Batch[T], error) {
	if len(outputs) != inputs {
		return Batch[T]{}, odd(operation, fmt.Sprintf("%d answers to %d inputs", len(outputs), inputs))
	}
	return Batch[T]{outputs, descriptor(of)}, nil
}

func odd(operation, text string) error {
	return &Error{Operation: operation, Code: codes.Internal, Text: text, Delivery: Answered, Attempts: 1}
}

// CertificateRequest is a certificate to be signed by a key that the broker keeps. What is not said is the profile's to say.
type CertificateRequest struct {
	Profile string
	// CSR is PKCS#10, PEM or DER, at most 64 KiB.
	CSR []byte
	// CAKey is the authority's key, by its id in the store.
	CAKey string
	// CACertificate is X.509, PEM or DER, at most 64 KiB.
	CACertificate []byte
	// NotBefore and NotAfter are its validity; the profile's where zero.
	NotBefore, NotAfter time.Time
	// Subject is another than the request's, such as CN=service,O=Example; the request's where empty.
	Subject string
	// CRLPoints are at most 16 http(s) URLs.
	CRLPoints []string
}

// Plain is what is to be encrypted. Printed, it shows nothing of it.
type Plain struct {
	Plaintext Secret
	// AAD is authenticated with it, and not stored.
	AAD []byte
	// Nonce is given only where the profile leaves it to the caller.
	Nonce []byte
}

// Cipher is what was encrypted. The broker stores none of it.
type Cipher struct {
	KeyVersion uint32
	Nonce      []byte
	Ciphertext []byte
	Tag        []byte
	// AAD is given again to open it; what comes from the broker has none.
	AAD []byte
}

func (c Cipher) message() *wire.Cipher {
	return &wire.Cipher{KeyVersion: c.KeyVersion, Nonce: c.Nonce, Ciphertext: c.Ciphertext, Tag: c.Tag, Aad: c.AAD}
}

func cipherOf(said *wire.Cipher) Cipher {
	return Cipher{KeyVersion: said.GetKeyVersion(), Nonce: said.GetNonce(), Ciphertext: said.GetCiphertext(), Tag: said.GetTag()}
}

func messages(ciphers []Cipher) []*wire.Cipher {
	made := make([]*wire.Cipher, len(ciphers))
	for at, cipher := range ciphers {
		made[at] = cipher.message()
	}
	return made
}

// Decryption is the plaintext of one ciphertext, or the reason for its refusal.
type Decryption struct {
	Plaintext Secret
	Refusal   *Refusal
}

// RewrapResult is a ciphertext under the current version of the key, or the reason for its refusal.
type RewrapResult struct {
	Cipher  Cipher
	Refusal *Refusal
}

func refusalOf(said *wire.Refusal) *Refusal {
	return &Refusal{Code: codes.Code(said.GetCode()), Message: oneLine(said.GetMessage())}
}

// SignedMessage is an input with the signature or tag to verify.
type SignedMessage struct {
	Input, Signature []byte
	// KeyVersion 0 tries the current one.
	KeyVersion uint32
}

func signedMessages(signed []SignedMessage) []*wire.Signed {
	made := make([]*wire.Signed, len(signed))
	for at, one := range signed {
		made[at] = &wire.Signed{Input: one.Input, Signature: one.Signature, KeyVersion: one.KeyVersion}
	}
	return made
}

// Derivation is a key to be derived.
type Derivation struct {
	Salt, Info []byte
	// Length in bytes.
	Length uint32
}

// WrappedKey is a content key of JWE in its encrypted form.
type WrappedKey struct {
	// EncryptedKey is as long as the modulus.
	EncryptedKey []byte
	// Length is that of the content key, in bytes: 16, 24, 32, 48 or 64.
	Length uint32
}

// Encapsulation is a shared secret and the ciphertext that conveys the secret to the holder of the private key.
type Encapsulation struct {
	Ciphertext   []byte
	SharedSecret Secret
}

// Information is what a broker says of itself.
type Information struct {
	Version, Module, ModuleVersion string
	// Certificate is of the module's validation, or none.
	Certificate string
	IsFIPS      bool
	// Profiles are those that the caller may use.
	Profiles []string
}

// KeyVersion is one of a key's.
type KeyVersion struct {
	Version   uint32
	IsEnabled bool
	Created   time.Time
}

// Key is a key of the store, without what is secret of it.
type Key struct {
	ID, Algorithm string
	// Versions: the last enabled one seals and signs.
	Versions   []KeyVersion
	IsImported bool
}

func keyOf(said *wire.Key) Key {
	made := Key{ID: said.GetKeyId(), Algorithm: said.GetAlgorithm(), IsImported: said.GetIsImported()}
	for _, version := range said.GetVersions() {
		made.Versions = append(made.Versions, KeyVersion{
			version.GetVersion(), version.GetState() == wire.KeyState_KEY_STATE_ENABLED,
			time.UnixMilli(int64(version.GetCreatedMs())),
		})
	}
	return made
}

// Format prints what is no secret.
func (p Plain) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, "Plain(redacted)") }
