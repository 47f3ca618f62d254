package session

import (
	"crypto/cipher"
	"strconv"
	"strings"

	"sealway.dev/go/wire"
)

// Message is a sealed request or answer of wires 1 and 2: the headers that it needs, and its body.
type Message struct {
	Headers     wire.HeaderList
	ContentType string
	Body        []byte
}

// SealedCall is a sealed request of wires 1 and 2 whose headers are in order; its session is to be looked up next.
type SealedCall struct {
	version  wire.Version
	kid, id  string
	stamp    string
	stampMs  uint64
	nonce    string
	policy   ReplayPolicy
	clientID string
	path     string
	detached detached
}

// ParseCall reads the headers of a sealed POST; path is the request's as sent, without its query. spec/session.md#open
func ParseCall(headers wire.Headers, path string, nowMs uint64, policy ReplayPolicy) (*SealedCall, error) {
	call := &SealedCall{version: wire.VersionOf(headers), policy: policy, path: path}
	var err error
	if call.kid, err = wire.Required(headers, wire.HeaderKid); err != nil {
		return nil, err
	}
	if call.version == wire.Wire1 {
		if call.nonce, call.stamp, call.detached, err = parse1(headers); err != nil {
			return nil, err
		}
		if len(path) > wire.PathLenMax {
			return nil, wire.Refuse(wire.CodeBodyTooLarge)
		}
	} else {
		key, err := wire.Required(headers, wire.HeaderIdempotencyKey)
		if err != nil {
			return nil, err
		}
		if call.clientID, err = requiredClientID(headers); err != nil {
			return nil, err
		}
		if call.stamp, call.nonce, err = wire.SplitIdempotencyKey(key); err != nil {
			return nil, err
		}
	}
	if err := wire.CheckRequestNonce(call.nonce, 1); err != nil {
		return nil, err
	}
	if call.stampMs, err = wire.ParseStamp(call.stamp); err != nil {
		return nil, err
	}
	if err := policy.Check(call.stampMs, nowMs); err != nil {
		return nil, err
	}
	call.id, err = wire.SessionIDOfKid(call.kid)
	return call, err
}

// SessionID is the session to look up; session_unknown for a malformed id: no store need be asked.
func (c *SealedCall) SessionID() (string, error) {
	if !wire.ValidSessionID(c.id) {
		return "", wire.Refuse(wire.CodeSessionUnknown)
	}
	return c.id, nil
}

// Version is the wire that the call speaks.
func (c *SealedCall) Version() wire.Version { return c.version }

// Check refuses a session that the call may not use: before its body is read, and again when it is opened.
func (c *SealedCall) Check(session *Session, nowMs uint64) error {
	if _, err := c.SessionID(); err != nil {
		return err
	}
	if err := session.check(c.id, c.version, nowMs); err != nil {
		return err
	}
	if c.version == wire.Wire2 && session.record.ClientID != c.clientID {
		return wire.Refuse(wire.CodeClientMismatch)
	}
	return nil
}

// Opened is an opened, fresh request of wires 1 and 2.
type Opened struct {
	// Plaintext is what the client sent.
	Plaintext []byte
	// Reply answers it.
	Reply *Reply
}

// Open opens the body, which it may overwrite. The body may have taken its time: session is what the store has by now, and it and
// the stamp are checked again at nowMs. The plaintext stays shut until its nonce is reserved.
func (c *SealedCall) Open(session *Session, body []byte, nowMs uint64) (*Unreplayed[*Opened], error) {
	if err := c.Check(session, nowMs); err != nil {
		return nil, err
	}
	if err := c.policy.Check(c.stampMs, nowMs); err != nil {
		return nil, err
	}
	var plaintext []byte
	var err error
	reply := &Reply{session: session}
	if c.version == wire.Wire1 {
		reply.path = c.path
		plaintext, err = open1(session.aead, c.detached, aad1("POST", c.path, c.stamp, c.nonce, c.kid), body)
	} else {
		plaintext, err = open2(session.aead, aad2(c.stamp, c.nonce, c.kid, c.clientID), body)
	}
	if err != nil {
		return nil, err
	}
	claim := newClaim(tagSealed, c.id, c.nonce, c.stampMs, nowMs, c.policy)
	return &Unreplayed[*Opened]{claim, &Opened{plaintext, reply}}, nil
}

// Reply is what sealing an answer needs of its request.
type Reply struct {
	session *Session
	path    string
}

// SealRandoms are the random inputs of one sealed message of wires 1 and 2.
type SealRandoms struct {
	IV    [wire.IVLen]byte
	Nonce [16]byte
}

// Seal seals an answer; status is the one that it is sent with, which wire 1 binds. spec/session.md#answer
func (r *Reply) Seal(status int, plaintext []byte, nowMs uint64, random SealRandoms) *Message {
	record := &r.session.record
	stamp, nonce, kid := strconv.FormatUint(nowMs, 10), wire.NonceText(random.Nonce, true), wire.Kid(record.ID)
	if record.Wire == wire.Wire1 {
		return seal1(r.session.aead, strconv.Itoa(status), r.path, stamp, nonce, kid, random.IV, plaintext)
	}
	return seal2(r.session.aead, stamp, nonce, kid, record.ClientID, random.IV, plaintext)
}

