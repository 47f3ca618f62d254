package exchange

import (
	"errors"
	"fmt"
	"strconv"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// Reply is what sealing an answer needs of its request: as a whole, or frame by frame as it comes.
type Reply struct{ *session.Reply }

// AnswerSeal seals one answer. Take has parts of its body, and Seal seals what was taken; Begin goes before both.
type AnswerSeal struct {
	// Status is the one that the answer is sent with.
	Status int
	// Bodyless says that the answer has no body.
	Bodyless bool
	reply    *Reply
	refused  error
	inner    []byte
	outer    wire.HeaderList
	sealer   *session.FrameSealer
	plain    []byte
	sealed   []byte
}

// Answer says how a service's answer of this status is sealed; isHead if it answers a HEAD. One that may not be sealed is taken all the
// same, and Seal returns the rejection for its client. spec/session.md#answer spec/session-3.md#sealed-answers
func (r *Reply) Answer(status int, isHead bool) *AnswerSeal {
	seal := &AnswerSeal{reply: r, Status: status}
	switch {
	case !r.Whole():
		seal.Bodyless = isHead || status == 204 || status == 205 || status == 304
	case status/100 == 2:
		seal.Status = 200
	case status == 400 || status == 422:
		seal.refused = Unreadable.Because(fmt.Errorf("sealway: the handler answered %d", status))
	case status == 304:
		// Without a body there is nothing to seal, and an unsealed answer proves nothing.
		seal.refused = Unanswered.Because(errors.New("sealway: the handler answered 304 to a POST"))
	}
	return seal
}

// Begin takes the service's headers, once: into the seal, where the protocol seals headers.
func (s *AnswerSeal) Begin(headers wire.HeaderList) (err error) {
	if !s.reply.Whole() {
		if s.inner, err = InnerOf(headers); err != nil {
			err = Unanswered.Because(err)
		}
	}
	s.outer = answerHeaders(headers, !s.reply.Whole())
	return err
}

// Take takes a part of the body, and gives how much of it: less than all where what was taken is to be sealed first.
func (s *AnswerSeal) Take(data []byte) int {
	if !s.reply.Whole() {
		data = data[:min(len(data), wire.FrameLenMax-len(s.inner)-len(s.plain))]
	}
	s.plain = append(s.plain, data...)
	return len(data)
}

// HasTaken says whether there is something to seal.
func (s *AnswerSeal) HasTaken() bool { return len(s.inner)+len(s.plain) > 0 }

// Seal seals what was taken, last if the answer ends with it; one that is sealed as a whole is sealed with its end alone. The first
// call has the head of the answer too, by the stamp nowMs and these random inputs. The piece is good until the next call.
func (s *AnswerSeal) Seal(last bool, nowMs uint64, random session.SealRandoms) (head wire.HeaderList, piece []byte, err error) {
	switch {
	case s.refused != nil:
		return nil, nil, s.refused
	case s.reply.Whole():
		message := s.reply.Seal(s.Status, s.plain, nowMs, random)
		return s.head(message.Headers, message.ContentType, len(message.Body), true), message.Body, nil
	}
	first, contentType := s.sealer == nil, "application/octet-stream"
	if s.Bodyless {
		contentType = ""
	}
	if first {
		if head, s.sealer, err = s.reply.SealFrames(s.Status, contentType, nowMs, random.Nonce); err != nil {
			return nil, nil, Unanswered.Because(err)
		}
	}
	if s.sealed, err = s.sealer.Seal(s.sealed[:0], last, s.inner, s.plain); err != nil {
		return nil, nil, Unanswered.Because(err)
	}
	s.inner, s.plain, piece = nil, s.plain[:0], s.sealed
	if s.Bodyless {
		text := wire.EncodeBase64(piece)
		if len(text) > wire.SealedHeaderMax {
			return nil, nil, Unanswered.Because(wire.Refuse(wire.CodeInnerHeadersInvalid))
		}
		head, piece = append(head, wire.Header{Name: wire.HeaderSealed, Value: text}), nil
	}
	if first {
		head = s.head(head, contentType, len(piece), last)
	}
	return head, piece, nil
}

// head is all headers of the answer: those of the service that stay outside, those of the seal, and of the body where there is one.
func (s *AnswerSeal) head(seal wire.HeaderList, contentType string, length int, last bool) wire.HeaderList {
	head := append(append(s.outer, wire.Header{Name: "Cache-Control", Value: "no-store, no-transform"}), seal...)
	if contentType != "" {
		head = append(head, wire.Header{Name: "Content-Type", Value: contentType})
	}
	if contentType != "" && last {
		head = append(head, wire.Header{Name: "Content-Length", Value: strconv.Itoa(length)})
	}
	return head
}
