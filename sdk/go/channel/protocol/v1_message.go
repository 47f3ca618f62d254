package protocol

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"strconv"
	"unicode/utf8"
)

// b64u is base64url without padding. The decoder passes over line ends, which the wire refuses: see decodeB64u.
var b64u = base64.RawURLEncoding.Strict()

func decodeB64u(text string) ([]byte, bool) {
	raw, err := b64u.DecodeString(text)
	// Text that encodes to itself holds no free bit, no padding and no line end.
	return raw, err == nil && b64u.EncodedLen(len(raw)) == len(text)
}

type v1Init struct {
	ChannelID string `json:"channel_id"`
	Role      uint8  `json:"role"`
	Version   uint8  `json:"version"`
	Suite     uint16 `json:"suite"`
	Public    string `json:"client_eph_pub_b64u"`
	Nonce     string `json:"nonce_c_b64u"`
	Features  uint32 `json:"client_features"`
}

type v1Resp struct {
	HandshakeID string `json:"handshake_id"`
	Public      string `json:"server_eph_pub_b64u"`
	Nonce       string `json:"nonce_s_b64u"`
	Features    uint32 `json:"server_features"`
}

type v1Ack struct {
	HandshakeID string `json:"handshake_id"`
	TimestampS  uint64 `json:"timestamp_unix_s"`
	Tag         string `json:"auth_tag_b64u"`
}

func encodeV1(kind byte, message any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(message); err != nil {
		return nil, fail(ChannelProvider)
	}
	return v1Profile.handshake(kind, bytes.TrimSuffix(out.Bytes(), []byte("\n")))
}

// members is a JSON object read with exact names: the platform's reader of structs takes names in any case, which is another
// wire. Of a repeated member the last counts. The first fault is kept.
type members struct {
	raw map[string]json.RawMessage
	err error
}

func parseMembers(payload []byte) *members {
	made := &members{}
	decoder := json.NewDecoder(bytes.NewReader(payload))
	if !utf8.Valid(payload) || decoder.Decode(&made.raw) != nil || made.raw == nil {
		made.err = fail(HandshakeJSONInvalid)
		return made
	}
	if _, err := decoder.Token(); err != io.EOF {
		made.err = fail(HandshakeJSONInvalid)
	}
	return made
}

func (m *members) refuse(name string) {
	if m.err == nil {
		m.err = failAt(HandshakeFieldInvalid, name)
	}
}

func (m *members) text(name string) string {
	raw := m.raw[name]
	var text string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		m.refuse(name)
	}
	return text
}

func (m *members) number(name string, bits int) uint64 {
	number, err := strconv.ParseUint(string(m.raw[name]), 10, bits)
	if err != nil {
		m.refuse(name)
	}
	return number
}

func (m *members) bytes(name string) []byte {
	raw, is := decodeB64u(m.text(name))
	if !is {
		m.refuse(name)
	}
	return raw
}

func (m *members) nonce(name string) (nonce [32]byte) {
	if copy(nonce[:], m.exactly(name, 32)) != 32 {
		m.refuse(name)
	}
	return nonce
}

func (m *members) exactly(name string, length int) []byte {
	raw := m.bytes(name)
	if len(raw) != length {
		m.refuse(name)
	}
	return raw
}