// --- Wire 1: spec/session.md#wire-1 ---

// detached is what wire 1 carries in headers.
type detached struct{ iv, tag, aad []byte }

func aad1(subject, path, stamp, nonce, kid string) string {
	return strings.Join([]string{subject, path, stamp, nonce, kid}, "|")
}

func parse1(headers wire.Headers) (nonce, stamp string, parts detached, err error) {
	if nonce, err = wire.Required(headers, wire.HeaderNonce); err != nil {
		return
	}
	if stamp, err = wire.Required(headers, wire.HeaderTimestamp); err != nil {
		return
	}
	alg, err := wire.Required(headers, wire.HeaderEncAlg)
	if err == nil && alg != wire.A256GCM {
		err = &wire.Error{Code: wire.CodeHeaderInvalid, Name: wire.HeaderEncAlg}
	}
	if err != nil {
		return
	}
	// All of them are there before one is decoded.
	type field struct {
		name   string
		length int
		into   *[]byte
	}
	fields := []field{{wire.HeaderIV, wire.IVLen, &parts.iv}, {wire.HeaderTag, wire.TagLen, &parts.tag}, {wire.HeaderAAD, 0, &parts.aad}}
	texts := make([]string, len(fields))
	for i, field := range fields {
		if texts[i], err = wire.Required(headers, field.name); err != nil {
			return
		}
	}
	for i, field := range fields {
		data, invalid := wire.DecodeBase64(texts[i])
		if invalid != nil || field.length > 0 && len(data) != field.length {
			err = &wire.Error{Code: wire.CodeHeaderInvalid, Name: field.name}
			return
		}
		*field.into = data
	}
	return
}

func open1(aead cipher.AEAD, parts detached, aad string, body []byte) ([]byte, error) {
	if string(parts.aad) != aad {
		return nil, wire.Refuse(wire.CodeAADMismatch)
	}
	sealed, err := wire.DecodeBase64(string(body))
	if err != nil {
		return nil, err
	}
	sealed = append(sealed, parts.tag...)
	return openAEAD(aead, parts.iv, sealed, aad)
}

func openAEAD(aead cipher.AEAD, iv, sealed []byte, aad string) ([]byte, error) {
	plaintext, err := aead.Open(sealed[:0], iv, sealed, []byte(aad))
	if err != nil {
		return nil, wire.Refuse(wire.CodeUnsealable)
	}
	return plaintext, nil
}

func seal1(aead cipher.AEAD, subject, path, stamp, nonce, kid string, iv [wire.IVLen]byte, plaintext []byte) *Message {
	aad := aad1(subject, path, stamp, nonce, kid)
	sealed := aead.Seal(nil, iv[:], plaintext, []byte(aad))
	body, tag := sealed[:len(plaintext)], sealed[len(plaintext):]
	return &Message{
		Headers: wire.HeaderList{{Name: wire.HeaderKid, Value: kid}, {Name: wire.HeaderEncAlg, Value: wire.A256GCM},
			{Name: wire.HeaderIV, Value: wire.EncodeBase64(iv[:])}, {Name: wire.HeaderTag, Value: wire.EncodeBase64(tag)},
			{Name: wire.HeaderAAD, Value: wire.EncodeBase64([]byte(aad))}, {Name: wire.HeaderNonce, Value: nonce},
			{Name: wire.HeaderTimestamp, Value: stamp}},
		ContentType: "text/plain; charset=utf-8",
		Body:        []byte(wire.EncodeBase64(body)),
	}
}

// --- Wire 2: spec/session.md#wire-2 ---

func aad2(stamp, nonce, kid, clientID string) string {
	return strings.Join([]string{stamp, nonce, kid, clientID}, "|")
}

func open2(aead cipher.AEAD, aad string, body []byte) ([]byte, error) {
	if len(body) < wire.IVLen+wire.TagLen {
		return nil, wire.Refuse(wire.CodeBodyTooShort)
	}
	return openAEAD(aead, body[:wire.IVLen], body[wire.IVLen:], aad)
}

func seal2(aead cipher.AEAD, stamp, nonce, kid, clientID string, iv [wire.IVLen]byte, plaintext []byte) *Message {
	body := make([]byte, wire.IVLen, wire.IVLen+len(plaintext)+wire.TagLen)
	copy(body, iv[:])
	return &Message{
		Headers:     wire.HeaderList{{Name: wire.HeaderKid, Value: kid}, {Name: wire.HeaderIdempotencyKey, Value: stamp + "." + nonce}},
		ContentType: "application/octet-stream",
		Body:        aead.Seal(body, iv[:], plaintext, []byte(aad2(stamp, nonce, kid, clientID))),
	}
}
