package sealway

import (
	"errors"
	"io"
	"net/http"
	"time"

	"sealway.dev/go/internal/exchange"
	"sealway.dev/go/wire"
)

// sealedBody is the body of a sealed request as its handler reads it: pieces are opened as they come. One that breaks is an error of
// Read, never a short body.
type sealedBody struct {
	stream  *exchange.Stream
	source  io.Reader
	under   http.ResponseWriter
	request *http.Request
	held    *holding // bytes of pieces that have not opened yet
	wait    time.Duration
	left    int64 // of the bound
	raw     []byte
	input   []byte
	ready   []byte
	ended   bool      // the source is at its end
	until   time.Time // when the piece that is awaited has to be there; zero while none is
	cut     *cut
	failed  error
}

// begin returns the first piece of a stream of at most limit bytes, all of it in the time of one piece.
func (b *sealedBody) begin(stream *exchange.Stream, limit int64) (*exchange.Piece, error) {
	b.stream, b.left = stream, limit
	b.await()
	if stream.InHeader != nil {
		// Only an end says that there is no body.
		if _, err := io.ReadFull(b.source, make([]byte, 1)); !errors.Is(err, io.EOF) {
			return nil, &wire.Error{Code: wire.CodeHeaderInvalid, Name: wire.HeaderSealed}
		}
		b.input, b.ended = stream.InHeader, true
	} else if b.request.ContentLength > limit {
		return nil, wire.Refuse(wire.CodeBodyTooLarge)
	}
	return b.piece()
}

// await gives what is still to come one time to arrive in: a byte now and then is no progress. A wait in a wait has the time of the
// first. What no handler reads net/http does, before it answers.
func (b *sealedBody) await() {
	if b.until.IsZero() && !b.ended {
		b.until = time.Now().Add(b.wait)
		boundBody(b.under, b.request, b.wait)
	}
}

// piece returns the next piece, and ends the wait for it. After a failure the wait goes on: what is left of the body is not waited for.
func (b *sealedBody) piece() (piece *exchange.Piece, err error) {
	for piece == nil && err == nil {
		switch {
		case len(b.input) > 0:
			piece, err = b.stream.Read(&b.input)
		case b.ended:
			piece, err = b.stream.End()
		default:
			err = b.receive()
		}
	}
	if err == nil && !b.until.IsZero() {
		b.until = time.Time{}
		freeBody(b.under)
	}
	return piece, err
}

// receive reads a part of the sealed body.
func (b *sealedBody) receive() error {
	if b.raw == nil {
		// Nothing is held for what was only announced.
		b.raw = make([]byte, 512)
	} else if len(b.raw) == 512 {
		b.raw = rawBuffer(b.request.ContentLength)
	}
	b.await()
	n, err := b.source.Read(b.raw)
	if b.left -= int64(n); b.left < 0 {
		return wire.Refuse(wire.CodeBodyTooLarge)
	}
	if err := b.held.grow(n); err != nil {
		return err
	}
	b.input, b.ended = b.raw[:n], errors.Is(err, io.EOF)
	if !b.ended && (err != nil || time.Now().After(b.until)) {
		// Not every server keeps deadlines of its own.
		return wire.Refuse(wire.CodeStreamTruncated)
	}
	return nil
}

func (b *sealedBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(b.ready) == 0 {
		if b.failed != nil {
			return 0, b.failed
		}
		if b.stream.Done() {
			return 0, io.EOF
		}
		piece, err := b.piece()
		if b.cut.over() {
			err = wire.Refuse(wire.CodeSessionExpired)
		}
		if b.failed = err; err == nil {
			b.held.keep(len(b.input))
			b.ready = piece.Bytes
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

func (b *sealedBody) Close() error { return nil }

// release forgets what was opened.
func (b *sealedBody) release() {
	b.stream.Wipe()
	b.held.keep(0)
}
