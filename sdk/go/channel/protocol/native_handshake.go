package protocol

import (
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

const (
	kemPublicLen     = 1184
	kemCiphertextLen = 1088
)

// native is either side of a native handshake, waiting for a message.
type native struct {
	settings Settings
	randoms  Randoms
	noise    *noise
	isClient bool
	// awaits is the type of the frame that is due.
	awaits byte
}

// prologue is what both ends must mean alike: every part has a fixed length, or one that stands before it.
// spec/channel.md#prologue
func prologue(s *Settings) []byte {
	out := appendCounted([]byte("sealway-channel-v1"), []byte(s.ChannelID))
	out = binary.BigEndian.AppendUint64(out, s.InitExpiresS)
	out = append(out, 1, 2)
	out = append(out, s.Binding[:]...)
	out = binary.BigEndian.AppendUint16(out, uint16(s.Suite))
	out = append(out, byte(len(s.AllowedSuites)))
	for _, suite := range s.AllowedSuites {
		out = binary.BigEndian.AppendUint16(out, suite)
	}
	return out
}

func newNative(settings *Settings, randoms *Randoms, isClient bool) (*native, error) {
	curve := settings.Suite.curve()
	ephemeral, err := curve.private(&randoms.Ephemeral, "ephemeral")
	if err != nil {
		return nil, err
	}
	var own *ecdh.PrivateKey
	var pinned *ecdh.PublicKey
	if settings.Suite.HasStaticKeys() {
		if own, err = curve.private(settings.LocalStatic, "local_static"); err != nil {
			return nil, err
		}
		if pinned, err = curve.decode(settings.PeerStatic); err != nil {
			return nil, failAt(SettingInvalid, "peer_static")
		}
	}
	if settings.Suite.IsHybrid() && (isClient && randoms.Decapsulator == nil || !isClient && randoms.Encapsulate == nil) {
		return nil, failAt(SettingInvalid, "kem")
	}
	noise, err := newNoise(settings.Suite, isClient, prologue(settings), &settings.PSK, ephemeral, own, pinned)
	return &native{settings: *settings, randoms: *randoms, noise: noise, isClient: isClient, awaits: 1}, err
}

func beginNativeClient(settings *Settings, randoms *Randoms) (handshakeState, []byte, error) {
	made, err := newNative(settings, randoms, true)
	if err != nil {
		return nil, nil, err
	}
	var payload []byte
	if settings.Suite.IsHybrid() {
		payload = randoms.Decapsulator.EncapsulationKey()
	}
	made.awaits = 2
	first, err := made.write(1, nil, payload)
	return made, first, err
}

func (n *native) write(kind byte, before, payload []byte) ([]byte, error) {
	message, err := n.noise.write(before, payload)
	if err != nil {
		return nil, err
	}
	return nativeProfile.handshake(kind, message)
}

// spec/channel.md#native-handshake: the checks, in this order.
func (n *native) read(message []byte, nowS uint64) (handshakeState, []byte, error) {
	payload, err := nativeProfile.parseHandshake(n.awaits, message)
	if err != nil {
		return nil, nil, err
	}
	if nowS > saturatingAdd(n.settings.InitExpiresS, n.settings.SkewS) {
		return nil, nil, fail(InitExpired)
	}
	isHybrid := n.settings.Suite.IsHybrid()
	if isHybrid && n.awaits == 2 {
		if payload, err = n.decapsulate(payload); err != nil {
			return nil, nil, err
		}
	}
	inside, err := n.noise.read(payload)
	if err != nil {
		return nil, nil, err
	}
	if err := n.checkPinned(); err != nil {
		return nil, nil, err
	}
	hasKEMKey := isHybrid && n.awaits == 1
	if !hasKEMKey && len(inside) > 0 {
		return nil, nil, failAt(HandshakeFieldInvalid, "payload")
	}
	if n.noise.isFinished() {
		done, err := n.finish()
		if err != nil {
			return nil, nil, err
		}
		// The reader of the last message proves itself by a ping, and is connected.
		ping, err := done.sealer.Seal(nil, &Content{Kind: Ping}, 0)
		return done, ping, err
	}
	var ciphertext []byte
	if hasKEMKey {
		if ciphertext, err = n.encapsulate(inside); err != nil {
			return nil, nil, err
		}
	}
	answer, err := n.write(n.awaits+1, ciphertext, nil)
	if err != nil {
		return nil, nil, err
	}
	if n.noise.isFinished() {
		done, err := n.finish()
		return (*awaitsPing)(done), answer, err
	}
	n.awaits += 2
	return n, answer, nil
}

// checkPinned holds a static key that has come against the pinned one.
func (n *native) checkPinned() error {
	if n.noise.peer == nil {
		return nil
	}
	if !hmac.Equal(n.settings.Suite.curve().encode(n.noise.peer), n.settings.PeerStatic) {
		return fail(PeerKeyUnpinned)
	}
	return nil
}

// hybridPSK binds the second secret to key and ciphertext, so that neither can be another's. spec/channel.md#hybrid
func hybridPSK(secret, public, ciphertext []byte) (psk Key) {
	over := sha256.New()
	over.Write(public)
	over.Write(ciphertext)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("sealway-channel-v1 ML-KEM-768"))
	mac.Write(over.Sum(nil))
	mac.Sum(psk[:0])
	clear(secret)
	return psk
}

func (n *native) encapsulate(public []byte) ([]byte, error) {
	if len(public) != kemPublicLen {
		return nil, fail(PeerKeyInvalid)
	}
	secret, ciphertext, err := n.randoms.Encapsulate(public)
	if err != nil {
		return nil, fail(PeerKeyInvalid)
	}
	n.noise.kem = hybridPSK(secret, public, ciphertext)
	return append([]byte(nil), ciphertext...), nil
}

func (n *native) decapsulate(payload []byte) ([]byte, error) {
	if len(payload) < kemCiphertextLen {
		return nil, failAt(HandshakeFieldInvalid, "ciphertext")
	}
	ciphertext := payload[:kemCiphertextLen]
	secret, err := n.randoms.Decapsulator.Decapsulate(ciphertext)
	if err != nil {
		return nil, fail(ChannelProvider)
	}
	n.noise.kem = hybridPSK(secret, n.randoms.Decapsulator.EncapsulationKey(), ciphertext)
	return payload[kemCiphertextLen:], nil
}

func (n *native) finish() (*handshakeEnd, error) {
	client, server, err := n.noise.split()
	if err != nil {
		return nil, err
	}
	out, in := client, server
	if !n.isClient {
		out, in = server, client
	}
	sealer, opener, err := newNativeRecords(&n.settings, n.isClient, out, in)
	if err != nil {
		return nil, err
	}
	n.settings.PSK.Wipe()
	n.randoms.Ephemeral.Wipe()
	return &handshakeEnd{sealer, opener}, nil
}
