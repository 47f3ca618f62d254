package broker

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
)

// Delivery says how far a failed call came.
type Delivery int

// From surely not to surely.
const (
	// NotSent: nothing was done.
	NotSent Delivery = iota
	// PerhapsDone: it left, and no answer came.
	PerhapsDone
	// Answered: the broker said why.
	Answered
)

// String is the word for it.
func (s Delivery) String() string { return [...]string{"not sent", "perhaps done", "answered"}[s] }

// Error is a call that failed. There is no key and no input in it.
type Error struct {
	// Operation is what was called, such as Hash.
	Operation string
	// Code is the broker's where Delivery is Answered, else the client's own.
	Code codes.Code
	// Text says why, in one line.
	Text string
	// Delivery says how far the call came.
	Delivery Delivery
	// Attempts that were made, 0 where it was refused here.
	Attempts int
	cause    error
}

// Error is a sentence, for people.
func (e *Error) Error() string {
	return fmt.Sprintf("broker: %s: %s (%s, %s)", e.Operation, e.Text, e.Code, e.Delivery)
}

// Unwrap returns a context's error, where that ended the call.
func (e *Error) Unwrap() error { return e.cause }

// IsPassing says whether the same call may succeed a little later: the broker is away, or the breaker is open.
func (e *Error) IsPassing() bool {
	return e.Code == codes.Unavailable || e.Code == codes.DeadlineExceeded
}

// Refusal is why one of a batch failed while others went on.
type Refusal struct {
	Code    codes.Code
	Message string
}

// Error is a sentence, for people.
func (r *Refusal) Error() string { return fmt.Sprintf("%s (%s)", r.Message, r.Code) }

// oneLine bounds what a stranger says.
func oneLine(text string) string {
	text = strings.Map(func(sign rune) rune {
		if sign < 0x20 || sign >= 0x7f && sign < 0xa0 {
			return ' '
		}
		return sign
	}, text)
	if len(text) > 1000 {
		text = strings.ToValidUTF8(text[:1000], "")
	}
	return text
}
