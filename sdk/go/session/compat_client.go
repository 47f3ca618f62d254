package session

import (
	"crypto/cipher"
	"crypto/ecdh"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// CompatClientInit is a client of wires 1 and 2 that has sent its share and waits for the server's.
type CompatClientInit struct {
	version   wire.Version
	anonymous bool
	clientID  string
	ephemeral *ecdh.PrivateKey
}

// NewCompatClientInit begins: the headers, and the body that is sent as JSON. On wire 1 clientID is not sent; anonymous is for
// /session/init/anon, wire 1 alone. ttlSec may be nil.
func NewCompatClientInit(version wire.Version, anonymous bool, clientID string, ttlSec *uint32, ephemeral *ecdh.PrivateKey,
	nonce [16]byte, nowMs uint64) (*CompatClientInit, *Message, error) {
	if version != wire.Wire1 && version != wire.Wire2 || anonymous && version != wire.Wire1 {
		return nil, nil, wire.Refuse(wire.CodeWireMismatch)
	}
	body := struct {
		Public       string  `json:"clientPublicKey"`
		KeyAgreement string  `json:"keyAgreement,omitempty"`
		TTLSec       *uint32 `json:"ttlSec,omitempty"`
	}{Public: wire.EncodeBase64(ephemeral.PublicKey().Bytes()), TTLSec: ttlSec}
	stamp, text := strconv.FormatUint(nowMs, 10), wire.NonceText(nonce, false)
	var headers wire.HeaderList
	if version == wire.Wire1 {
		body.KeyAgreement = "ECDH_P256"
		headers = wire.HeaderList{{Name: wire.HeaderNonce, Value: text}, {Name: wire.HeaderTimestamp, Value: stamp}}
	} else {
		if !wire.ValidClientID(clientID) {
			return nil, nil, &wire.Error{Code: wire.CodeHeaderInvalid, Name: wire.HeaderClientID}
		}
		headers = wire.HeaderList{{Name: wire.HeaderIdempotencyKey, Value: stamp + "." + text}, {Name: wire.HeaderClientID, Value: clientID}}
	}
	data, _ := json.Marshal(body) // cannot fail for these types
	return &CompatClientInit{version, anonymous, clientID, ephemeral}, &Message{Headers: headers, ContentType: "application/json", Body: data}, nil
}

// String shows no key.
func (c *CompatClientInit) String() string { return "CompatClientInit(redacted)" }

// Format is String, whatever the verb: no verb shows a key.
func (c *CompatClientInit) Format(state fmt.State, _ rune) { io.WriteString(state, c.String()) }

// Finish takes the server's answer, received at nowMs.
func (c *CompatClientInit) Finish(answer []byte, nowMs uint64) (*CompatClientSession, error) {
	value, err := wire.ParseJSON(answer)
	if err != nil {
		return nil, err
	}
	object, _ := value.(map[string]any)
	members := wire.Members(object)
	bad := func(name string) error { return &wire.Error{Code: wire.CodeFieldInvalid, Name: name} }
	id, _ := members.Text("sessionId")
	if !wire.ValidSessionID(id) {
		return nil, bad("sessionId")
	}
	share, ok := members.Text("serverPublicKey")
	if !ok {
		return nil, bad("serverPublicKey")
	}
	public, err := wire.DecodeBase64(share)
	if err != nil || len(public) != wire.PointLen {
		return nil, wire.Refuse(wire.CodePublicKeyInvalid)
	}
	if alg, _ := members.Text("encAlg"); alg != wire.A256GCM && alg != "aes-256-gcm" {
		return nil, bad("encAlg")
	}
	lifeSec, ok := wire.Whole(members["expiresInSec"], 1<<32-1)
	if !ok {
		return nil, bad("expiresInSec")
	}
	z, err := crypto.Agree(ecdh.P256(), c.ephemeral, public)
	if err != nil {
		return nil, err
	}
	defer clear(z)
	key := deriveKey(z, id, keyInfo(c.version, c.anonymous, c.clientID))
	defer key.Wipe()
	aead, err := crypto.NewAEAD(key[:])
	if err != nil {
		return nil, err
	}
	return &CompatClientSession{c.version, c.clientID, id, nowMs + lifeSec*1000, lifeSec, aead}, nil
}

// CompatClientSession is an agreed session of wires 1 and 2, for as many calls as its time allows, concurrent ones too.
type CompatClientSession struct {
	version   wire.Version
	clientID  string
	id        string
	expiresMs uint64
	lifeSec   uint64
	aead      cipher.AEAD
}

// ID returns the session's id.
func (s *CompatClientSession) ID() string { return s.id }

// ExpiresMs is the end of the session by the clock of the side that finished the init.
func (s *CompatClientSession) ExpiresMs() uint64 { return s.expiresMs }

// LifeSec is how long it was granted for.
func (s *CompatClientSession) LifeSec() uint64 { return s.lifeSec }

// String shows the id alone.
func (s *CompatClientSession) String() string { return "CompatClientSession(" + s.id + ")" }

// Format is String, whatever the verb: no verb shows a key.
func (s *CompatClientSession) Format(state fmt.State, _ rune) { io.WriteString(state, s.String()) }

// CompatCall is what a client must remember of a request of wires 1 and 2 to open its answer.
type CompatCall struct {
	session *CompatClientSession
	path    string
}

// Seal seals a POST to path, without its query.
func (s *CompatClientSession) Seal(path string, plaintext []byte, nowMs uint64, random SealRandoms) (*Message, *CompatCall) {
	return s.SealAs(path, plaintext, strconv.FormatUint(nowMs, 10), wire.NonceText(random.Nonce, false), random.IV)
}

// SealAs seals with the stamp and nonce as text: for vectors, and for tests of other clients' habits.
func (s *CompatClientSession) SealAs(path string, plaintext []byte, stamp, nonce string, iv [wire.IVLen]byte) (*Message, *CompatCall) {
	kid := wire.Kid(s.id)
	pending := &CompatCall{s, path}
	if s.version == wire.Wire1 {
		return seal1(s.aead, "POST", path, stamp, nonce, kid, iv, plaintext), pending
	}
	message := seal2(s.aead, stamp, nonce, kid, s.clientID, iv, plaintext)
	message.Headers = append(message.Headers, wire.Header{Name: wire.HeaderClientID, Value: s.clientID})
	return message, pending
}

// Open opens the answer, whose body it may overwrite. It must be of this session, stamped within the window, and carry an
// answer's nonce: else a party in between could send the client its own request back. spec/session.md#answer
func (p *CompatCall) Open(headers wire.Headers, status int, body []byte, nowMs uint64, policy ReplayPolicy) ([]byte, error) {
	kid, err := wire.Required(headers, wire.HeaderKid)
	if err != nil {
		return nil, err
	}
	id, err := wire.SessionIDOfKid(kid)
	if err != nil {
		return nil, err
	}
	if id != p.session.id {
		return nil, wire.Refuse(wire.CodeAnswerMismatch)
	}
	var stamp, nonce string
	var plaintext []byte
	if p.session.version == wire.Wire1 {
		var parts detached
		if nonce, stamp, parts, err = parse1(headers); err != nil {
			return nil, err
		}
		plaintext, err = open1(p.session.aead, parts, aad1(strconv.Itoa(status), p.path, stamp, nonce, kid), body)
	} else {
		var key string
		if key, err = wire.Required(headers, wire.HeaderIdempotencyKey); err != nil {
			return nil, err
		}
		if stamp, nonce, err = wire.SplitIdempotencyKey(key); err != nil {
			return nil, err
		}
		plaintext, err = open2(p.session.aead, aad2(stamp, nonce, kid, p.session.clientID), body)
	}
	if err != nil {
		return nil, err
	}
	if err := wire.CheckAnswerNonce(nonce, 1); err != nil {
		return nil, err
	}
	stampMs, err := wire.ParseStamp(stamp)
	if err != nil {
		return nil, err
	}
	if err := policy.Check(stampMs, nowMs); err != nil {
		return nil, err
	}
	return plaintext, nil
}
