package session

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// fields builds what wires 3 and 4 hash: a sequence of lengths and values. spec/session-3.md#encodings
type fields []byte

func (f fields) text(value string) fields {
	return append(binary.BigEndian.AppendUint32(f, uint32(len(value))), value...)
}

// label appends the label of a wire, such as "sealway/3 request".
func (f fields) label(of wire.Version, name string) fields {
	f = binary.BigEndian.AppendUint32(f, uint32(len("sealway/3 ")+len(name)))
	return append(append(append(f, "sealway/"...), '0'+byte(of), ' '), name...)
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

// sessionKeys are the keys of one prk, or of one request of wire 4, that calls use, and what each message's are expanded by.
type sessionKeys struct {
	c2s, s2c          [32]byte
	requests, answers crypto.Expander
}

func deriveSessionKeys(prk Key) (k sessionKeys) {
	from := crypto.NewExpander(prk[:])
	defer from.Wipe()
	from.Expand(k.c2s[:], []byte("sealway/3 c2s"))
	from.Expand(k.s2c[:], []byte("sealway/3 s2c"))
	k.ready()
	return k
}

// ready hashes the blocks of c2s and s2c.
func (k *sessionKeys) ready() {
	k.requests, k.answers = crypto.NewExpander(k.c2s[:]), crypto.NewExpander(k.s2c[:])
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

func (k *sessionKeys) request(on wire.Version, nonce, stamp string) (keys messageKeys) {
	var space [256]byte
	k.requests.Expand(keys[:], fields(space[:0]).label(on, "request").text(nonce).text(stamp))
	return keys
}

func (k *sessionKeys) answer(on wire.Version, requestNonce, nonce string) (keys messageKeys) {
	var space [512]byte
	k.answers.Expand(keys[:], fields(space[:0]).label(on, "answer").text(requestNonce).text(nonce))
	return keys
}

// Line is method and target (path and query) of a request, as sent.
type Line struct{ Method, Target string }

// binding names the keys of a message: its wire, and the session's id or on wire 4 the key's name.
type binding struct {
	version wire.Version
	id      string
}

func (b binding) kid() string { return b.version.KidPrefix() + b.id }

// headers has room for one more.
func (b binding) headers(idempotencyKey string) wire.HeaderList {
	return append(make(wire.HeaderList, 0, 4), wire.Header{Name: wire.HeaderSeal, Value: strconv.Itoa(int(b.version))}, wire.Header{Name: wire.HeaderKid, Value: b.kid()},
		wire.Header{Name: wire.HeaderIdempotencyKey, Value: idempotencyKey})
}

func (b binding) requestContext(line Line, contentType, stamp, nonce string) [32]byte {
	var space [512]byte
	return sha256.Sum256(fields(space[:0]).label(b.version, "request context").text(line.Method).text(line.Target).text(contentType).
		text(stamp).text(nonce).text(b.id))
}

func (b binding) answerContext(status int, line Line, contentType, stamp, nonce string) [32]byte {
	var space [512]byte
	return sha256.Sum256(fields(space[:0]).label(b.version, "answer context").number(uint64(status)).text(line.Method).text(line.Target).
		text(contentType).text(stamp).text(nonce).text(b.id))
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
