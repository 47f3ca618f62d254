package protocol

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hmac"
)

const (
	v1TypeInit = 1
	v1TypeResp = 2
	v1TypeAck  = 3
)

// v1Peer reads a public key as this profile writes it: 32 bytes of X25519, an uncompressed point of P-256.
func v1Peer(suite Suite, raw []byte) (*ecdh.PublicKey, error) {
	return checked(suite.curve().ecdh().NewPublicKey(raw))
}

type v1AwaitsResp struct {
	settings  Settings
	ephemeral *ecdh.PrivateKey
	nonceC    [32]byte
}

func beginV1Client(settings *Settings, randoms *Randoms) (handshakeState, []byte, error) {
	ephemeral, err := settings.Suite.curve().private(&randoms.Ephemeral, "ephemeral")
	if err != nil {
		return nil, nil, err
	}
	first, err := encodeV1(v1TypeInit, v1Init{
		ChannelID: settings.ChannelID, Role: 1, Version: 1, Suite: uint16(settings.Suite),
		Public: b64u.EncodeToString(ephemeral.PublicKey().Bytes()), Nonce: b64u.EncodeToString(randoms.Nonce[:]),
		Features: settings.Features,
	})
	return &v1AwaitsResp{*settings, ephemeral, randoms.Nonce}, first, err
}

func (c *v1AwaitsResp) read(message []byte, nowS uint64) (handshakeState, []byte, error) {
	payload, err := v1Profile.parseHandshake(v1TypeResp, message)
	if err != nil {
		return nil, nil, err
	}
	resp := parseMembers(payload)
	id, public := resp.text("handshake_id"), resp.bytes("server_eph_pub_b64u")
	nonceS, features := resp.nonce("nonce_s_b64u"), uint32(resp.number("server_features", 32))
	if id == "" {
		resp.refuse("handshake_id")
	}
	if resp.err != nil {
		return nil, nil, resp.err
	}
	peer, err := v1Peer(c.settings.Suite, public)
	if err != nil {
		return nil, nil, err
	}
	shared, err := agree(c.ephemeral, peer)
	if err != nil {
		return nil, nil, err
	}
	defer clear(shared)
	th := (&v1Transcript{
		suite: c.settings.Suite, clientFeatures: c.settings.Features, serverFeatures: features,
		channelID: c.settings.ChannelID, nonceC: c.nonceC[:], nonceS: nonceS[:],
		clientPublic: c.ephemeral.PublicKey().Bytes(), serverPublic: public,
	}).hash()
	out, in, err := v1Directions(&c.settings.PSK, shared, th)
	if err != nil {
		return nil, nil, err
	}
	sealer, opener, err := newV1Records(out, in, c.settings.RecordMax)
	if err != nil {
		return nil, nil, err
	}
	tag := v1AuthTag(&c.settings.PSK, th[:], nowS)
	ack, err := encodeV1(v1TypeAck, v1Ack{HandshakeID: id, TimestampS: nowS, Tag: b64u.EncodeToString(tag)})
	if err != nil {
		return nil, nil, err
	}
	c.settings.PSK.Wipe()
	if c.settings.AcceptUnconfirmed {
		return &handshakeEnd{sealer, opener}, ack, nil
	}
	return &awaitsPing{sealer, opener}, ack, nil
}

type v1AwaitsInit struct {
	settings Settings
	randoms  Randoms
}

type v1AwaitsAck struct {
	settings     Settings
	ephemeral    *ecdh.PrivateKey
	clientPublic []byte
	th           [32]byte
	handshakeID  string
	// The Init that was answered, and the answer: both are this connection's alone.
	init, resp []byte
}

