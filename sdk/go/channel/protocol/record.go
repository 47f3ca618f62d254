package protocol

import (
	"errors"
	"fmt"
	"io"
)

// Kind is what a record says.
type Kind byte

// The kinds of records. flowersec-v1 has data, ping and rekey.
const (
	Data Kind = 1 + iota
	Ping
	Pong
	Rekey
	Close
)

// Content is what a record holds.
type Content struct {
	Kind Kind
	// Data is the bytes of the stream, of Data alone.
	Data []byte
	// Number is a ping's, and of the pong that answers it; 0 in flowersec-v1.
	Number uint64
	// Code and Reason are why a channel is closed: 0 is an orderly end; the text has at most 123 bytes.
	Code   uint16
	Reason string
}

type recordSealer interface {
	contentMax() int
	seal(dst []byte, content *Content, nowMS uint64) ([]byte, error)
}

type recordOpener interface {
	open(message []byte) (Content, error)
}

// Sealer seals what this side sends: one for a connection, for its life, and for one goroutine at a time.
type Sealer struct {
	inner recordSealer
	over  bool
}

// Opener opens what the peer sends: one for a connection, for its life, and for one goroutine at a time.
type Opener struct {
	inner recordOpener
	over  bool
}

// ContentMax is the most bytes that one data record holds.
func (s *Sealer) ContentMax() int { return s.inner.contentMax() }

// Seal appends one whole record to dst. The native profile changes its key by itself, by the count and by nowMS, which may be
// of any clock that does not go backwards. content_unsupported and content_too_large use up nothing; any other error, and a
// close, are the sealer's end.
func (s *Sealer) Seal(dst []byte, content *Content, nowMS uint64) ([]byte, error) {
	if s.over {
		return dst, fail(ChannelClosed)
	}
	out, err := s.inner.seal(dst, content, nowMS)
	if err != nil {
		s.over = !errors.Is(err, &Error{Code: ContentUnsupported}) && !errors.Is(err, &Error{Code: ContentTooLarge})
		return dst, err
	}
	s.over = content.Kind == Close
	return out, nil
}

// Open opens one whole message where it lies: Data of what it gives is a part of message. After an error, and after a close,
// every further record is channel_closed.
func (o *Opener) Open(message []byte) (Content, error) {
	if o.over {
		return Content{}, fail(ChannelClosed)
	}
	// Until the record has proved itself: no way out of here leaves a broken channel open.
	o.over = true
	content, err := o.inner.open(message)
	if err != nil {
		return Content{}, err
	}
	o.over = content.Kind == Close
	return content, nil
}

// Format prints no key.
func (*Sealer) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, "Sealer("+redacted+")") }

// Format prints no key.
func (*Opener) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, "Opener("+redacted+")") }
