package session

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"

	"sealway.dev/go/wire"
)

// ReplayPolicy says how far stamps may be off, and how long nonces are kept. The zero value is the spec's default.
type ReplayPolicy struct {
	// WindowMs is how far a stamp may be from the reader's clock, either way, both edges good. 0 is 300 000.
	WindowMs uint64
	// NonceTTLMs is raised to twice the window: a request stamped at the far edge stays admissible that long.
	NonceTTLMs uint64
}

// Window returns the window in force, in milliseconds.
func (p ReplayPolicy) Window() uint64 {
	if p.WindowMs == 0 {
		return wire.WindowMsDefault
	}
	return min(p.WindowMs, wire.WindowMsMax)
}

// Check refuses a stamp that is outside of the window.
func (p ReplayPolicy) Check(stampMs, nowMs uint64) error {
	if max(stampMs, nowMs)-min(stampMs, nowMs) > p.Window() {
		return wire.Refuse(wire.CodeTimestampOutsideWindow)
	}
	return nil
}

// onNative is the policy of wire 3, whose window has a greatest width. spec/session-3.md#sealed-requests
func (p ReplayPolicy) onNative() ReplayPolicy {
	p.WindowMs = min(p.Window(), wire.NativeWindowMsMax)
	return p
}

func (p ReplayPolicy) kept() uint64 { return max(p.NonceTTLMs, 2*p.Window()) + 1 }

func (p ReplayPolicy) expires(nowMs uint64) uint64 {
	// Inclusive: at now + ttl the record still stands, as the request's own stamp then just may.
	return nowMs + p.kept()
}

// Claim is a nonce that wants to be reserved. spec/session.md#nonces
type Claim struct {
	// Key is what a store remembers.
	Key [16]byte
	// Sealed says that a tag verified: a store bounds the others apart, so that strangers crowd out nobody.
	Sealed bool
	// StampMs is the request's own stamp.
	StampMs uint64
	// ExpiresMs is the first millisecond at which the claim may be forgotten.
	ExpiresMs uint64
	// KeptMs is how long the claim is kept, from its reservation on: for stores that go by a clock of their own.
	KeptMs uint64
}

// WindowMs is the widest window that the claim is kept for: one whose stamp is older may have been granted and forgotten.
// Of a claim that no policy made it is a day.
func (c Claim) WindowMs() uint64 {
	if c.KeptMs == 0 {
		return wire.WindowMsMax
	}
	return (c.KeptMs - 1) / 2
}

// KeyHex returns the key as 32 hexadecimal digits.
func (c Claim) KeyHex() string { return hex.EncodeToString(c.Key[:]) }

const (
	tagInit2  = 1
	tagInit1  = 2
	tagSealed = 3
)

func newClaim(tag byte, scope, nonce string, stampMs, nowMs uint64, policy ReplayPolicy) Claim {
	// The length makes scope and nonce unambiguous; client ids have at most 256 bytes.
	data := binary.BigEndian.AppendUint16([]byte{tag}, uint16(len(scope)))
	hash := sha256.Sum256(append(append(data, scope...), nonce...))
	return policy.Claim([16]byte(hash[:16]), tag == tagSealed, stampMs, nowMs)
}

// Claim returns the claim of a message by its key, a stamp that [ReplayPolicy.Check] allows, and the clock. sealed says that a tag
// verified under a key that no stranger has.
func (p ReplayPolicy) Claim(key [16]byte, sealed bool, stampMs, nowMs uint64) Claim {
	return Claim{Key: key, Sealed: sealed, StampMs: stampMs, ExpiresMs: p.expires(nowMs), KeptMs: p.kept()}
}

// Fresh proves that a claim was reserved just now, and by nobody before. Stores make it.
type Fresh struct{ key [16]byte }

// Reserved makes a [Fresh] of a claim. Only what keeps claims calls this, once among all who try.
func Reserved(claim Claim) Fresh { return Fresh{claim.Key} }

// ClaimGuard is a value that nobody may see before its nonce was reserved. On sealed calls it exists only after the tag has
// verified, so a stranger without the key can burn no nonce of a session.
type ClaimGuard[T any] struct {
	claim Claim
	value T
}

// NewClaimGuard returns a guard that holds a value back until its claim is reserved.
func NewClaimGuard[T any](claim Claim, value T) *ClaimGuard[T] { return &ClaimGuard[T]{claim, value} }

// Claim is what is to be reserved.
func (u *ClaimGuard[T]) Claim() Claim { return u.claim }

// Release returns the value for its own claim's reservation; for another's it is reservation_mismatch.
func (u *ClaimGuard[T]) Release(fresh Fresh) (T, error) {
	if fresh.key != u.claim.Key {
		var none T
		return none, wire.Refuse(wire.CodeReservationMismatch)
	}
	return u.value, nil
}

// String shows the claim alone.
func (u *ClaimGuard[T]) String() string { return "ClaimGuard(" + u.claim.KeyHex() + ")" }

// Format is String, whatever the verb: no verb shows a key.
func (u *ClaimGuard[T]) Format(state fmt.State, _ rune) { io.WriteString(state, u.String()) }