// spec/channel.md#v1-handshake: the checks, in this order.
func (s *v1AwaitsInit) read(message []byte, _ uint64) (handshakeState, []byte, error) {
	payload, err := v1Profile.parseHandshake(v1TypeInit, message)
	if err != nil {
		return nil, nil, err
	}
	init := parseMembers(payload)
	id, role, version := init.text("channel_id"), init.number("role", 8), init.number("version", 8)
	suite, public := Suite(init.number("suite", 16)), init.bytes("client_eph_pub_b64u")
	nonceC, features := init.nonce("nonce_c_b64u"), uint32(init.number("client_features", 32))
	switch {
	case init.err != nil:
		return nil, nil, init.err
	case version != 1:
		return nil, nil, fail(VersionMismatch)
	case role != 1:
		return nil, nil, fail(RoleMismatch)
	case id != s.settings.ChannelID:
		return nil, nil, fail(ChannelMismatch)
	// 0 is "yours"; the transcript has the server's own either way.
	case suite != s.settings.Suite && suite != 0:
		return nil, nil, fail(SuiteMismatch)
	}
	ephemeral, err := s.settings.Suite.curve().private(&s.randoms.Ephemeral, "ephemeral")
	if err != nil {
		return nil, nil, err
	}
	resp := v1Resp{
		HandshakeID: b64u.EncodeToString(s.randoms.HandshakeID[:]),
		Public:      b64u.EncodeToString(ephemeral.PublicKey().Bytes()),
		Nonce:       b64u.EncodeToString(s.randoms.Nonce[:]), Features: s.settings.Features,
	}
	answer, err := encodeV1(v1TypeResp, resp)
	if err != nil {
		return nil, nil, err
	}
	th := (&v1Transcript{
		suite: s.settings.Suite, clientFeatures: features, serverFeatures: s.settings.Features,
		channelID: id, nonceC: nonceC[:], nonceS: s.randoms.Nonce[:],
		clientPublic: public, serverPublic: ephemeral.PublicKey().Bytes(),
	}).hash()
	return &v1AwaitsAck{
		settings: s.settings, ephemeral: ephemeral, clientPublic: public, th: th, handshakeID: resp.HandshakeID,
		init: bytes.Clone(message), resp: answer,
	}, answer, nil
}

func (s *v1AwaitsAck) read(message []byte, nowS uint64) (handshakeState, []byte, error) {
	if _, err := v1Profile.parseHandshake(v1TypeInit, message); err == nil {
		// A client that heard nothing may ask again, with the same bytes.
		if bytes.Equal(message, s.init) {
			return s, s.resp, nil
		}
		return nil, nil, fail(InitChanged)
	}
	if err := s.check(message, nowS); err != nil {
		return nil, nil, err
	}
	peer, err := v1Peer(s.settings.Suite, s.clientPublic)
	if err != nil {
		return nil, nil, err
	}
	shared, err := agree(s.ephemeral, peer)
	if err != nil {
		return nil, nil, err
	}
	defer clear(shared)
	in, out, err := v1Directions(&s.settings.PSK, shared, s.th)
	if err != nil {
		return nil, nil, err
	}
	sealer, opener, err := newV1Records(out, in, s.settings.RecordMax)
	if err != nil {
		return nil, nil, err
	}
	s.settings.PSK.Wipe()
	ping, err := sealer.Seal(nil, &Content{Kind: Ping}, 0)
	return &handshakeEnd{sealer, opener}, ping, err
}

// spec/channel.md#v1-handshake: the checks, in this order.
func (s *v1AwaitsAck) check(message []byte, nowS uint64) error {
	payload, err := v1Profile.parseHandshake(v1TypeAck, message)
	if err != nil {
		return err
	}
	ack := parseMembers(payload)
	id, timestampS, tag := ack.text("handshake_id"), ack.number("timestamp_unix_s", 64), ack.bytes("auth_tag_b64u")
	skew, expires := s.settings.SkewS, s.settings.InitExpiresS
	switch {
	case ack.err != nil:
		return ack.err
	case id != s.handshakeID:
		return fail(HandshakeIDMismatch)
	case max(nowS, timestampS)-min(nowS, timestampS) > skew:
		return fail(HandshakeTimestamp)
	case timestampS > saturatingAdd(expires, skew):
		return fail(InitExpired)
	case len(tag) != 32:
		return failAt(HandshakeFieldInvalid, "auth_tag_b64u")
	case !hmac.Equal(tag, v1AuthTag(&s.settings.PSK, s.th[:], timestampS)):
		return fail(HandshakeUnauthentic)
	}
	return nil
}

func saturatingAdd(a, b uint64) uint64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return 1<<64 - 1
}
