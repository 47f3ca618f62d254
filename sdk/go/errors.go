package sealway

import (
	"fmt"
	"time"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// UsageError is a caller's mistake: a setting or a request that cannot be sealed. Nothing was sent.
type UsageError struct{ What string }

func (e *UsageError) Error() string { return "sealway: " + e.What }

// Blame is the caller's.
func (e *UsageError) Blame() wire.Blame { return wire.BlameCaller }

// ProblemError is a refusal of wire 3. Nothing of it is sealed; Proven says whether it showed that it is the service's.
type ProblemError struct {
	// Code is one of the problems of spec/registry.toml.
	Code   string
	Status int
	Proven bool
	// Field is the member at fault of malformed, at most 64 bytes of it.
	Field string
	// RetryAfter is what a service said that is busy, at most a day; 0 if nothing.
	RetryAfter time.Duration
	problem    *session.Problem
}

func (e *ProblemError) Error() string {
	if e.Field != "" {
		return fmt.Sprintf("sealway: the service refused: %s (%d), member %q", e.Code, e.Status, e.Field)
	}
	return fmt.Sprintf("sealway: the service refused: %s (%d)", e.Code, e.Status)
}

// RefusedError is an answer that is neither sealed nor a problem: one of the old wires' refusals, or nobody's answer.
// errors.Is(err, wire.CodeUnsealed) finds it on wire 3.
type RefusedError struct {
	Status int
	// Code is the member error of the body where it is one of spec/registry.toml's public strings, or empty.
	Code string
}

func (e *RefusedError) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("sealway: an answer that is not sealed (%d)", e.Status)
	}
	return fmt.Sprintf("sealway: the service refused: %s (%d)", e.Code, e.Status)
}

// Is finds wire.CodeUnsealed.
func (e *RefusedError) Is(target error) bool { return target == error(wire.CodeUnsealed) }

// Blame is the peer's.
func (e *RefusedError) Blame() wire.Blame { return wire.BlamePeer }

// RedirectError is an answer that points elsewhere. Sealed calls do not follow: the seal is bound to the target.
type RedirectError struct{ Status int }

func (e *RedirectError) Error() string {
	return fmt.Sprintf("sealway: the answer is a redirect (%d), which a sealed call does not follow", e.Status)
}

// Blame is the peer's.
func (e *RedirectError) Blame() wire.Blame { return wire.BlamePeer }

// TrustError says that a service's identity could not be trusted, and what to do. It unwraps to the refusal.
type TrustError struct {
	KeyID string
	// KeyIDs are the live ones of a service whose pinned keys are retired; nobody has vouched for them.
	KeyIDs []string
	Way    string
	Err    error
}

func (e *TrustError) Error() string {
	if e.KeyID == "" {
		return "sealway: the service is not trusted: " + e.Way
	}
	return "sealway: the identity key " + e.KeyID + " is not trusted: " + e.Way
}

func (e *TrustError) Unwrap() error { return e.Err }

// TimeoutError says which wait was over. It is a net.Error whose Timeout is true.
type TimeoutError struct {
	What  string
	After time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("sealway: %s took longer than %v", e.What, e.After)
}

// Timeout is true.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary is true.
func (e *TimeoutError) Temporary() bool { return true }

// TooLargeError says that an answer is over its bound, in bytes.
type TooLargeError struct {
	What string
	Max  int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("sealway: %s is longer than %d bytes", e.What, e.Max)
}

// Blame is a limit's.
func (e *TooLargeError) Blame() wire.Blame { return wire.BlameLimit }
