package main

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	typeInit = 1
	typeResp = 2
	typeAck  = 3

	payloadMax     = 8192
	skewS          = 30
	featureRekey   = 1
	handshakeIDLen = 24
)

type initMessage struct {
	ChannelID string `json:"channel_id"`
	Role      int    `json:"role"`
	Version   int    `json:"version"`
	Suite     uint16 `json:"suite"`
	Pub       string `json:"client_eph_pub_b64u"`
	Nonce     string `json:"nonce_c_b64u"`
	Features  uint32 `json:"client_features"`
}

type respMessage struct {
	HandshakeID string `json:"handshake_id"`
	Pub         string `json:"server_eph_pub_b64u"`
	Nonce       string `json:"nonce_s_b64u"`
	Features    uint32 `json:"server_features"`
}

type ackMessage struct {
	HandshakeID string `json:"handshake_id"`
	TimestampS  uint64 `json:"timestamp_unix_s"`
	Tag         string `json:"auth_tag_b64u"`
}

// What both ends know beforehand, and how this one behaves.
type settings struct {
	channelID string
	psk       []byte
	suite     uint16
	initExp   int64
	// Of the first weeks of v1: a server that sends no ping after the Ack, a client that waits for none.
	early bool
	// What to do wrong; empty for nothing.
	fault string
	now   func() time.Time
}

func frameOf(kind byte, message any) ([]byte, error) {
	body, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	made := append([]byte("FSEH"), 1, kind)
	return append(binary.BigEndian.AppendUint32(made, uint32(len(body))), body...), nil
}

func parseFrame(message []byte, kind byte, into any) error {
	if len(message) < 10 || string(message[:4]) != "FSEH" || message[4] != 1 {
		return errors.New("not a handshake frame of v1")
	}
	if message[5] != kind {
		return fmt.Errorf("a handshake frame of type %d, not %d", message[5], kind)
	}
	if size := int(binary.BigEndian.Uint32(message[6:10])); size > payloadMax || size != len(message)-10 {
		return fmt.Errorf("a handshake frame of %d bytes says %d", len(message), size)
	}
	return json.Unmarshal(message[10:], into)
}

