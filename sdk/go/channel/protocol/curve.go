package protocol

import (
	"crypto/ecdh"
	"crypto/elliptic"
)

type curve bool

const (
	x25519 curve = false
	p256   curve = true
)

func (c curve) ecdh() ecdh.Curve {
	if c == p256 {
		return ecdh.P256()
	}
	return ecdh.X25519()
}

// publicLen is of the native form: a compressed point for P-256.
func (c curve) publicLen() int {
	if c == p256 {
		return 33
	}
	return 32
}

func (c curve) private(key *Key, field string) (*ecdh.PrivateKey, error) {
	made, err := c.ecdh().NewPrivateKey(key[:])
	if err != nil {
		return nil, failAt(SettingInvalid, field)
	}
	return made, nil
}

// encode returns the native form of a public key.
func (c curve) encode(key *ecdh.PublicKey) []byte {
	raw := key.Bytes()
	if c == x25519 {
		return raw
	}
	// 0x04 || X || Y: the sign is the lowest bit of Y.
	return append([]byte{0x02 | raw[64]&1}, raw[1:33]...)
}

// decode reads the native form. A compressed point is the only one for P-256, so that no bit of a message is free.
func (c curve) decode(raw []byte) (*ecdh.PublicKey, error) {
	if c == x25519 {
		return checked(ecdh.X25519().NewPublicKey(raw))
	}
	x, y := elliptic.UnmarshalCompressed(elliptic.P256(), raw)
	if x == nil {
		return nil, fail(PeerKeyInvalid)
	}
	point := make([]byte, 65)
	point[0] = 0x04
	x.FillBytes(point[1:33])
	y.FillBytes(point[33:])
	return checked(ecdh.P256().NewPublicKey(point))
}

func checked(key *ecdh.PublicKey, err error) (*ecdh.PublicKey, error) {
	if err != nil {
		return nil, fail(PeerKeyInvalid)
	}
	return key, nil
}

// agree refuses an output of zeros, which a point of low order gives.
func agree(own *ecdh.PrivateKey, peer *ecdh.PublicKey) ([]byte, error) {
	shared, err := own.ECDH(peer)
	if err != nil {
		return nil, fail(PeerKeyInvalid)
	}
	return shared, nil
}

// PublicKey returns the public half of a static key in the form that grants and the native profile use: 32 bytes of X25519,
// or 33 of a compressed point of P-256.
func PublicKey(suite Suite, private *Key) ([]byte, error) {
	key, err := suite.curve().private(private, "local_static")
	if err != nil {
		return nil, err
	}
	return suite.curve().encode(key.PublicKey()), nil
}
