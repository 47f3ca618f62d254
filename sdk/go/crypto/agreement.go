package crypto

import (
	"crypto/ecdh"
	"crypto/mlkem"
	"fmt"
	"io"

	"sealway.dev/go/wire"
)

// Suite is a key agreement of wire 3. Each has HKDF-SHA256 and AES-256-GCM.
type Suite string

// The suites. Those with ML-KEM-1024 are offered only where they are named. spec/session-3.md#suites
const (
	X25519MLKEM768     Suite = "X25519MLKEM768"
	SecP256r1MLKEM768  Suite = "SecP256r1MLKEM768"
	P256               Suite = "P256"
	SecP384r1MLKEM1024 Suite = "SecP384r1MLKEM1024"
	MLKEM1024          Suite = "MLKEM1024"
)

// Suites returns the suites that are offered by default, the default first.
func Suites() []Suite { return AllSuites()[:3] }

// AllSuites returns all suites, those that are offered by default first.
func AllSuites() []Suite {
	return []Suite{X25519MLKEM768, SecP256r1MLKEM768, P256, SecP384r1MLKEM1024, MLKEM1024}
}

// ParseSuite finds a suite by its name.
func ParseSuite(name string) (Suite, bool) {
	for _, suite := range AllSuites() {
		if string(suite) == name {
			return suite, true
		}
	}
	return "", false
}

type part uint8

const (
	partKEM part = iota // ML-KEM-768
	partX25519
	partP256
	partKEM1024
	partP384
)

func (s Suite) parts() parts {
	switch s {
	case X25519MLKEM768:
		return parts{partKEM, partX25519}
	case SecP256r1MLKEM768:
		return parts{partP256, partKEM}
	case P256:
		return parts{partP256}
	case SecP384r1MLKEM1024:
		return parts{partP384, partKEM1024}
	case MLKEM1024:
		return parts{partKEM1024}
	}
	return nil
}

func (p part) clientLen() int {
	return [...]int{partKEM: mlkem.EncapsulationKeySize768, partX25519: 32, partP256: p256.publicLen(), partKEM1024: mlkem.EncapsulationKeySize1024, partP384: p384.publicLen()}[p]
}

func (p part) serverLen() int {
	return [...]int{partKEM: mlkem.CiphertextSize768, partX25519: 32, partP256: p256.publicLen(), partKEM1024: mlkem.CiphertextSize1024, partP384: p384.publicLen()}[p]
}

// parts are those of a share, in their order.
type parts []part

// length is the sum of the lengths.
func (p parts) length(of func(part) int) (sum int) {
	for _, kind := range p {
		sum += of(kind)
	}
	return sum
}

// split cuts a share; nil if its length is wrong.
func (p parts) split(share []byte, length func(part) int) map[part][]byte {
	out := make(map[part][]byte, 2)
	for _, kind := range p {
		n := length(kind)
		if len(share) < n {
			return nil
		}
		out[kind], share = share[:n], share[n:]
	}
	if len(share) > 0 {
		return nil
	}
	return out
}

// Decapsulator is a client's key of ML-KEM-768 or ML-KEM-1024.
type Decapsulator interface {
	// EncapsulationKey gives the public half, 1184 or 1568 bytes.
	EncapsulationKey() []byte
	// Decapsulate gives the secret of a ciphertext of 1088 or 1568 bytes.
	Decapsulate(ciphertext []byte) ([]byte, error)
}

// EncapsulationKey is a key of ML-KEM-768 or ML-KEM-1024: [mlkem.EncapsulationKey768] or [mlkem.EncapsulationKey1024].
type EncapsulationKey interface {
	Bytes() []byte
	Encapsulate() (secret, ciphertext []byte)
}

// Encapsulate draws a secret for a key: [EncapsulationKey.Encapsulate], or a given pair in tests.
type Encapsulate func(key EncapsulationKey) (secret, ciphertext []byte)