func exactly(text string, want int, name string) ([]byte, error) {
	made, err := b64u.DecodeString(text)
	if err == nil && len(made) != want {
		err = fmt.Errorf("%d bytes, not %d", len(made), want)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return made, nil
}

// What an Init and a Resp make of both ends' knowledge.
func (s *settings) agree(first *initMessage, second *respMessage, mine *ecdh.PrivateKey, theirs string) (*secrets, error) {
	curve, err := curveOf(s.suite)
	if err != nil {
		return nil, err
	}
	t := transcript{version: 1, suite: s.suite, role: 1, clientFeatures: first.Features, serverFeatures: second.Features, channelID: s.channelID}
	for _, part := range []struct {
		to         *[]byte
		text, name string
		len        int
	}{
		{&t.nonceC, first.Nonce, "nonce_c", 32},
		{&t.nonceS, second.Nonce, "nonce_s", 32},
		{&t.clientPub, first.Pub, "client_eph_pub", len(mine.PublicKey().Bytes())},
		{&t.serverPub, second.Pub, "server_eph_pub", len(mine.PublicKey().Bytes())},
	} {
		if *part.to, err = exactly(part.text, part.len, part.name); err != nil {
			return nil, err
		}
	}
	raw, err := b64u.DecodeString(theirs)
	if err != nil {
		return nil, err
	}
	public, err := curve.NewPublicKey(raw)
	if err != nil {
		return nil, err
	}
	shared, err := mine.ECDH(public)
	if err != nil {
		return nil, err
	}
	return derive(s.psk, shared, t.hash())
}

// What was sent, for those who send it again elsewhere.
type sent struct{ first, ack []byte }

// The client's side, until this side may send records.
func (s *settings) client(w *wire) (*secrets, *sent, error) {
	curve, err := curveOf(s.suite)
	if err != nil {
		return nil, nil, err
	}
	key, err := curve.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	first := initMessage{
		s.channelID, 1, 1, s.suite, b64u.EncodeToString(key.PublicKey().Bytes()), b64u.EncodeToString(random(32)), featureRekey,
	}
	s.spoilInit(&first)
	message, err := frameOf(typeInit, &first)
	if err != nil {
		return nil, nil, err
	}
	if err := w.send(message); err != nil {
		return nil, nil, err
	}
	reply, second, err := s.awaitResp(w)
	if err != nil {
		return nil, nil, err
	}
	if err := s.resend(w, message, reply); err != nil {
		return nil, nil, err
	}
	made, err := s.agree(&first, second, key, second.Pub)
	if err != nil {
		return nil, nil, err
	}
	now := uint64(s.now().Unix())
	ack := ackMessage{second.HandshakeID, now, b64u.EncodeToString(authTag(s.psk, made.th, now))}
	s.spoilAck(&ack, made.th)
	last, err := frameOf(typeAck, &ack)
	if err != nil {
		return nil, nil, err
	}
	return made, &sent{message, last}, w.send(last)
}

func (s *settings) awaitResp(w *wire) ([]byte, *respMessage, error) {
	reply, err := w.receiveInTime()
	if err != nil {
		return nil, nil, err
	}
	var second respMessage
	if err := parseFrame(reply, typeResp, &second); err != nil {
		return nil, nil, err
	}
	if second.HandshakeID == "" {
		return nil, nil, errors.New("an empty handshake_id")
	}
	return reply, &second, nil
}

// The server's side, until this side may send records.
func (s *settings) server(w *wire) (*secrets, error) {
	message, err := w.receiveInTime()
	if err != nil {
		return nil, err
	}
	var first initMessage
	if err := parseFrame(message, typeInit, &first); err != nil {
		return nil, err
	}
	suite := first.Suite
	if suite == 0 {
		suite = s.suite
	}
	if first.Version != 1 || first.Role != 1 || first.ChannelID != s.channelID || suite != s.suite {
		return nil, fmt.Errorf("an Init of version %d, role %d, suite %d, channel %q", first.Version, first.Role, first.Suite, first.ChannelID)
	}
	curve, err := curveOf(s.suite)
	if err != nil {
		return nil, err
	}
	key, err := curve.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	second := respMessage{
		b64u.EncodeToString(random(handshakeIDLen)), b64u.EncodeToString(key.PublicKey().Bytes()), b64u.EncodeToString(random(32)), featureRekey,
	}
	s.spoilResp(&second)
	reply, err := frameOf(typeResp, &second)
	if err != nil {
		return nil, err
	}
	if err := w.send(reply); err != nil {
		return nil, err
	}
	ack, err := s.awaitAck(w, message, reply)
	if err != nil {
		return nil, err
	}
	return s.accept(&first, &second, ack, key)
}

// The Ack; until it comes the same Init is answered by the same Resp.
func (s *settings) awaitAck(w *wire, first, reply []byte) (*ackMessage, error) {
	for {
		message, err := w.receiveInTime()
		if err != nil {
			return nil, err
		}
		if bytes.Equal(message, first) {
			if err := w.send(reply); err != nil {
				return nil, err
			}
			continue
		}
		var ack ackMessage
		return &ack, parseFrame(message, typeAck, &ack)
	}
}

func (s *settings) accept(first *initMessage, second *respMessage, ack *ackMessage, key *ecdh.PrivateKey) (*secrets, error) {
	if ack.HandshakeID != second.HandshakeID {
		return nil, errors.New("another handshake_id")
	}
	now := s.now().Unix()
	stamp := int64(ack.TimestampS)
	if stamp < now-skewS || stamp > now+skewS || stamp > s.initExp+skewS {
		return nil, fmt.Errorf("a stamp of %d, at %d", stamp, now)
	}
	tag, err := exactly(ack.Tag, 32, "auth_tag")
	if err != nil {
		return nil, err
	}
	made, err := s.agree(first, second, key, first.Pub)
	if err != nil {
		return nil, err
	}
	if !hmac.Equal(tag, authTag(s.psk, made.th, ack.TimestampS)) {
		return nil, errors.New("a tag that is not the Ack's")
	}
	return made, nil
}
