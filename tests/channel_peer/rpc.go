package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

type rpcError struct {
	Code    uint32 `json:"code"`
	Message string `json:"message,omitempty"`
}

type envelope struct {
	TypeID     uint32          `json:"type_id"`
	RequestID  uint64          `json:"request_id"`
	ResponseTo uint64          `json:"response_to"`
	Payload    json.RawMessage `json:"payload"`
	Error      *rpcError       `json:"error,omitempty"`
}

// Types of calls that a server of this peer answers.
const (
	callEcho     = 1 // after a notification of type 2
	noticeFirst  = 2
	callSleep    = 5 // {"ms":N}
	callRefuse   = 6 // with error 1234
	callRelease  = 7 // streams of the kind "slow" go on
	callRekey    = 8 // the server's direction gets another key
	callNonsense = 9 // before the answer a frame that is no envelope
)

// Serves one stream, strictly one call after the other.
func (p *peer) serveRPC(stream io.ReadWriter) error {
	for {
		body, err := readFrame(stream, frameMax)
		if err != nil {
			return err
		}
		var asked envelope
		if json.Unmarshal(body, &asked) != nil {
			p.skipped.Add(1)
			continue
		}
		if asked.ResponseTo != 0 {
			continue
		}
		if asked.RequestID == 0 {
			p.notices.Add(1)
			continue
		}
		p.calls.Add(1)
		answer := envelope{TypeID: asked.TypeID, ResponseTo: asked.RequestID, Payload: asked.Payload}
		if err := p.answer(stream, &asked, &answer); err != nil {
			return err
		}
		if err := writeFrame(stream, answer); err != nil {
			return err
		}
	}
}

func (p *peer) answer(stream io.Writer, asked, answer *envelope) error {
	switch asked.TypeID {
	case callEcho:
		return writeFrame(stream, envelope{TypeID: noticeFirst, Payload: json.RawMessage(`{"first":true}`)})
	case callSleep:
		var how struct {
			Ms int64 `json:"ms"`
		}
		_ = json.Unmarshal(asked.Payload, &how)
		time.Sleep(time.Duration(how.Ms) * time.Millisecond)
	case callRefuse:
		answer.Payload, answer.Error = json.RawMessage("null"), &rpcError{1234, "refused"}
	case callRelease:
		p.releaseOnce.Do(func() { close(p.released) })
	case callRekey:
		return p.secure.record(flagRekey, nil)
	case callNonsense:
		return writeRaw(stream, []byte(`["no envelope"]`))
	default:
		answer.Payload, answer.Error = json.RawMessage("null"), &rpcError{404, "handler not found"}
	}
	return nil
}

// The client's side of a stream of calls, one at a time.
type caller struct {
	stream  io.ReadWriter
	next    uint64
	notices int
}

func (c *caller) call(kind uint32, payload string) (*envelope, error) {
	c.next++
	asked := envelope{TypeID: kind, RequestID: c.next, Payload: json.RawMessage(payload)}
	if err := writeFrame(c.stream, asked); err != nil {
		return nil, err
	}
	for {
		body, err := readFrame(c.stream, frameMax)
		if err != nil {
			return nil, err
		}
		var got envelope
		if json.Unmarshal(body, &got) != nil {
			continue
		}
		switch {
		case got.RequestID == 0 && got.ResponseTo == 0:
			c.notices++
		case got.RequestID == 0 && got.ResponseTo == c.next:
			return &got, nil
		default:
			return nil, fmt.Errorf("an answer to %d instead of %d, with request_id %d", got.ResponseTo, c.next, got.RequestID)
		}
	}
}
