package sealway

import (
	"errors"
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

// ProblemError is a refusal of wire 3. Nothing of it is sealed; Proven says whether a clock_skew showed that it is the service's.
type ProblemError struct {
	// Code is one of the problems of spec/registry.toml.
	Code   string
	Status int
	Proven bool
	// Host is who refused, with a port where there is one.
	Host string
	// Field is the member at fault of malformed, at most 64 bytes of it.
	Field string
	// RetryAfter is what a service said that is busy, at most a day; 0 if nothing.
	RetryAfter time.Duration
	problem    *session.Problem
}

func (e *ProblemError) Error() string {
	if e.Field != "" {
		return fmt.Sprintf("sealway: %s refused: %s (%d), member %q", who(e.Host), e.Code, e.Status, e.Field)
	}
	return fmt.Sprintf("sealway: %s refused: %s (%d)%s", who(e.Host), e.Code, e.Status, remedies[e.Code])
}

// who names a service in a message.
func who(host string) string {
	if host == "" {
		return "the service"
	}
	return host
}

// named says in an error whose answer it is about, where that is not said yet.
func named(err error, host string) error {
	var problem *ProblemError
	var refused *RefusedError
	var redirect *RedirectError
	var trust *TrustError
	var own *string
	switch {
	case errors.As(err, &problem):
		own = &problem.Host
	case errors.As(err, &refused):
		own = &refused.Host
	case errors.As(err, &redirect):
		own = &redirect.Host
	case errors.As(err, &trust):
		own = &trust.Host
	}
	if own != nil && *own == "" {
		*own = host
	}
	return err
}

// remedies say what the caller is left with, by the problem or the public error string.
var remedies = map[string]string{
	"policy":               ": ask its operator what this client may do",
	"unauthenticated":      ": set Config.Authorization to a valid token, and Config.Proof where it is bound to a key",
	"wire_disabled":        ": the service does not serve wire 3; ask its operator, or set Config.Wire",
	"rate_limited":         ": wait before the next session",
	"store_unavailable":    ": it cannot serve now; try again later",
	"upstream_unreachable": ": the service behind it did not answer; try again later",
	"upstream_timeout":     ": the service behind it did not answer in time; whether it had the request is unknown",
	"unsealable":           ": what arrived does not open; check that what is in between passes headers and bodies on",
	"CRYPTO_ERROR":         ": what arrived does not open or its time is too far off; check this machine's clock, and what is in between",
	"SESSION_EXPIRED":      ": its session is gone; the next request begins a new one",
	"SESSION_FORBIDDEN":    ": ask its operator what this client may do",
	"WIRE_DISABLED":        ": the service does not serve this wire; leave Config.Wire out for 3",
	"RATE_LIMITED":         ": wait before the next session",
	"SERVICE_UNAVAILABLE":  ": it cannot serve now; try again later",
	"session_expired":      ": its session is gone, and whether it was served before is unknown; the next request begins a new session",
	"clock_skew":           ": its time was too far from the service's, and whether it was served before is unknown; the next request goes by the service's clock",
}

// RefusedError is an answer that is neither sealed nor a problem: one of the old wires' refusals, or nobody's answer.
// errors.Is(err, wire.CodeUnsealed) finds it on wire 3.
type RefusedError struct {
	Status int
	// Code is the member error of the body where it is one of spec/registry.toml's public strings, or empty.
	Code string
	// Host is who answered, or whoever is in between.
	Host string
	// HTML says that it is a page for people: of a captive portal, a proxy or another server.
	HTML bool
}

func (e *RefusedError) Error() string {
	switch {
	case e.HTML:
		return fmt.Sprintf("sealway: an HTML page (%d) came in place of the answer of %s: a captive portal, a proxy or another server answered;"+
			" open the address in a browser, and check that it is the service's", e.Status, who(e.Host))
	case e.Code == "":
		return fmt.Sprintf("sealway: the answer of %s is not sealed (%d): check that the address is the service's, and that what is in between"+
			" passes headers and bodies on", who(e.Host), e.Status)
	}
	return fmt.Sprintf("sealway: %s refused: %s (%d)%s", who(e.Host), e.Code, e.Status, remedies[e.Code])
}

// Is finds wire.CodeUnsealed.
func (e *RefusedError) Is(target error) bool { return target == error(wire.CodeUnsealed) }

// Blame is the peer's.
func (e *RefusedError) Blame() wire.Blame { return wire.BlamePeer }

// RedirectError is an answer that points elsewhere. Sealed calls do not follow: the seal is bound to the target.
type RedirectError struct {
	Status int
	// Host is who answered.
	Host string
}

func (e *RedirectError) Error() string {
	return fmt.Sprintf("sealway: the answer of %s is a redirect (%d), which a sealed call does not follow: use the address that it leads to",
		who(e.Host), e.Status)
}

// Blame is the peer's.
func (e *RedirectError) Blame() wire.Blame { return wire.BlamePeer }

// TrustError says that a service's identity could not be trusted, and what to do. It unwraps to the refusal.
type TrustError struct {
	KeyID string
	// KeyIDs are the live ones of a service whose pinned keys are retired; nobody has vouched for them.
	KeyIDs []string
	// Host is who is not trusted.
	Host string
	Way  string
	Err  error
}

func (e *TrustError) Error() string {
	if e.KeyID == "" {
		return "sealway: " + who(e.Host) + " is not trusted: " + e.Way
	}
	return "sealway: the identity key " + e.KeyID + " of " + who(e.Host) + " is not trusted: " + e.Way
}

func (e *TrustError) Unwrap() error { return e.Err }

// TimeoutError says which wait was over. It is a net.Error whose Timeout is true.
type TimeoutError struct {
	// What was waited for.
	What  string
	After time.Duration
	// Host is who was waited for.
	Host string
	// Option sets the wait, as Config.HeadTimeout.
	Option string
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("sealway: %s: %s took longer than %v (%s): check that the service is there and not overloaded, or wait longer",
		who(e.Host), e.What, e.After, e.Option)
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
