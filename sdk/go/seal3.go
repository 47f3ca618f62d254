package sealway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// sealingWriter seals a handler's answer as it comes: a frame when 64 KiB are there, or when the handler flushes.
type sealingWriter struct {
	middleware *Middleware
	under      http.ResponseWriter
	reply      *session.Reply3
	method     string
	header     http.Header
	clock      *timing
	life       *life3
	status     int
	inner      []byte
	sealer     *session.FrameSealer
	outer      wire.HeaderList
	plain      []byte
	sealed     []byte
	begun      bool // something was sent
	err        error
}

// Header gives the headers that will be within the seal.
func (s *sealingWriter) Header() http.Header { return s.header }

// WriteHeader sets the status, once; what is sent then is still to come.
func (s *sealingWriter) WriteHeader(status int) {
	if s.status != 0 || status < 200 {
		return
	}
	s.status = status
	s.clock.lap("upstream")
	// Headers count as they are now.
	s.header = s.header.Clone()
}

func (s *sealingWriter) bodiless() bool {
	return s.method == http.MethodHead || s.status == 204 || s.status == 205 || s.status == 304
}

// Write takes a part of the body.
func (s *sealingWriter) Write(data []byte) (int, error) {
	if s.status == 0 {
		s.WriteHeader(http.StatusOK)
	}
	if s.bodiless() {
		if s.method == http.MethodHead {
			return len(data), nil
		}
		return 0, http.ErrBodyNotAllowed
	}
	if s.sealer == nil {
		// As net/http does it.
		s.sniff(data)
		if !s.begin() {
			return 0, s.err
		}
	}
	taken := 0
	for len(data) > 0 && s.err == nil {
		room := wire.FrameLenMax - len(s.inner) - len(s.plain)
		if room == 0 {
			s.frame(false)
			continue
		}
		n := min(room, len(data))
		s.plain = append(s.plain, data[:n]...)
		data, taken = data[n:], taken+n
	}
	return taken, s.err
}

func (s *sealingWriter) sniff(data []byte) {
	if _, there := s.header["Content-Type"]; !there && len(data) > 0 {
		s.header.Set("Content-Type", http.DetectContentType(data))
	}
}

// outside says which headers of a handler stand outside too, for those in between.
func outside(lower string) bool {
	return lower == "set-cookie" || lower == "retry-after" || strings.HasPrefix(lower, "access-control-")
}

// begin makes the sealer and the headers. It fails where the handler's headers do not fit into a seal.
func (s *sealingWriter) begin() bool {
	contentType := "application/octet-stream"
	if s.bodiless() {
		contentType = ""
	}
	inner, err := encodeInner(s.header)
	if err == nil {
		s.outer, s.sealer, err = s.reply.Seal(s.status, contentType, s.middleware.nowMs(), random16())
	}
	s.inner, s.err = inner, err
	return err == nil
}

func (s *sealingWriter) head(length int) {
	header := s.under.Header()
	for name, values := range s.header {
		if outside(strings.ToLower(name)) {
			header[name] = values
		}
	}
	header.Set("Cache-Control", "no-store, no-transform")
	for _, pair := range s.outer {
		header.Set(pair.Name, pair.Value)
	}
	if !s.bodiless() {
		header.Set("Content-Type", "application/octet-stream")
		if length >= 0 {
			header.Set("Content-Length", strconv.Itoa(length))
		}
	}
	s.clock.write(header)
	s.begun = true
	s.under.WriteHeader(s.status)
}

// frame seals what is there and sends it.
func (s *sealingWriter) frame(last bool) {
	if s.life.over() {
		s.err = wire.Refuse(wire.CodeSessionExpired)
		return
	}
	sealed, err := s.sealer.Seal(s.sealed[:0], last, s.inner, s.plain)
	if err != nil {
		s.err = err
		return
	}
	if !s.begun {
		length := -1
		if last {
			s.clock.lap("aes-gcm-encrypt")
			length = len(sealed)
		}
		s.head(length)
	}
	s.inner, s.plain, s.sealed = nil, s.plain[:0], sealed
	_, s.err = s.under.Write(sealed)
}

// Flush ends a frame and sends it.
func (s *sealingWriter) Flush() { s.FlushError() }

// FlushError is Flush, and says what went wrong.
func (s *sealingWriter) FlushError() error {
	if s.status == 0 {
		s.WriteHeader(http.StatusOK)
	}
	if s.bodiless() {
		return nil
	}
	if s.sealer == nil && !s.begin() {
		return s.err
	}
	if len(s.inner)+len(s.plain) > 0 && s.err == nil {
		s.frame(false)
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

// finish sends the last frame.
func (s *sealingWriter) finish() {
	if s.status == 0 {
		s.WriteHeader(http.StatusOK)
	}
	if s.sealer == nil && s.err == nil {
		s.begin()
	}
	if s.err == nil && s.bodiless() {
		stream, err := s.sealer.SealWhole(nil, s.inner, nil)
		if text := wire.EncodeBase64(stream); err == nil && len(text) <= wire.SealedHeaderMax {
			s.outer = append(s.outer, wire.Header{Name: wire.HeaderSealed, Value: text})
			s.head(-1)
			return
		}
		s.err = wire.Refuse(wire.CodeInnerHeadersInvalid)
	}
	if s.err == nil {
		s.frame(true)
	}
	if s.err != nil && !s.begun {
		s.middleware.problem(s.under, "upstream_unreachable", s.err, nil)
	}
}
