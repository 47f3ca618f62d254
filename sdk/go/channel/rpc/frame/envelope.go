package frame

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// messageMax is the longest text of an error that is kept, in bytes.
const messageMax = 1024

// Kind is what a frame of calls is; it follows from the two ids.
type Kind int

// The kinds of frames of calls.
const (
	Request Kind = iota + 1
	Answer
	Notification
	Cancellation
)

// Failure is why a request has no answer: one of the codes of spec/rpc.md, or from 1000 up the application's own.
type Failure struct {
	Code    uint32 `json:"code"`
	Message string `json:"message"`
}

// NewFailure keeps at most 1,024 bytes of the message.
func NewFailure(code uint32, message string) *Failure {
	if len(message) > messageMax {
		message = message[:messageMax]
		for !utf8.ValidString(message) && message != "" {
			message = message[:len(message)-1]
		}
	}
	return &Failure{code, message}
}

// Error is a sentence, for people.
func (f *Failure) Error() string { return fmt.Sprintf("%s (%d)", f.Message, f.Code) }

// Envelope is a frame of calls. spec/rpc.md#envelope
type Envelope struct {
	Kind Kind
	// ID is the request's, of requests, answers and cancellations: 1 to IDMax.
	ID uint64
	// TypeID says who handles it.
	TypeID uint32
	// Payload is what is asked, answered or told; null where there is none.
	Payload json.RawMessage
	// Failure is set in the answer to a request that failed.
	Failure *Failure
	// TimeoutMS is for how long a caller waits from now; nil where it does not say.
	TimeoutMS *uint32
}

// Format prints no payload.
func (e *Envelope) Format(state fmt.State, _ rune) {
	_, _ = fmt.Fprintf(state, "Envelope(kind %d, id %d, type %d)", e.Kind, e.ID, e.TypeID)
}

type envelopeJSON struct {
	TypeID     uint32          `json:"type_id"`
	RequestID  uint64          `json:"request_id"`
	ResponseTo uint64          `json:"response_to"`
	TimeoutMS  *uint32         `json:"timeout_ms,omitempty"`
	Cancel     uint64          `json:"cancel,omitempty"`
	Error      *Failure        `json:"error,omitempty"`
	Payload    json.RawMessage `json:"payload"`
}

// Append appends the whole frame. The error is ErrTooLong where its JSON is beyond lenMax bytes.
func (e *Envelope) Append(dst []byte, lenMax int) ([]byte, error) {
	said := envelopeJSON{TypeID: e.TypeID, Payload: e.Payload, TimeoutMS: e.TimeoutMS, Error: e.Failure}
	if said.Payload == nil || e.Failure != nil {
		said.Payload = json.RawMessage("null")
	}
	switch e.Kind {
	case Request:
		said.RequestID = e.ID
	case Answer:
		said.ResponseTo = e.ID
	case Cancellation:
		said.Cancel = e.ID
	}
	body, err := marshal(said)
	if err != nil {
		return dst, err
	}
	return Append(dst, body, lenMax)
}

// Parse reads the JSON of a frame of calls. Unknown members are ignored, an absent number is 0, an absent payload null.
func Parse(text []byte) (*Envelope, error) {
	said, err := parseObject(text)
	if err != nil {
		return nil, err
	}
	var bad error
	number := func(name string, max uint64) uint64 {
		raw, is := said[name]
		if !is {
			return 0
		}
		value, err := strconv.ParseUint(string(raw), 10, 64)
		if (err != nil || value > max) && bad == nil {
			bad = &Malformed{name}
		}
		return value
	}
	made := &Envelope{TypeID: uint32(number("type_id", 1<<32-1)), Payload: said["payload"]}
	asked, answered := number("request_id", IDMax), number("response_to", IDMax)
	if made.Payload == nil {
		made.Payload = json.RawMessage("null")
	}
	switch {
	case asked > 0 && answered > 0:
		return nil, &Malformed{"response_to"}
	case asked > 0:
		made.Kind, made.ID = Request, asked
		if !isNull(said["timeout_ms"]) {
			timeout := uint32(number("timeout_ms", 1<<32-1))
			made.TimeoutMS = &timeout
		}
	case answered > 0:
		made.Kind, made.ID = Answer, answered
		if !isNull(said["error"]) {
			made.Failure, err = parseFailure(said["error"])
		}
	case !isNull(said["cancel"]):
		made.Kind, made.ID = Cancellation, number("cancel", IDMax)
	default:
		made.Kind = Notification
	}
	if bad == nil {
		bad = err
	}
	if bad != nil {
		return nil, bad
	}
	return made, nil
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func parseFailure(raw json.RawMessage) (*Failure, error) {
	said, err := parseObject(raw)
	if err != nil {
		return nil, &Malformed{"error"}
	}
	code, err := strconv.ParseUint(string(said["code"]), 10, 32)
	var message string
	if err != nil || !isNull(said["message"]) && json.Unmarshal(said["message"], &message) != nil {
		return nil, &Malformed{"error"}
	}
	return NewFailure(uint32(code), message), nil
}
