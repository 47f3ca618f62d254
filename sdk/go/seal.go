package sealway

import (
	"crypto/rand"
	"net/http"
	"time"

	"sealway.dev/go/internal/exchange"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// sealingWriter seals a handler's answer: as it comes, a frame when 64 KiB are there or when the handler flushes, or as a whole.
type sealingWriter struct {
	middleware *Middleware
	under      http.ResponseWriter
	reply      *exchange.Reply
	isHead     bool
	header     http.Header
	start      time.Time
	clock      *laps
	cut        *cut
	seal       *exchange.AnswerSeal // nil before the status
	taken      int64
	begun      bool
	sent       bool
	err        error
}

// forHandler hides from a handler what an answer that is sealed as a whole cannot do.
func (s *sealingWriter) forHandler() http.ResponseWriter {
	if s.reply.Whole() {
		return struct{ http.ResponseWriter }{s}
	}
	return s
}

// Header returns the headers of the answer.
func (s *sealingWriter) Header() http.Header { return s.header }

// WriteHeader sets the status, once; what is sent then is still to come.
func (s *sealingWriter) WriteHeader(status int) {
	if s.seal == nil && status >= 200 {
		s.seal = s.reply.Answer(status, s.isHead)
		// Headers count as they are now.
		s.header = s.header.Clone()
	}
}

// begin seals the headers, once.
func (s *sealingWriter) begin() {
	if !s.begun {
		s.begun = true
		s.err = s.seal.Begin(headerList(s.header))
	}
}

// Write takes a part of the body.
func (s *sealingWriter) Write(data []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	if s.seal.Bodyless {
		if s.isHead {
			return len(data), nil
		}
		return 0, http.ErrBodyNotAllowed
	}
	if _, there := s.header["Content-Type"]; !there && !s.begun && len(data) > 0 {
		// As net/http does it.
		s.header.Set("Content-Type", http.DetectContentType(data))
	}
	s.begin()
	if s.taken += int64(len(data)); s.reply.Whole() && s.taken > s.middleware.config.AnswerMaxBytes && s.err == nil {
		s.err = exchange.Unanswered.Because(&TooLargeError{Message: "the answer of the handler", Max: s.middleware.config.AnswerMaxBytes})
	}
	taken := 0
	for taken < len(data) && s.err == nil {
		n := s.seal.Take(data[taken:])
		if taken += n; n == 0 {
			s.send(false)
		}
	}
	return taken, s.err
}

// send seals what was taken and sends it.
func (s *sealingWriter) send(last bool) {
	if !s.cut.passes() {
		s.err = wire.Refuse(wire.CodeSessionExpired)
		return
	}
	var random session.SealRandoms
	if !s.sent {
		s.clock.named("upstream")
		rand.Read(random.IV[:])
		rand.Read(random.Nonce[:])
	}
	head, piece, err := s.seal.Seal(last, s.middleware.nowMs(), random)
	if err != nil {
		s.err = err
		return
	}
	if !s.sent {
		s.sent = true
		s.clock.named("aes-gcm-encrypt")
		putHeaders(s.under.Header(), head)
		s.under.Header().Set("Server-Timing", s.clock.serverTiming(s.start))
		s.under.WriteHeader(s.seal.Status)
	}
	if len(piece) > 0 {
		_, s.err = s.under.Write(piece)
	}
}

// finish sends the last frame, or all of an answer that is sealed as a whole. Its error is that of an answer of which nothing was sent.
func (s *sealingWriter) finish() error {
	s.WriteHeader(http.StatusOK)
	s.begin()
	if s.err == nil {
		s.send(true)
	}
	if s.sent {
		return nil
	}
	return s.err
}

// Flush ends a frame and sends it.
func (s *sealingWriter) Flush() { s.FlushError() }

// FlushError is Flush, and says what went wrong.
func (s *sealingWriter) FlushError() error {
	s.WriteHeader(http.StatusOK)
	if s.seal.Bodyless {
		return nil
	}
	s.begin()
	if s.err == nil && s.seal.HasTaken() {
		s.send(false)
	}
	if s.err == nil {
		s.err = http.NewResponseController(s.under).Flush()
	}
	return s.err
}

// EnableFullDuplex lets a handler read on after it began to answer, over HTTP/1 too. [http.ResponseController] finds it.
func (s *sealingWriter) EnableFullDuplex() error {
	return http.NewResponseController(s.under).EnableFullDuplex()
}

// SetWriteDeadline bounds the writes of the answer. [http.ResponseController] finds it.
func (s *sealingWriter) SetWriteDeadline(deadline time.Time) error {
	return http.NewResponseController(s.under).SetWriteDeadline(deadline)
}
