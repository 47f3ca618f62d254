package session

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// fields builds what wire 3 hashes: a sequence of lengths and values. spec/session-3.md#encodings
type fields []byte

func (f fields) text(value string) fields {
	return append(binary.BigEndian.AppendUint32(f, uint32(len(value))), value...)
}

func (f fields) bytes(value []byte) fields {
	return append(binary.BigEndian.AppendUint32(f, uint32(len(value))), value...)
}

func (f fields) number(value uint64) fields {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(f, 8), value)
}

func (f fields) list(values []string) fields {
	var inner fields
	for _, value := range values {
		inner = inner.text(value)
	}
	return f.bytes(inner)
}

// sessionKeys are the keys of one prk that calls use, and what each message's are expanded by.
type sessionKeys struct {
	c2s, s2c          [32]byte
	requests, answers crypto.Expander
}

func deriveSessionKeys(prk Key) (k sessionKeys) {
	from := crypto.NewExpander(prk[:])
	defer from.Wipe()
	from.Expand(k.c2s[:], []byte("sealway/3 c2s"))
	from.Expand(k.s2c[:], []byte("sealway/3 s2c"))
	k.requests, k.answers = crypto.NewExpander(k.c2s[:]), crypto.NewExpander(k.s2c[:])
	return k
}

func (k *sessionKeys) wipe() {
	clear(k.c2s[:])
	clear(k.s2c[:])
	k.requests.Wipe()
	k.answers.Wipe()
}

// String shows nothing.
func (sessionKeys) String() string { return "keys(redacted)" }

// Format is String, whatever the verb: no verb shows a key.
func (v sessionKeys) Format(state fmt.State, _ rune) { io.WriteString(state, v.String()) }

func confirmation(prk Key, th [32]byte) []byte {
	key := crypto.Expand(prk[:], 32, []byte("sealway/3 confirm"))
	defer clear(key)
	return crypto.HMAC(key, th[:])
}

// messageKeys are those of one stream: key (32) ‖ iv (12) ‖ commit (16).
type messageKeys [60]byte

func (k *sessionKeys) request(nonce, stamp string) (keys messageKeys) {
	var space [256]byte
	k.requests.Expand(keys[:], fields(space[:0]).text("sealway/3 request").text(nonce).text(stamp))
	return keys
}

func (k *sessionKeys) answer(requestNonce, nonce string) (keys messageKeys) {
	var space [512]byte
	k.answers.Expand(keys[:], fields(space[:0]).text("sealway/3 answer").text(requestNonce).text(nonce))
	return keys
}

// Line is method and target (path and query) of a request, as sent.
type Line struct{ Method, Target string }

func requestContext(line Line, contentType, stamp, nonce, id string) [32]byte {
	var space [512]byte
	return sha256.Sum256(fields(space[:0]).text("sealway/3 request context").text(line.Method).text(line.Target).text(contentType).
		text(stamp).text(nonce).text(id))
}

func answerContext(status int, line Line, contentType, stamp, nonce, id string) [32]byte {
	var space [512]byte
	return sha256.Sum256(fields(space[:0]).text("sealway/3 answer context").number(uint64(status)).text(line.Method).text(line.Target).
		text(contentType).text(stamp).text(nonce).text(id))
}

func clockMAC(keys *sessionKeys, nonce, stamp string, serverTimeMs uint64) []byte {
	key := crypto.Expand(keys.s2c[:], 32, []byte("sealway/3 clock"))
	defer clear(key)
	return crypto.HMAC(key, fields(nil).text(nonce).text(stamp).number(serverTimeMs))
}

// chosen returns the first of the client's list that is in the server's.
func chosen(client []string, server []string) string {
	for _, suite := range client {
		for _, other := range server {
			if suite == other {
				return suite
			}
		}
	}
	return ""
}

func fieldInvalid(name string) error { return &wire.Error{Code: wire.CodeFieldInvalid, Name: name} }
