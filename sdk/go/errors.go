package sealway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sealway.dev/go/mle"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// Stage is the part of a call in which an error arose.
type Stage string

const (
	// StageConfiguration is a wrong option, or a request that cannot be sealed. Nothing was sent.
	StageConfiguration Stage = "configuration"
	// StageAgreement is the agreement, renewal or end of a session, and trust. The request was not sent.
	StageAgreement Stage = "agreement"
	// StageCall begins with the departure of the sealed request and ends with the last byte of its answer.
	StageCall Stage = "call"
)

// Codes of this SDK, beside those of spec/registry.toml.
const (
	codeUsage       = "usage"
	codeUnreachable = "unreachable"
	codeTimeout     = "timeout"
	codeRedirected  = "redirected"
	codeNetwork     = "network"
)

// Error is the error of a [Transport] and an [MLETransport], of their calls and of the bodies of their answers. It holds no secret. Err is
// one of [UsageError], [TrustError], [KeyRetiredError], [ProblemError], [TimeoutError], [ConnectionError], [TooLargeError], [wire.Error] and [mle.Refusal], or
// the error of a function or body of the caller.
type Error struct {
	// Stage is the part of the call in which the error arose.
	Stage Stage
	// Code is a code of spec/registry.toml, or usage, unreachable, timeout, redirected or network.
	Code string
	// Retryable is true if the same request may be sent again without a second execution, and may then succeed. It is false
	// where the outcome is unknown.
	Retryable bool
	// Host is the host and port that answered or should have; empty if none.
	Host string
	// Err is the cause.
	Err error
}

// Error returns host, cause and remedy in one line.
func (e *Error) Error() string {
	text := "sealway: "
	if e.Host != "" {
		text += e.Host + ": "
	}
	text += strings.TrimSuffix(strings.TrimPrefix(e.Err.Error(), "sealway: "), ".")
	var problem *ProblemError
	var trust *TrustError
	switch {
	case e.Stage != StageCall || e.Retryable:
	case e.Code == "session_expired" || e.Code == "clock_skew":
		text += "; the outcome of this request is unknown, and the next request works"
	case e.Code == string(ErrKeyRetired) || errors.As(e.Err, &trust) || errors.As(e.Err, &problem) && problem.oneShot:
		text += "; the outcome of this request is unknown"
	}
	switch e.Err.(type) {
	case *UsageError, *TrustError, *ConnectionError, *KeyRetiredError:
		// The cause says what to do.
		return text
	}
	text += ". " + e.Remedy()
	if option := options[e.Code]; option != "" {
		text += " (option " + option + ")"
	}
	return text
}

// Remedy returns a sentence that says what to do.
func (e *Error) Remedy() string {
	return remedyOf(e.Code)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Is finds a code: errors.Is(err, wire.CodeUnsealable).
func (e *Error) Is(target error) bool {
	code, ok := target.(wire.Code)
	return ok && string(code) == e.Code
}

// Timeout says whether a wait was too long, for [net.Error].
func (e *Error) Timeout() bool {
	var timed interface{ Timeout() bool }
	return e.Code == codeTimeout || errors.As(e.Err, &timed) && timed.Timeout()
}

// Temporary is Retryable, for [net.Error].
func (e *Error) Temporary() bool { return e.Retryable }

// options are the fields of [Config] that bear on a code.
var options = map[string]string{
	"body_too_large":  "Config.AnswerMaxBytes or Config.RequestMaxBytes",
	"unauthenticated": "Config.Authorization",
	"wire_disabled":   "Config.Wire",
	"WIRE_DISABLED":   "Config.Wire",
}

// failureOf is failure, except that the error of a context that the caller cancelled stays as it is.
func failureOf(ctx context.Context, stage Stage, at *url.URL, err error) error {
	var late *TimeoutError
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) && !errors.Is(cause, context.DeadlineExceeded) && !errors.As(cause, &late) {
		return err
	}
	return failure(stage, at, err)
}

