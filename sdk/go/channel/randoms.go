package channel

import (
	"crypto/ecdh"
	"crypto/mlkem"
	"crypto/rand"

	"sealway.dev/go/channel/protocol"
)

// decapsulator is a client's ML-KEM-768 key for one channel.
type decapsulator struct{ key *mlkem.DecapsulationKey768 }

func (d decapsulator) EncapsulationKey() []byte { return d.key.EncapsulationKey().Bytes() }

func (d decapsulator) Decapsulate(ciphertext []byte) ([]byte, error) {
	return d.key.Decapsulate(ciphertext)
}

func encapsulate(key []byte) (secret, ciphertext []byte, err error) {
	to, err := mlkem.NewEncapsulationKey768(key)
	if err != nil {
		return nil, nil, err
	}
	secret, ciphertext = to.Encapsulate()
	return secret, ciphertext, nil
}

// drawRandoms draws what one handshake needs. Nothing of it is used on a second connection.
func drawRandoms(suite protocol.Suite, isClient bool) (*protocol.Randoms, error) {
	made := &protocol.Randoms{Encapsulate: encapsulate}
	if _, err := rand.Read(made.Nonce[:]); err != nil {
		return nil, caused(err, StageHandshake, "provider", "there is no randomness")
	}
	if _, err := rand.Read(made.HandshakeID[:]); err != nil {
		return nil, caused(err, StageHandshake, "provider", "there is no randomness")
	}
	curve := ecdh.X25519()
	if suite.UsesP256() {
		curve = ecdh.P256()
	}
	var err error
	if made.Ephemeral, err = drawKey(curve); err != nil {
		return nil, err
	}
	if suite.IsHybrid() && isClient {
		key, err := mlkem.GenerateKey768()
		if err != nil {
			return nil, caused(err, StageHandshake, "provider", "no ML-KEM key could be drawn")
		}
		made.Decapsulator = decapsulator{key}
	}
	return made, nil
}
