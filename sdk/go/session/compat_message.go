package session

import (
	"crypto/cipher"
	"strings"

	"sealway.dev/go/wire"
)

// Message is a sealed request or answer of wires 1 and 2: the headers that it needs, and its body.
type Message struct {
	Headers     wire.HeaderList
	ContentType string
	Body        []byte
}

// SealRandoms are the random inputs of one sealed message of wires 1 and 2.
type SealRandoms struct {
	IV    [wire.IVLen]byte
	Nonce [16]byte
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
