package channel

import (
	"crypto/tls"
	"time"
)

// Options configure a channel. The zero value has the defaults.
type Options struct {
	// Identity is the static key of this end, for grants that pin keys.
	Identity *Identity
	// ConnectTimeout bounds name resolution, connection, TLS and the upgrade to a WebSocket. The default is 10 s.
	ConnectTimeout time.Duration
	// PeerTimeout bounds the wait for the peer. The default ends a minute after the grant; without a relay it is HandshakeTimeout.
	PeerTimeout time.Duration
	// HandshakeTimeout bounds the handshake from the first message of the peer. The default is 15 s.
	HandshakeTimeout time.Duration
	// TLS configures wss. The default trusts the certificate authorities of this machine and has no client certificate.
	TLS *tls.Config
	// Origin is the value of that header. The default is none.
	Origin string
	// PingEvery is the interval of pings. The default is 20 s. A relay closes channels that are idle for 60 s.
	PingEvery time.Duration
	// SilentMax bounds the silence of the peer. The default is 45 s.
	SilentMax time.Duration
	// WriteTimeout bounds the wait of a record for the connection. The default is 30 s.
	WriteTimeout time.Duration
	// AcceptUnconfirmed accepts a flowersec-v1 server that proves nothing before its first record, as those of January 2026.
	AcceptUnconfirmed bool
	// PadTo is the multiple, in bytes, to which native records are padded.
	PadTo int
	// RekeyAfterRecords is the number of records after which this end changes its native key: 2 to 2^20. The default is 2^20.
	RekeyAfterRecords uint64
	// RekeyAfter is the age at which this end changes its native key. The default is 1 h.
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
