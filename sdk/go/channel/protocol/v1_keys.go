package protocol

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"sealway.dev/go/crypto"
)

const v1Label = "flowersec-e2ee-v1"

// v1Transcript is what both ends must agree on. spec/channel.md#v1-keys
type v1Transcript struct {
	suite                          Suite
	clientFeatures, serverFeatures uint32
	channelID                      string
	nonceC, nonceS                 []byte
	clientPublic, serverPublic     []byte
}

func (t *v1Transcript) hash() [32]byte {
	over := append([]byte(v1Label), 1)
	over = binary.BigEndian.AppendUint16(over, uint16(t.suite))
	over = append(over, 1)
	over = binary.BigEndian.AppendUint32(over, t.clientFeatures)
	over = binary.BigEndian.AppendUint32(over, t.serverFeatures)
	over = appendCounted(over, []byte(t.channelID))
	over = append(over, t.nonceC...)
	over = append(over, t.nonceS...)
	over = appendCounted(over, t.clientPublic)
	over = appendCounted(over, t.serverPublic)
	return sha256.Sum256(over)
}

func appendCounted(to, what []byte) []byte {
	return append(binary.BigEndian.AppendUint16(to, uint16(len(what))), what...)
}

func v1AuthTag(psk *Key, transcript []byte, timestampS uint64) []byte {
	mac := hmac.New(sha256.New, psk[:])
	mac.Write(transcript)
	mac.Write(binary.BigEndian.AppendUint64(nil, timestampS))
	return mac.Sum(nil)
}

// v1Direction is the keys of one of the two.
type v1Direction struct {
	key       Key
	prefix    [4]byte
	rekeyBase Key
	th        [32]byte
	number    byte
}

const (
	fromClient = 1
	fromServer = 2
)

func v1Directions(psk *Key, shared []byte, th [32]byte) (client, server *v1Direction, err error) {
	input := append(append(make([]byte, 0, 64), shared...), th[:]...)
	defer clear(input)
	prk, err := hkdf.Extract(sha256.New, input, psk[:])
	if err != nil {
		return nil, nil, fail(ChannelProvider)
	}
	defer clear(prk)
	client, server = &v1Direction{th: th, number: fromClient}, &v1Direction{th: th, number: fromServer}
	for _, part := range []struct {
		to    []byte
		label string
	}{
		{client.key[:], ":c2s:key"}, {client.prefix[:], ":c2s:nonce_prefix"},
		{server.key[:], ":s2c:key"}, {server.prefix[:], ":s2c:nonce_prefix"},
		{client.rekeyBase[:], ":rekey_base"}, {server.rekeyBase[:], ":rekey_base"},
	} {
		if err := expandInto(part.to, prk, v1Label+part.label); err != nil {
			return nil, nil, err
		}
	}
	return client, server, nil
}

func expandInto(to, prk []byte, label string) error {
	made, err := hkdf.Expand(sha256.New, prk, label, len(to))
	if err != nil {
		return fail(ChannelProvider)
	}
	copy(to, made)
	clear(made)
	return nil
}

// change makes the key that follows the rekey record of this number.
func (d *v1Direction) change(seq uint64) error {
	mac := hmac.New(sha256.New, d.rekeyBase[:])
	mac.Write(d.th[:])
	mac.Write(binary.BigEndian.AppendUint64(nil, seq))
	mac.Write([]byte{d.number})
	prk, err := hkdf.Extract(sha256.New, []byte(v1Label+":rekey"), mac.Sum(nil))
	if err != nil {
		return fail(ChannelProvider)
	}
	defer clear(prk)
	return expandInto(d.key[:], prk, v1Label+":rekey:key")
}

func aesGCM(key *Key) (cipher.AEAD, error) {
	aead, err := crypto.NewAEAD(key[:])
	if err != nil {
		return nil, fail(ChannelProvider)
	}
	return aead, nil
}
