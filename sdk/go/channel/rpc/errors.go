package rpc

import (
	"context"
	"errors"
	"fmt"

	"sealway.dev/go/channel/rpc/frame"
)

// Codes of failures that a peer answers with. From FirstOwn up they are the application's own.
const (
	BadRequest       = 400
	HandlerNotFound  = 404
	DeadlineExceeded = 408
	TooLarge         = 413
	Cancelled        = 499
	Internal         = 500
	FirstOwn         = 1000
)

// Failure is the error that a peer answers. A handler returns a Failure to choose code and message; the peer receives any other
// error as 500 without a reason.
type Failure = frame.Failure

// NewFailure returns a failure; at most 1,024 bytes of the message are kept.
func NewFailure(code uint32, message string) *Failure { return frame.NewFailure(code, message) }

// Error is the error of a call.
type Error struct {
	// Code is stable: handler_not_found, rpc_error, rpc_timeout, rpc_too_large or transport_error.
	Code string
	// Failure is the answer of the peer, for the first two codes.
	Failure *Failure
	text    string
	cause   error
}

// Error is a sentence, for people.
func (e *Error) Error() string { return fmt.Sprintf("rpc: %s (%s)", e.text, e.Code) }

// Unwrap returns the failure, a context's error, or why the stream is over.
func (e *Error) Unwrap() error {
	if e.Failure != nil {
		return e.Failure
	}
	return e.cause
}

// Is makes errors.Is compare codes.
func (e *Error) Is(target error) bool {
	other, is := target.(*Error)
	return is && other.Code == e.Code && (other.Failure == nil || e.Failure != nil && other.Failure.Code == e.Failure.Code)
}

func refused(failure *Failure) *Error {
	code := "rpc_error"
	if failure.Code == HandlerNotFound {
		code = "handler_not_found"
	}
	return &Error{Code: code, Failure: failure, text: fmt.Sprintf("the peer answers %d: %q", failure.Code, failure.Message)}
}

func tooLong(lenMax int) *Error {
	return &Error{Code: "rpc_too_large", text: fmt.Sprintf("longer than %d bytes", lenMax), cause: frame.ErrTooLong}
}

func broken(why error) *Error {
	text := "the stream of calls is over; whether a request was handled is not known"
	if why != nil {
		text += ": " + why.Error()
	}
	return &Error{Code: "transport_error", text: text, cause: why}
}

func late(ctx context.Context) *Error {
	cause := context.Cause(ctx)
	text := "no answer in time"
	if errors.Is(cause, context.Canceled) {
		text = "the call was taken back"
	}
	return &Error{Code: "rpc_timeout", text: text, cause: cause}
}
