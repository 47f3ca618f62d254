package session

import (
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"io"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

const (
	commitLen  = 16
	prefixLen  = 4
	lastFlag   = 1 << 31
	framesMax  = 1 << 32
	frameExtra = prefixLen + wire.TagLen
)

// stream is what sealer and opener share.
type stream struct {
	aead    cipher.AEAD
	iv      [wire.IVLen]byte
	context [32]byte
	count   uint64
	done    bool
}

func newStream(keys *messageKeys, context [32]byte) (stream, error) {
	aead, err := crypto.NewAEAD(keys[:32])
	return stream{aead: aead, iv: [12]byte(keys[32:44]), context: context}, err
}

func (s *stream) nonce(last bool) (nonce [wire.IVLen]byte) {
	if last {
		nonce[3] = 1
	}
	binary.BigEndian.PutUint64(nonce[4:], s.count)
	for i := range nonce {
		nonce[i] ^= s.iv[i]
	}
	return nonce
}

// FrameSealer writes the frames of one message of wires 3 and 4, in order. spec/session-3.md#sealed-requests
type FrameSealer struct {
	stream
	commit [commitLen]byte
	lead   []byte // of wire 4, in front of the commit
}

// newFrameSealer wipes the keys.
func newFrameSealer(keys *messageKeys, context [32]byte) (*FrameSealer, error) {
	defer clear(keys[:])
	s, err := newStream(keys, context)
	return &FrameSealer{stream: s, commit: [commitLen]byte(keys[44:])}, err
}

// Seal appends one frame, of the parts one after the other, to dst. Together they have at most 64 KiB, and at least a byte
// unless the frame is the last. The first frame stands behind the commit and begins with the inner headers.
func (s *FrameSealer) Seal(dst []byte, last bool, parts ...[]byte) ([]byte, error) {
	length := 0
	for _, part := range parts {
		length += len(part)
	}
	if s.done || length > wire.FrameLenMax || length == 0 && !last || s.count >= framesMax {
		return dst, wire.Refuse(wire.CodeFrameInvalid)
	}
	if s.count == 0 {
		dst = append(append(dst, s.lead...), s.commit[:]...)
	}
	word := uint32(length + wire.TagLen)
	if last {
		word |= lastFlag
	}
	dst = binary.BigEndian.AppendUint32(dst, word)
	nonce, start := s.nonce(last), len(dst)
	if len(parts) == 1 {
		dst = s.aead.Seal(dst, nonce[:], parts[0], s.context[:])
	} else {
		for _, part := range parts {
			dst = append(dst, part...)
		}
		dst = s.aead.Seal(dst[:start], nonce[:], dst[start:], s.context[:])
	}
	s.count, s.done = s.count+1, last
	return dst, nil
}

// SealWhole appends a whole stream, in full frames: the inner headers, encoded, and the body.
func (s *FrameSealer) SealWhole(dst, inner, body []byte) ([]byte, error) {
	room := wire.FrameLenMax - len(inner)
	if room < 0 {
		return dst, wire.Refuse(wire.CodeInnerHeadersInvalid)
	}
	head := body[:min(room, len(body))]
	if odd := len(body) % wire.FrameLenMax; odd <= room {
		// The rest are full frames, which are sealed without a copy; their number does not grow by it.
		head = body[:odd]
	}
	body = body[len(head):]
	dst, err := s.Seal(dst, len(body) == 0, inner, head)
	for err == nil && len(body) > 0 {
		frame := body[:min(wire.FrameLenMax, len(body))]
		body = body[len(frame):]
		dst, err = s.Seal(dst, len(body) == 0, frame)
	}
	return dst, err
}

// StreamLen is how long the stream of so many bytes of plaintext, inner headers and all, is in full frames.
func (s *FrameSealer) StreamLen(plaintext int) int { return len(s.lead) + StreamLen(plaintext) }

// StreamLen is the length of such a stream of wire 3. On wire 4 [OneShot.LeadLen] is added.
func StreamLen(plaintext int) int {
	frames := max(1, (plaintext+wire.FrameLenMax-1)/wire.FrameLenMax)
	return commitLen + frames*frameExtra + plaintext
}

// String shows nothing.
func (s *FrameSealer) String() string { return "FrameSealer(redacted)" }

// Format is String, whatever the verb: no verb shows a key.
func (s *FrameSealer) Format(state fmt.State, _ rune) { io.WriteString(state, s.String()) }

// FrameOpener reads the frames of one message of wires 3 and 4.
type FrameOpener struct {
	stream
	want, sent [commitLen]byte
	// pending holds what of commit, prefix or frame has come.
	pending []byte
	length  int // of the frame that is awaited, with its tag; 0 before its prefix
	begun   bool
	last    bool
	single  bool // for a stream in X-Sealed, which has one frame
	problem bool
}

// newFrameOpener wipes the keys.
func newFrameOpener(keys *messageKeys, context [32]byte, single bool) (*FrameOpener, error) {
	defer clear(keys[:])
	s, err := newStream(keys, context)
	return &FrameOpener{stream: s, want: [commitLen]byte(keys[44:]), single: single}, err
}

// fill moves input to pending until it has n bytes; it gives the n bytes, without a copy where input alone has them.
func (o *FrameOpener) fill(input *[]byte, n int) []byte {
	if len(o.pending) == 0 && len(*input) >= n {
		whole := (*input)[:n]
		*input = (*input)[n:]
		return whole
	}
	take := min(n-len(o.pending), len(*input))
	o.pending = append(o.pending, (*input)[:take]...)
	*input = (*input)[take:]
	if len(o.pending) < n {
		return nil
	}
	whole := o.pending
	o.pending = o.pending[:0]
	return whole
}

// Read takes bytes from input and appends the plaintext of at most one frame to dst. complete says that a frame came to its
// end; without it all of input was taken. A byte behind the last frame is frame_invalid; a first frame in X-Sealed that is not the last is
// stream_truncated.
func (o *FrameOpener) Read(input *[]byte, dst []byte) (out []byte, complete bool, err error) {
	if o.done {
		if len(*input) > 0 {
			return dst, false, wire.Refuse(wire.CodeFrameInvalid)
		}
		return dst, false, nil
	}
	if !o.begun {
		commit := o.fill(input, commitLen)
		if commit == nil {
			return dst, false, nil
		}
		o.sent, o.begun = [commitLen]byte(commit), true
	}
	if o.length == 0 {
		prefix := o.fill(input, prefixLen)
		if prefix == nil {
			return dst, false, nil
		}
		word := binary.BigEndian.Uint32(prefix)
		o.last, o.length = word&lastFlag != 0, int(word&^lastFlag)
		if o.length < wire.TagLen || o.length > wire.FrameLenMax+wire.TagLen || o.length == wire.TagLen && !o.last || o.count >= framesMax {
			return dst, false, wire.Refuse(wire.CodeFrameInvalid)
		}
	}
	sealed := o.fill(input, o.length)
	if sealed == nil {
		return dst, false, nil
	}
	nonce, start := o.nonce(o.last), len(dst)
	// The tag is computed whether or not the commit is right: no answer comes sooner for it.
	out, err = o.aead.Open(dst, nonce[:], sealed, o.context[:])
	if !crypto.Equal(o.want[:], o.sent[:]) || err != nil {
		if err == nil {
			clear(out[start:])
		}
		return dst[:start], false, wire.Refuse(wire.CodeUnsealable)
	}
	if o.single && !o.last {
		clear(out[start:])
		return dst[:start], false, wire.Refuse(wire.CodeStreamTruncated)
	}
	o.count, o.length, o.done = o.count+1, 0, o.last
	return out, true, nil
}

// IsProblem says whether the nonce of an answer of wire 4 is that of a problem of the server, and not of the service's answer.
func (o *FrameOpener) IsProblem() bool { return o.problem }

// Done says whether the last frame has opened.
func (o *FrameOpener) Done() bool { return o.done }

// End refuses an end of input before the last frame: stream_truncated.
func (o *FrameOpener) End() error {
	if !o.done {
		return wire.Refuse(wire.CodeStreamTruncated)
	}
	return nil
}

// String shows nothing.
func (o *FrameOpener) String() string { return "FrameOpener(redacted)" }

// Format is String, whatever the verb: no verb shows a key.
func (o *FrameOpener) Format(state fmt.State, _ rune) { io.WriteString(state, o.String()) }

// OpenWhole opens a stream that is there: inner headers, and the body.
func (o *FrameOpener) OpenWhole(input []byte) (wire.HeaderList, []byte, error) {
	var inner wire.HeaderList
	body := make([]byte, 0, len(input))
	first := true
	for first || len(input) > 0 {
		out, complete, err := o.Read(&input, body)
		if err != nil {
			return nil, nil, err
		}
		body = out
		if !complete {
			break
		}
		if first {
			headers, rest, err := DecodeInner(body)
			if err != nil {
				return nil, nil, err
			}
			inner, body, first = headers, rest, false
		}
	}
	return inner, body, o.End()
}
