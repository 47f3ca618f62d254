package channel

import (
	"crypto/tls"
	"time"
)

// Options say how a channel is made and kept. The zero value has the defaults.
type Options struct {
	// Identity is this end's static key, for grants that pin keys.
	Identity *Identity
	// ConnectTimeout is from the name of the host to the upgraded WebSocket; 10 s unless said.
	ConnectTimeout time.Duration
	// PeerTimeout is how long the peer may take to come; until a minute after the grant's end unless said, without a relay as
	// long as HandshakeTimeout.
	PeerTimeout time.Duration
	// HandshakeTimeout is from the peer's first message to the end of the handshake; 15 s unless said.
	HandshakeTimeout time.Duration
	// TLS is for wss: whom to trust and what to show; the authorities of this machine and nothing unless said.
	TLS *tls.Config
	// Origin is sent as browsers do; none unless said.
	Origin string
	// PingEvery is how often the peer is asked for a sign of life; 20 s unless said. A relay ends channels on which nothing
	// moves for 60 s.
	PingEvery time.Duration
	// SilentMax is how long the peer may be silent altogether; 45 s unless said.
	SilentMax time.Duration
	// WriteTimeout is how long a record may wait to be taken by the connection; 30 s unless said.
	WriteTimeout time.Duration
	// AcceptUnconfirmed takes a flowersec-v1 server that proves nothing before its first record, as those of January 2026.
	AcceptUnconfirmed bool
	// PadTo is the length in bytes to whose multiples native records are padded.
	PadTo int
	// RekeyAfterRecords is after how many records this end changes its native key, 2 to 2^20; 2^20 unless said.
	RekeyAfterRecords uint64
	// RekeyAfter is the age at which this end changes its native key; 1 h unless said.
	RekeyAfter time.Duration
}

func (o *Options) filled() Options {
	made := Options{}
	if o != nil {
		made = *o
	}
	for _, field := range []struct {
		at     *time.Duration
		unsaid time.Duration
	}{
		{&made.ConnectTimeout, 10 * time.Second},
		{&made.HandshakeTimeout, 15 * time.Second},
		{&made.PingEvery, 20 * time.Second},
		{&made.SilentMax, 45 * time.Second},
		{&made.WriteTimeout, 30 * time.Second},
	} {
		if *field.at <= 0 {
			*field.at = field.unsaid
		}
	}
	return made
}
