package channel

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"sealway.dev/go/channel/rpc/frame"
)

// finishTime is how long a peer may go on sending on a stream that this side has closed.
const finishTime = 10 * time.Second

// Stream is bytes both ways within a channel. It is a net.Conn whose directions end apart.
type Stream struct {
	stream   *yamux.Stream
	channel  *Channel
	prologue frame.Prologue
	// isFinished and isReset are what this side did with the stream.
	isFinished, isReset atomic.Bool
}

var _ net.Conn = (*Stream)(nil)

// Kind returns the kind that the opener of the stream gave it.
func (s *Stream) Kind() string { return s.prologue.Kind }

// Version is that of the kind, at least 1.
func (s *Stream) Version() uint32 { return s.prologue.Version }

// ID is the stream's number on the channel: odd where the client opened it.
func (s *Stream) ID() uint32 { return s.stream.StreamID() }

// Done is closed when the stream's channel is over; what had come before may still be read.
func (s *Stream) Done() <-chan struct{} { return s.channel.Done() }

// Read gives what the peer sent; io.EOF after its orderly end alone.
func (s *Stream) Read(into []byte) (int, error) {
	read, err := s.stream.Read(into)
	if err == io.EOF && (s.isReset.Load() || !s.hasEnded()) {
		// The library gives the end of the channel out as the end of the stream.
		return read, s.brokenOff(io.ErrUnexpectedEOF)
	}
	return read, s.told(err)
}

// brokenOff is why the channel is over, or that this side broke off the stream.
func (s *Stream) brokenOff(cause error) error {
	if why := s.channel.gate.err(); why != nil && !s.isReset.Load() {
		return why
	}
	return caused(cause, StageStream, "broken_off", "the stream was reset")
}

// hasEnded says whether the peer has finished its direction.
func (s *Stream) hasEnded() bool {
	ends := s.channel.gate.endsOf(s.ID())
	return ends == nil || ends.there.Load()
}

// Write sends bytes, as far as the peer has room for them, in frames that fill a record.
func (s *Stream) Write(from []byte) (int, error) {
	written := 0
	for written < len(from) {
		part := from[written:min(len(from), written+frameMax)]
		sent, err := s.stream.Write(part)
		written += sent
		if err != nil {
			return written, s.told(err)
		}
	}
	return written, nil
}

func (s *Stream) told(err error) error {
	switch {
	case err == nil || err == io.EOF:
		return err
	case errors.Is(err, yamux.ErrTimeout):
		return caused(os.ErrDeadlineExceeded, StageStream, "timeout", "the stream's deadline has passed")
	case errors.Is(err, yamux.ErrConnectionReset):
		return caused(err, StageStream, "broken_off", "the stream was reset")
	case errors.Is(err, yamux.ErrStreamClosed) && s.isFinished.Load():
		return caused(net.ErrClosed, StageStream, "broken_off", "this direction of the stream is finished")
	case errors.Is(err, yamux.ErrStreamClosed):
		// The library closes every stream of a channel that is over.
		return s.brokenOff(net.ErrClosed)
	}
	return s.channel.over(err)
}

// CloseWrite finishes this side's direction; the peer's goes on. The error says why the peer may not have all that was written:
// without it, the end of the stream is behind the last byte that was written.
func (s *Stream) CloseWrite() error {
	if s.isFinished.Swap(true) {
		return nil
	}
	ends := s.channel.gate.endsOf(s.ID())
	err := s.stream.Close()
	if err == nil && !ends.hasFinished() {
		// The library says nothing where a stream is closed already, with its channel or by a reset.
		return s.brokenOff(net.ErrClosed)
	}
	return s.told(err)
}

// Close finishes the stream, as CloseWrite does. What was written still arrives; a peer that sends on for more than 10 s is reset.
func (s *Stream) Close() error {
	err := s.CloseWrite()
	if !s.hasEnded() {
		time.AfterFunc(finishTime, s.Reset)
	}
	return err
}

// Reset ends both directions at once, and says so to the peer.
func (s *Stream) Reset() {
	s.isReset.Store(true)
	s.channel.gate.reset(s.ID())
}

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (s *Stream) SetDeadline(at time.Time) error { return s.stream.SetDeadline(at) }

// SetReadDeadline bounds reads that begin afterwards; one past fails them at once.
func (s *Stream) SetReadDeadline(at time.Time) error { return s.stream.SetReadDeadline(at) }

// SetWriteDeadline bounds writes that begin afterwards.
func (s *Stream) SetWriteDeadline(at time.Time) error { return s.stream.SetWriteDeadline(at) }

// LocalAddr names no place: a stream is within a channel.
func (s *Stream) LocalAddr() net.Addr { return address{} }

// RemoteAddr names no place.
func (s *Stream) RemoteAddr() net.Addr { return address{} }
