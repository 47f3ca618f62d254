package exchange

import (
	"encoding/json"
	"errors"

	"sealway.dev/go/wire"
)

// Form is the form of an error's body.
type Form bool

// The forms: {"error": CODE} on wires 1 and 2, application/problem+json (RFC 9457) on wire 3.
const (
	Plain   Form = false
	Problem Form = true
)

// FormOf returns the form that clients of a wire read.
func FormOf(version wire.Version) Form { return version == wire.Wire3 }

// Rejection is a refusal with all that is said of it: to metrics, to the log, to the client.
type Rejection struct {
	// Refusal is the reason, the label of metrics.
	Refusal Refusal
	// Err is the detail, for the log.
	Err error
	// more are further members of the problem.
	more map[string]any
}

// Error returns the detail.
func (r *Rejection) Error() string { return r.Err.Error() }

// Unwrap returns the detail.
func (r *Rejection) Unwrap() error { return r.Err }

// Reject returns the rejection for an error: itself, a [Refusal], or one of the wire. Any other is a store's.
func Reject(err error) *Rejection {
	var rejection *Rejection
	refusal := StoreUnavailable
	var refused *wire.Error
	var code wire.Code
	switch {
	case errors.As(err, &rejection):
		return rejection
	case errors.As(err, &refusal):
	case errors.As(err, &refused):
		refusal = Refusal(refused.Code)
	case errors.As(err, &code):
		refusal = Refusal(code)
	}
	return refusal.Because(err)
}

// answer is the answer to a client, in the plain form and as a problem.
type answer struct {
	status        int
	code          string
	problemStatus int
	problem       string
	title         string
}

var (
	unsealable  = answer{400, "CRYPTO_ERROR", 400, "unsealable", "The request does not open."}
	over        = answer{401, "SESSION_EXPIRED", 401, "session_expired", "The session is over or unknown: agree a new one."}
	unavailable = answer{503, "SERVICE_UNAVAILABLE", 503, "store_unavailable", "Try again later."}
)

// answers has each refusal whose answer is not [unsealable]. spec/registry.toml
var answers = map[Refusal]answer{
	Refusal(wire.CodeSessionUnknown):         over,
	Refusal(wire.CodeSessionExpired):         over,
	Refusal(wire.CodeTimestampOutsideWindow): {400, "CRYPTO_ERROR", 400, "clock_skew", "The request's time is too far from the server's."},
	Refusal(wire.CodeReplayed):               {400, "CRYPTO_ERROR", 409, "replayed", "The request was received before."},
	Refusal(wire.CodeBodyTooLarge):           {413, "PAYLOAD_TOO_LARGE", 413, "too_large", "The message is over its bound."},
	Refusal(wire.CodePolicy):                 {403, "SESSION_FORBIDDEN", 403, "policy", "The client may not do this."},
	Refusal(wire.CodeProvider):               unavailable,
	Refusal(wire.CodeReservationMismatch):    unavailable,
	StoreUnavailable:                         unavailable,
	BodyNoRoom:                               unavailable,
	NoncesFull:                               {400, "CRYPTO_ERROR", 503, "store_unavailable", "Try again later."},
	WireOff:                                  {403, "WIRE_DISABLED", 403, "wire_disabled", "This wire is not served here."},
	Method:                                   {405, "METHOD_NOT_ALLOWED", 405, "method_not_allowed", "Another method is needed."},
	Compressed:                               {415, "CRYPTO_ERROR", 415, "unsealable", "The request does not open."},
	Unanswered:                               {502, "SERVICE_UNAVAILABLE", 502, "upstream_unreachable", "The service behind did not answer."},
}

// Answer is all that is sent to the client.
func (r *Rejection) Answer(form Form) (status int, headers wire.HeaderList, body []byte) {
	about, known := answers[r.Refusal]
	if !known {
		about = unsealable
	}
	kind, members := "application/json", map[string]any{"error": about.code}
	if status = about.status; form == Problem {
		status, kind = about.problemStatus, "application/problem+json"
		members = map[string]any{"type": "urn:sealway:problem:" + about.problem, "title": about.title, "status": status, "code": about.problem}
		for name, value := range r.more {
			members[name] = value
		}
	}
	body, _ = json.Marshal(members) // cannot fail
	headers = wire.HeaderList{{Name: "Content-Type", Value: kind}, {Name: "Cache-Control", Value: "no-store"}}
	switch {
	case status == 503:
		headers = append(headers, wire.Header{Name: "Retry-After", Value: "1"})
	case r.Refusal == Method:
		headers = append(headers, wire.Header{Name: "Allow", Value: "POST, OPTIONS"})
	}
	return status, headers, body
}
