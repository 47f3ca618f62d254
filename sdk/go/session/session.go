package session

import (
	"crypto/cipher"
	"fmt"
	"io"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// Session is a server's record made ready for use; safe for concurrent use.
type Session struct {
	record Record
	aead   cipher.AEAD // wires 1 and 2
	keys   sessionKeys // wire 3
}

// NewSession expands the keys of a record.
func NewSession(record *Record) (*Session, error) {
	session := &Session{record: *record}
	if record.Wire == wire.Wire3 {
		session.keys = deriveSessionKeys(record.Key)
		return session, nil
	}
	var err error
	session.aead, err = crypto.NewAEAD(record.Key[:])
	return session, err
}

// Record returns the record; it is not to be changed.
func (s *Session) Record() *Record { return &s.record }

// String shows the id alone.
func (s *Session) String() string { return "Session(" + s.record.ID + ")" }

// Format is String, whatever the verb: no verb shows a key.
func (s *Session) Format(state fmt.State, _ rune) { io.WriteString(state, s.String()) }

// check is what every wire asks of a session before its tag: id, expiry, wire.
func (s *Session) check(id string, version wire.Version, nowMs uint64) error {
	switch {
	case id != s.record.ID:
		return wire.Refuse(wire.CodeSessionUnknown)
	case s.record.Expired(nowMs):
		return wire.Refuse(wire.CodeSessionExpired)
	case s.record.Wire != version:
		return wire.Refuse(wire.CodeWireMismatch)
	}
	return nil
}
