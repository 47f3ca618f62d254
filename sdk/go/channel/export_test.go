package channel

import "testing"

// Ground is for tests of this folder that calls take part in, which this package cannot import.
type Ground struct{ *ground }

// NewGround starts a relay and a control plane.
func NewGround(t testing.TB) Ground {
	made := newGround(t)
	made.startControl()
	return Ground{made}
}

// Control is the control plane's address, and Token the token that it takes.
func (g Ground) Control() string { return g.control }

// Token is what the control plane takes.
func (g Ground) Token() string { return g.token }

// StopRelay kills the relay, and StartRelay starts another at its address.
func (g Ground) StopRelay() { g.stopRelay() }

// StartRelay starts a relay at the address of the one before.
func (g Ground) StartRelay() { g.startRelay() }

// Pair makes both ends of a channel without a relay.
func Pair(t testing.TB, suite uint16) (client, server *Channel) { return pair(t, suite, nil, nil) }

// Cut ends the connection without a word.
func (c *Channel) Cut() { _ = c.gate.socket.ws.CloseNow() }
