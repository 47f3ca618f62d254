package exchange

import "sealway.dev/go/session"

// Stream reads the body of a sealed request, however it is cut into chunks. The last piece is held back until the body has ended.
type Stream struct {
	// InHeader is the stream where it came in a header, and not in the body: then there may be no body.
	InHeader []byte
	opener   *session.FrameOpener // nil where all of the body is one sealed message
	bytes    []byte               // the sealed message so far, or the frame that opened last
	done     bool
	err      error
}

// Piece is a part of a body. It is good until its stream is used again.
type Piece struct {
	// Bytes are the plaintext of a frame; of a protocol without frames all of the sealed message.
	Bytes []byte
	// Last says that nothing stands behind it.
	Last bool
}

// Done says whether the last piece was given.
func (s *Stream) Done() bool { return s.done }

// Read takes what comes next of the body from input, and gives a piece when one is whole, nil before. It is called again while input is
// not empty. Behind an error there is nothing more.
func (s *Stream) Read(input *[]byte) (*Piece, error) {
	if s.err != nil {
		return nil, s.err
	}
	if s.opener == nil {
		s.bytes, *input = append(s.bytes, *input...), nil
		return nil, nil
	}
	opened, complete, err := s.opener.Read(input, s.bytes[:0])
	if s.err = err; err != nil || !complete {
		return nil, err
	}
	if s.bytes = opened; s.opener.Done() {
		return nil, nil
	}
	return &Piece{Bytes: opened}, nil
}

// End says that the body has ended, and gives the last piece; stream_truncated if there is none.
func (s *Stream) End() (*Piece, error) {
	if s.err == nil && s.opener != nil {
		s.err = s.opener.End()
	}
	if s.err != nil {
		return nil, s.err
	}
	s.done = true
	return &Piece{s.bytes, true}, nil
}

// Wipe overwrites the piece that was given last.
func (s *Stream) Wipe() { clear(s.bytes) }
