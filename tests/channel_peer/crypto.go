package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
)

const (
	suiteX25519 = 1
	suiteP256   = 2
	label       = "flowersec-e2ee-v1"
)

// Padding is refused, as by the endpoints that run today.
var b64u = base64.RawURLEncoding

func curveOf(suite uint16) (ecdh.Curve, error) {
	switch suite {
	case suiteX25519:
		return ecdh.X25519(), nil
	case suiteP256:
		return ecdh.P256(), nil
	}
	return nil, fmt.Errorf("suite %d is not one of v1", suite)
}

// What both ends hash: every field that they must agree on.
type transcript struct {
	version                        byte
	suite                          uint16
	role                           byte
	clientFeatures, serverFeatures uint32
	channelID                      string
	nonceC, nonceS                 []byte
	clientPub, serverPub           []byte
}

func (t *transcript) hash() []byte {
	at := append([]byte(label), t.version)
	at = binary.BigEndian.AppendUint16(at, t.suite)
	at = append(at, t.role)
	at = binary.BigEndian.AppendUint32(at, t.clientFeatures)
	at = binary.BigEndian.AppendUint32(at, t.serverFeatures)
	at = counted(at, []byte(t.channelID))
	at = append(at, t.nonceC...)
	at = append(at, t.nonceS...)
	at = counted(at, t.clientPub)
	at = counted(at, t.serverPub)
	sum := sha256.Sum256(at)
	return sum[:]
}

func counted(to, what []byte) []byte {
	return append(binary.BigEndian.AppendUint16(to, uint16(len(what))), what...)
}

func authTag(psk, th []byte, timestampS uint64) []byte {
	mac := hmac.New(sha256.New, psk)
	mac.Write(th)
	mac.Write(binary.BigEndian.AppendUint64(nil, timestampS))
	return mac.Sum(nil)
}

// What a handshake leaves.
type secrets struct {
	c2sKey, s2cKey, rekeyBase []byte
	c2sPrefix, s2cPrefix      []byte
	th                        []byte
}

func derive(psk, shared, th []byte) (*secrets, error) {
	prk, err := hkdf.Extract(sha256.New, append(append([]byte{}, shared...), th...), psk)
	if err != nil {
		return nil, err
	}
	made := &secrets{th: th}
	for _, part := range []struct {
		to   *[]byte
		name string
		len  int
	}{
		{&made.c2sKey, ":c2s:key", 32},
		{&made.s2cKey, ":s2c:key", 32},
		{&made.rekeyBase, ":rekey_base", 32},
		{&made.c2sPrefix, ":c2s:nonce_prefix", 4},
		{&made.s2cPrefix, ":s2c:nonce_prefix", 4},
	} {
		if *part.to, err = hkdf.Expand(sha256.New, prk, label+part.name, part.len); err != nil {
			return nil, err
		}
	}
	return made, nil
}

const (
	clientToServer = 1
	serverToClient = 2
)

// The key after the rekey record `seq` of a direction.
func nextKey(rekeyBase, th []byte, seq uint64, direction byte) ([]byte, error) {
	mac := hmac.New(sha256.New, rekeyBase)
	mac.Write(th)
	mac.Write(binary.BigEndian.AppendUint64(nil, seq))
	mac.Write([]byte{direction})
	prk, err := hkdf.Extract(sha256.New, []byte(label+":rekey"), mac.Sum(nil))
	if err != nil {
		return nil, err
	}
	return hkdf.Expand(sha256.New, prk, label+":rekey:key", 32)
}

func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
