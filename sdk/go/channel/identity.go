package channel

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"sealway.dev/go/channel/protocol"
)

// Curve is a static key's.
type Curve int

// The curves of native suites.
const (
	X25519 Curve = iota
	P256
)

func (c Curve) ecdh() ecdh.Curve {
	if c == P256 {
		return ecdh.P256()
	}
	return ecdh.X25519()
}

// suite is any of this curve that pins keys.
func (c Curve) suite() protocol.Suite { return protocol.Suite(0x110 + 2*uint16(c)) }

// Identity is this end's static private key, for grants that pin the peers' keys: what takes the control plane out of those who
// must be trusted. However it is printed, it shows nothing.
type Identity struct{ private protocol.Key }

// NewIdentity draws one.
func NewIdentity(curve Curve) (*Identity, error) {
	key, err := drawKey(curve.ecdh())
	if err != nil {
		return nil, err
	}
	return &Identity{key}, nil
}

// ParseIdentity reads the text of a key file, as Encode and `sealway channel key` write it: 32 bytes in base64url.
func ParseIdentity(text string) (*Identity, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimSpace(text))
	if err != nil || len(raw) != 32 {
		return nil, fault(StageHandshake, "key_invalid", "a static key is not 32 bytes in base64url")
	}
	defer clear(raw)
	return &Identity{protocol.Key(raw)}, nil
}

// Encode returns the private key in base64url: a secret.
func (i *Identity) Encode() string { return base64.RawURLEncoding.EncodeToString(i.private[:]) }

// Public returns the public half in base64url, as grants pin it.
func (i *Identity) Public(curve Curve) (string, error) {
	public, err := protocol.PublicKey(curve.suite(), &i.private)
	if err != nil {
		return "", caused(err, StageHandshake, "key_invalid", "a static key is none of its curve")
	}
	return base64.RawURLEncoding.EncodeToString(public), nil
}

// Format prints no byte of the key.
func (*Identity) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, "Identity(redacted)") }

func drawKey(curve ecdh.Curve) (key protocol.Key, err error) {
	made, err := curve.GenerateKey(rand.Reader)
	if err != nil {
		return key, caused(err, StageHandshake, "provider", "no key could be drawn")
	}
	raw := made.Bytes()
	defer clear(raw)
	return protocol.Key(raw), nil
}