// seedKey is a decapsulation key of the library, whose encapsulation key is of type E.
type seedKey[E EncapsulationKey] struct {
	key interface {
		EncapsulationKey() E
		Decapsulate(sealed []byte) ([]byte, error)
	}
}

func (k seedKey[E]) EncapsulationKey() []byte                  { return k.key.EncapsulationKey().Bytes() }
func (k seedKey[E]) Decapsulate(sealed []byte) ([]byte, error) { return k.key.Decapsulate(sealed) }

// Keys are private keys of one agreement, of the kinds that its suite has; the others are nil.
type Keys struct {
	P256, P384, X25519 *ecdh.PrivateKey
	// KEM is a client's alone.
	KEM Decapsulator
}

// String shows nothing.
func (Keys) String() string { return "Keys(redacted)" }

// Format is String, whatever the verb: no verb shows a key.
func (v Keys) Format(state fmt.State, _ rune) { io.WriteString(state, v.String()) }

// DrawP256 draws a key of P-256. A reader that fails is provider.
func DrawP256(random io.Reader) (*ecdh.PrivateKey, error) {
	return drawPoint(ecdh.P256(), p256.scalarLen, random)
}

func drawPoint(curve ecdh.Curve, scalarLen int, random io.Reader) (*ecdh.PrivateKey, error) {
	scalar := make([]byte, scalarLen)
	defer clear(scalar)
	// A scalar is out of range once in 2^32 draws.
	for range 8 {
		if _, err := io.ReadFull(random, scalar); err != nil {
			return nil, wire.Refuse(wire.CodeProvider)
		}
		if key, err := curve.NewPrivateKey(scalar); err == nil {
			return key, nil
		}
	}
	return nil, wire.Refuse(wire.CodeProvider)
}

// DrawKeys draws what a suite needs; the KEM key only for a client.
func DrawKeys(suite Suite, client bool, random io.Reader) (Keys, error) {
	return suite.parts().draw(client, random)
}

func (p parts) draw(client bool, random io.Reader) (Keys, error) {
	var keys Keys
	for _, kind := range p {
		var err error
		switch kind {
		case partP256:
			keys.P256, err = DrawP256(random)
		case partP384:
			keys.P384, err = drawPoint(ecdh.P384(), p384.scalarLen, random)
		case partX25519:
			var scalar [32]byte
			if _, err = io.ReadFull(random, scalar[:]); err == nil {
				keys.X25519, err = ecdh.X25519().NewPrivateKey(scalar[:])
			}
			clear(scalar[:])
		case partKEM, partKEM1024:
			if !client {
				continue
			}
			var seed [mlkem.SeedSize]byte
			if _, err = io.ReadFull(random, seed[:]); err == nil {
				keys.KEM, err = kind.decapsulator(seed[:])
			}
			clear(seed[:])
		}
		if err != nil {
			return Keys{}, wire.Refuse(wire.CodeProvider)
		}
	}
	return keys, nil
}

// decapsulator returns the key of a seed of 64 bytes.
func (p part) decapsulator(seed []byte) (Decapsulator, error) {
	if p == partKEM1024 {
		key, err := mlkem.NewDecapsulationKey1024(seed)
		return seedKey[*mlkem.EncapsulationKey1024]{key}, err
	}
	key, err := mlkem.NewDecapsulationKey768(seed)
	return seedKey[*mlkem.EncapsulationKey768]{key}, err
}

// encapsulationKey checks what FIPS 203 section 7.2 asks for.
func (p part) encapsulationKey(public []byte) (EncapsulationKey, error) {
	if p == partKEM1024 {
		return mlkem.NewEncapsulationKey1024(public)
	}
	return mlkem.NewEncapsulationKey768(public)
}

