package protocol

import (
	"fmt"
	"io"
)

// Handshake is one side of one, on one connection. It is for one goroutine at a time.
type Handshake struct {
	state handshakeState
}

// handshakeState is a side by what it waits for. It gives the next one, what is to be sent, and any refusal.
type handshakeState interface {
	read(message []byte, nowS uint64) (handshakeState, []byte, error)
}

// handshakeEnd holds sealer and opener of a complete handshake.
type handshakeEnd struct {
	sealer *Sealer
	opener *Opener
}

func (*handshakeEnd) read([]byte, uint64) (handshakeState, []byte, error) {
	return nil, nil, fail(HandshakeState)
}

// awaitsPing is a side whose peer has not proved its keys yet: its first record does, and must be a ping.
type awaitsPing handshakeEnd

func (a *awaitsPing) read(message []byte, _ uint64) (handshakeState, []byte, error) {
	opened, err := a.opener.Open(append([]byte(nil), message...))
	if err != nil {
		return nil, nil, err
	}
	if opened.Kind != Ping {
		return nil, nil, fail(Unconfirmed)
	}
	return (*handshakeEnd)(a), nil, nil
}

// NewClient begins a handshake as the client, and gives its first message.
func NewClient(settings *Settings, randoms *Randoms) (*Handshake, []byte, error) {
	if err := settings.Check(); err != nil {
		return nil, nil, err
	}
	begin := beginV1Client
	if settings.Suite.IsNative() {
		begin = beginNativeClient
	}
	state, first, err := begin(settings, randoms)
	if err != nil {
		return nil, nil, err
	}
	return &Handshake{state}, first, nil
}

// NewServer begins a handshake as the server, which waits for the client's first message.
func NewServer(settings *Settings, randoms *Randoms) (*Handshake, error) {
	if err := settings.Check(); err != nil {
		return nil, err
	}
	if !settings.Suite.IsNative() {
		return &Handshake{&v1AwaitsInit{*settings, *randoms}}, nil
	}
	state, err := newNative(settings, randoms, false)
	if err != nil {
		return nil, err
	}
	return &Handshake{state}, nil
}

// Read takes the peer's next message at the time nowS, in seconds of the epoch. What it gives is to be sent, also where the
// handshake is done by it. After an error the handshake is over: the connection is to be closed without a word.
func (h *Handshake) Read(message []byte, nowS uint64) (answer []byte, done bool, err error) {
	if h.state == nil {
		return nil, false, fail(HandshakeState)
	}
	next, answer, err := h.state.read(message, nowS)
	if err != nil {
		h.state = nil
		return nil, false, err
	}
	h.state = next
	_, done = next.(*handshakeEnd)
	return answer, done, nil
}

// Records gives what seals and opens from now on, once the handshake is done; once.
func (h *Handshake) Records() (*Sealer, *Opener, error) {
	done, is := h.state.(*handshakeEnd)
	if !is {
		return nil, nil, fail(HandshakeState)
	}
	h.state = nil
	return done.sealer, done.opener, nil
}

// Format prints no key.
func (*Handshake) Format(state fmt.State, _ rune) {
	_, _ = io.WriteString(state, "Handshake("+redacted+")")
}