// failure makes an [Error] of what is none yet.
func failure(stage Stage, at *url.URL, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	e := &Error{Stage: stage, Code: codeUsage, Err: err}
	var usage *UsageError
	var refusal *wire.Error
	var code wire.Code
	var problem *ProblemError
	var large *TooLargeError
	var late *TimeoutError
	var connection *ConnectionError
	var token *mle.Refusal
	switch {
	case errors.As(err, &usage), errors.As(err, &large) && large.isRequest:
		e.Stage = StageConfiguration
	case errors.As(err, &problem):
		e.Code, e.Retryable = problem.Code, problem.notServed || stage == StageAgreement && problem.passes()
	case errors.As(err, &late), errors.Is(err, context.DeadlineExceeded):
		e.Code, e.Retryable = codeTimeout, stage == StageAgreement
	case errors.As(err, &connection) && connection.Connected:
		e.Code, e.Retryable = codeNetwork, stage == StageAgreement && !connection.lasts
	case connection != nil:
		e.Code, e.Retryable = codeUnreachable, !connection.lasts
	case errors.As(err, &token):
		e.Code = string(wire.CodeUnsealable)
	case errors.As(err, &refusal):
		e.Code = string(refusal.Code)
	case errors.As(err, &code):
		e.Code = string(code)
	}
	if large != nil {
		e.Code = string(wire.CodeBodyTooLarge)
	}
	if e.Stage != StageConfiguration {
		e.Host = hostOf(at)
	}
	return e
}

// UsageError is a wrong option, or a request that cannot be sealed.
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return "sealway: " + e.Text }

// ProblemError is a rejection by the service, which is sealed on wire 4 alone, or the answer of another server.
type ProblemError struct {
	// Code is a problem or public error of spec/registry.toml, unsealed for an answer of another form, or redirected.
	Code string
	// Status is the status of the answer.
	Status int
	// Proven says that a clock_skew carries the proof of the service: its mac on wire 3, its seal on wire 4. No other problem carries one.
	Proven bool
	// HTML says that the answer is a page for people: of a captive portal, a proxy or another server.
	HTML bool
	// Field is the member at fault of malformed, at most 64 bytes of it.
	Field string
	// RetryAfter is the wait that the service asks for, at most a day; 0 if none.
	RetryAfter time.Duration
	problem    *session.Problem
	notServed  bool
	oneShot    bool   // an answer of wire 4
	unproven   string // code of a problem of wire 4 that counts as unknown
}

func (e *ProblemError) Error() string {
	switch {
	case e.HTML:
		return fmt.Sprintf("the answer is an HTML page (%d) of a captive portal, a proxy or another server", e.Status)
	case e.unproven != "":
		return fmt.Sprintf("rejected (%d): %s is no problem that the service %s", e.Status, e.unproven, map[bool]string{true: "seals", false: "makes without a seal"}[e.problem != nil])
	case e.Code == string(wire.CodeUnsealed):
		return fmt.Sprintf("the answer is not sealed (%d)", e.Status)
	case e.Code == codeRedirected:
		return fmt.Sprintf("the answer is a redirect (%d)", e.Status)
	case e.Field != "":
		return fmt.Sprintf("rejected: %s (%d), member %q", e.Code, e.Status, e.Field)
	}
	return fmt.Sprintf("rejected: %s (%d)", e.Code, e.Status)
}

// Is finds wire.CodeUnsealed for an answer that is no problem of wire 3, and the code of the problem.
func (e *ProblemError) Is(target error) bool {
	code, ok := target.(wire.Code)
	return ok && (string(code) == e.Code || code == wire.CodeUnsealed && e.problem == nil)
}

// passes says whether the cause of a rejected agreement passes by itself.
func (e *ProblemError) passes() bool {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// TrustError says that the client does not trust the identity of the service. It unwraps to the reason.
type TrustError struct {
	// KeyID is the identity key of the service, if it named one, or the kid of a key of wire 4.
	KeyID string
	// KeyIDs are the keys that a service publishes after the pinned ones retired. They are not verified on wire 3.
	KeyIDs []string
	// Reason says what does not hold and what to do.
	Reason string
	// Err is the reason by its code.
	Err error
}

func (e *TrustError) Error() string {
	if e.KeyID == "" {
		return "the service is not trusted: " + e.Reason
	}
	what := "identity key "
	if session.ValidKeyKid(e.KeyID) {
		what = "key "
	}
	return "the " + what + e.KeyID + " is not trusted: " + e.Reason
}

// Unwrap returns Err.
func (e *TrustError) Unwrap() error { return e.Err }

// TimeoutError says that a wait was too long.
type TimeoutError struct {
	// Wait is the name of the wait.
	Wait string
	// After is its bound.
	After time.Duration
	// Option is the field that sets the bound, as Config.HeadTimeout.
	Option string
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("%s took longer than %v (%s)", e.Wait, e.After, e.Option)
}

// Timeout is true, for [net.Error].
func (e *TimeoutError) Timeout() bool { return true }

// Temporary is true, for [net.Error].
func (e *TimeoutError) Temporary() bool { return true }

// TooLargeError says that a message is over its bound.
type TooLargeError struct {
	// Message is the name of the message.
	Message string
	// Max is the bound, in bytes.
	Max       int64
	isRequest bool
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s is longer than %d bytes", e.Message, e.Max)
}
