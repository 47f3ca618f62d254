package crypto

import (
	"crypto/mlkem"
	"crypto/sha3"
	"encoding/binary"
	"fmt"
	"io"

	"sealway.dev/go/wire"
)

// KEM is a key encapsulation mechanism of HPKE (RFC 9180), by its id.
type KEM uint16

// The KEMs of wire 4. spec/one-shot.md#keys
const (
	KEMXWing        KEM = 0x647a // draft-connolly-cfrg-xwing-kem
	KEMMLKEM768P256 KEM = 0x0050 // draft-ietf-hpke-pq
	KEMX25519       KEM = 0x0020
	KEMP256         KEM = 0x0010
)

const (
	kdfHKDFSHA256 = 1
	aeadAES256GCM = 2
	pskLenMin     = 32
)

// KEMs returns all KEMs, the default first.
func KEMs() []KEM { return []KEM{KEMXWing, KEMMLKEM768P256, KEMX25519, KEMP256} }

// shape returns name, parts, and the label of a hybrid's combiner; no parts for an unknown KEM.
func (k KEM) shape() (name string, of parts, combiner string) {
	switch k {
	case KEMXWing:
		return "X-Wing", parts{partKEM, partX25519}, `\.//^\`
	case KEMMLKEM768P256:
		return "MLKEM768-P256", parts{partKEM, partP256}, "MLKEM768-P256"
	case KEMX25519:
		return "X25519", parts{partX25519}, ""
	case KEMP256:
		return "P-256", parts{partP256}, ""
	}
	return fmt.Sprintf("KEM %#04x", uint16(k)), nil, ""
}

// String returns the name in spec/one-shot.md.
func (k KEM) String() string {
	name, _, _ := k.shape()
	return name
}

// PublicLen is the length of a public key in bytes; 0 for an unknown KEM.
func (k KEM) PublicLen() int {
	_, of, _ := k.shape()
	return of.length(part.clientLen)
}

// EncLen is the length of an encapsulation in bytes; 0 for an unknown KEM.
func (k KEM) EncLen() int {
	_, of, _ := k.shape()
	return of.length(part.serverLen)
}

// Ephemeral are the random inputs of one encapsulation. They must not be used twice.
type Ephemeral struct {
	// Keys has the key of the KEM's group.
	Keys Keys
	// Encapsulate draws the secret of the KEM's ML-KEM part; [EncapsulationKey.Encapsulate] outside of tests.
	Encapsulate Encapsulate
}

// DrawEphemeral draws the group's key of one encapsulation.
func DrawEphemeral(kem KEM, random io.Reader, encapsulate Encapsulate) (Ephemeral, error) {
	_, of, _ := kem.shape()
	keys, err := of.draw(false, random)
	return Ephemeral{keys, encapsulate}, err
}

// encapsulate returns an encapsulation to a public key and its secret of 32 bytes; public_key_invalid for an invalid key.
func (k KEM) encapsulate(public []byte, ephemeral Ephemeral) (enc, shared []byte, err error) {
	_, of, combiner := k.shape()
	if of == nil {
		return nil, nil, wire.Refuse(wire.CodeProvider)
	}
	enc, secret, err := of.answer(public, ephemeral.Keys, ephemeral.Encapsulate)
	if err != nil {
		return nil, nil, err
	}
	defer clear(secret)
	if combiner == "" {
		// DHKEM, RFC 9180 section 4.1.
		labels := labeled(binary.BigEndian.AppendUint16([]byte("KEM"), uint16(k)))
		prk := labels.extract(nil, "eae_prk", secret)
		defer clear(prk)
		return enc, labels.expand(prk, "shared_secret", 32, enc, public), nil
	}
	// ML-KEM binds its own ciphertext and key.
	hash := sha3.New256()
	hash.Write(secret)
	hash.Write(enc[mlkem.CiphertextSize768:])
	hash.Write(public[mlkem.EncapsulationKeySize768:])
	hash.Write([]byte(combiner))
	return enc, hash.Sum(nil), nil
}

// labeled is the suite id of LabeledExtract and LabeledExpand, RFC 9180 section 4.
type labeled []byte

func (l labeled) extract(salt []byte, label string, input []byte) []byte {
	return Extract(salt, []byte("HPKE-v1"), l, []byte(label), input)
}

func (l labeled) expand(prk []byte, label string, length int, info ...[]byte) []byte {
	head := [][]byte{binary.BigEndian.AppendUint16(nil, uint16(length)), []byte("HPKE-v1"), l, []byte(label)}
	return Expand(prk, length, append(head, info...)...)
}

// Exporter is the sender's context of HPKE with HKDF-SHA256 and AES-256-GCM. It only exports secrets.
type Exporter struct {
	labels labeled
	secret []byte
}

// SetupSender encapsulates to a public key and returns the encapsulation and the context: of mode psk (1) with a psk of at least 32
// bytes and its id, of mode base (0) without both. An invalid public key is public_key_invalid. RFC 9180 section 5.1
func SetupSender(kem KEM, public, info, psk, pskID []byte, ephemeral Ephemeral) (enc []byte, exporter *Exporter, err error) {
	return setupSender(kem, aeadAES256GCM, public, info, psk, pskID, ephemeral)
}

func setupSender(kem KEM, aead uint16, public, info, psk, pskID []byte, ephemeral Ephemeral) (enc []byte, exporter *Exporter, err error) {
	mode := byte(0)
	if len(psk) > 0 || len(pskID) > 0 {
		if mode = 1; len(psk) < pskLenMin || len(pskID) == 0 {
			return nil, nil, wire.Refuse(wire.CodeProvider)
		}
	}
	enc, shared, err := kem.encapsulate(public, ephemeral)
	if err != nil {
		return nil, nil, err
	}
	defer clear(shared)
	labels := labeled("HPKE")
	for _, id := range []uint16{uint16(kem), kdfHKDFSHA256, aead} {
		labels = binary.BigEndian.AppendUint16(labels, id)
	}
	secret := labels.extract(shared, "secret", psk)
	defer clear(secret)
	context := [][]byte{{mode}, labels.extract(nil, "psk_id_hash", pskID), labels.extract(nil, "info_hash", info)}
	return enc, &Exporter{labels, labels.expand(secret, "exp", 32, context...)}, nil
}

// Export returns a secret of at most 255 * 32 bytes. RFC 9180 section 5.3
func (e *Exporter) Export(context string, length int) []byte {
	return e.labels.expand(e.secret, "sec", length, []byte(context))
}

// Wipe overwrites its secret.
func (e *Exporter) Wipe() { clear(e.secret) }

// String shows nothing.
func (Exporter) String() string { return "Exporter(redacted)" }

// Format is String, whatever the verb: no verb shows a key.
func (e Exporter) Format(state fmt.State, _ rune) { io.WriteString(state, e.String()) }