// ClientShare gives what a client sends. Keys that the suite lacks are provider.
func ClientShare(suite Suite, keys Keys) ([]byte, error) {
	var share []byte
	for _, kind := range suite.parts() {
		switch {
		case kind == partP256 && keys.P256 != nil:
			share = append(share, keys.P256.PublicKey().Bytes()...)
		case kind == partX25519 && keys.X25519 != nil:
			share = append(share, keys.X25519.PublicKey().Bytes()...)
		case kind == partP384 && keys.P384 != nil:
			share = append(share, keys.P384.PublicKey().Bytes()...)
		case (kind == partKEM || kind == partKEM1024) && keys.KEM != nil:
			share = append(share, keys.KEM.EncapsulationKey()...)
		default:
			return nil, wire.Refuse(wire.CodeProvider)
		}
	}
	return share, nil
}

// ServerAgree returns the server's share and the secret of a client's share; public_key_invalid for a share that is none.
func ServerAgree(suite Suite, share []byte, keys Keys, encapsulate Encapsulate) (answer, secret []byte, err error) {
	return suite.parts().answer(share, keys, encapsulate)
}

// answer encapsulates to a share: the parts of the answer, and those of the secret, each in the order of the share.
func (p parts) answer(share []byte, keys Keys, encapsulate Encapsulate) (answer, secret []byte, err error) {
	invalid := wire.Refuse(wire.CodePublicKeyInvalid)
	theirs := p.split(share, part.clientLen)
	if theirs == nil {
		return nil, nil, invalid
	}
	for _, kind := range p {
		var mine, shared []byte
		switch kind {
		case partP256:
			if shared, err = Agree(ecdh.P256(), keys.P256, theirs[kind]); err == nil {
				mine = keys.P256.PublicKey().Bytes()
			}
		case partX25519:
			if shared, err = Agree(ecdh.X25519(), keys.X25519, theirs[kind]); err == nil {
				mine = keys.X25519.PublicKey().Bytes()
			}
		case partP384:
			if shared, err = Agree(ecdh.P384(), keys.P384, theirs[kind]); err == nil {
				mine = keys.P384.PublicKey().Bytes()
			}
		case partKEM, partKEM1024:
			key, invalidKey := kind.encapsulationKey(theirs[kind])
			if invalidKey != nil {
				return nil, nil, invalid
			}
			shared, mine = encapsulate(key)
		}
		if err != nil {
			return nil, nil, err
		}
		answer, secret = append(answer, mine...), append(secret, shared...)
		clear(shared)
	}
	return answer, secret, nil
}

// ClientAgree returns the secret of a server's share; public_key_invalid for a share that is none.
func ClientAgree(suite Suite, share []byte, keys Keys) ([]byte, error) {
	theirs := suite.parts().split(share, part.serverLen)
	if theirs == nil {
		return nil, wire.Refuse(wire.CodePublicKeyInvalid)
	}
	var secret []byte
	for _, kind := range suite.parts() {
		var shared []byte
		var err error
		switch kind {
		case partP256:
			shared, err = Agree(ecdh.P256(), keys.P256, theirs[kind])
		case partX25519:
			shared, err = Agree(ecdh.X25519(), keys.X25519, theirs[kind])
		case partP384:
			shared, err = Agree(ecdh.P384(), keys.P384, theirs[kind])
		case partKEM, partKEM1024:
			if shared, err = keys.KEM.Decapsulate(theirs[kind]); err != nil {
				err = wire.Refuse(wire.CodePublicKeyInvalid)
			}
		}
		if err != nil {
			return nil, err
		}
		secret = append(secret, shared...)
		clear(shared)
	}
	return secret, nil
}

// Agree is the ECDH of one's own key with a peer's public key. The library takes uncompressed points of P-256 and P-384 alone, checks
// them before any arithmetic, and refuses an all-zero secret of X25519.
func Agree(curve ecdh.Curve, mine *ecdh.PrivateKey, peer []byte) ([]byte, error) {
	if mine == nil {
		return nil, wire.Refuse(wire.CodeProvider)
	}
	public, err := curve.NewPublicKey(peer)
	if err != nil {
		return nil, wire.Refuse(wire.CodePublicKeyInvalid)
	}
	secret, err := mine.ECDH(public)
	if err != nil {
		return nil, wire.Refuse(wire.CodePublicKeyInvalid)
	}
	return secret, nil
}
