package frame

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestTheExamplesOfTheSpecAreReadAndWritten(t *testing.T) {
	prologue, err := Prologue{"rpc", 1}.Encode()
	if err != nil || string(prologue) != "\x00\x00\x00\x14{\"kind\":\"rpc\",\"v\":1}" {
		t.Errorf("%q: %v", prologue, err)
	}
	limit := uint32(250)
	for text, want := range map[string]*Envelope{
		`{"type_id":1,"request_id":7,"response_to":0,"payload":{"a":1}}`:               {Kind: Request, ID: 7, TypeID: 1, Payload: json.RawMessage(`{"a":1}`)},
		`{"type_id":1,"request_id":8,"response_to":0,"timeout_ms":250,"payload":null}`: {Kind: Request, ID: 8, TypeID: 1, TimeoutMS: &limit},
		`{"type_id":1,"request_id":0,"response_to":7,"payload":{"b":2}}`:               {Kind: Answer, ID: 7, TypeID: 1, Payload: json.RawMessage(`{"b":2}`)},
		`{"type_id":9,"request_id":0,"response_to":8,"error":{"code":404,"message":"handler not found"},"payload":null}`: {
			Kind: Answer, ID: 8, TypeID: 9, Failure: &Failure{404, "handler not found"}},
		`{"type_id":2,"request_id":0,"response_to":0,"payload":"news"}`:          {Kind: Notification, TypeID: 2, Payload: json.RawMessage(`"news"`)},
		`{"type_id":0,"request_id":0,"response_to":0,"cancel":8,"payload":null}`: {Kind: Cancellation, ID: 8},
	} {
		frame, err := want.Append(nil, Max)
		if err != nil || string(frame[HeaderLen:]) != text {
			t.Errorf("%s: %v", frame, err)
		}
		read, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		again, _ := read.Append(nil, Max)
		if !bytes.Equal(again, frame) {
			t.Errorf("%s is read as %s", frame, again)
		}
	}
}

func TestAMalformedEnvelopeIsRejectedWithTheMemberAtFault(t *testing.T) {
	for text, member := range map[string]string{
		`7`: "JSON", `null`: "JSON", `{"type_id":`: "JSON", `{"type_id":-1}`: "type_id", `{"type_id":4294967296}`: "type_id",
		`{"request_id":"1"}`: "request_id", `{"request_id":9007199254740992}`: "request_id", `{"request_id":1.5}`: "request_id",
		`{"request_id":1,"response_to":1}`: "response_to", `{"request_id":1,"timeout_ms":-1}`: "timeout_ms",
		`{"response_to":1,"error":{"message":"x"}}`: "error", `{"response_to":1,"error":7}`: "error", `{"cancel":"x"}`: "cancel",
		"{\"payload\":\"\xff\"}": "JSON",
	} {
		_, err := Parse([]byte(text))
		var malformed *Malformed
		if !errors.As(err, &malformed) || !strings.Contains(malformed.Member, member) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if read, err := Parse([]byte(`{"Request_ID":1,"type_id":3}`)); err != nil || read.Kind != Notification {
		t.Error("a name in another case is another member:", err)
	}
}

func TestAMalformedPrologueIsRejectedWithTheMemberAtFault(t *testing.T) {
	if read, err := ParsePrologue([]byte(`{"kind":"cat","v":2,"more":1}`)); err != nil || read != (Prologue{"cat", 2}) {
		t.Errorf("%v: %v", read, err)
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"kind":"","v":1}`, `{"kind":"a b","v":1}`, `{"kind":"a","v":0}`, `{"kind":"a","v":4294967296}`,
		`{"kind":7,"v":1}`, `{"kind":"` + strings.Repeat("x", 65) + `","v":1}`} {
		if _, err := ParsePrologue([]byte(bad)); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func TestAFrameOverItsBoundIsRejectedBeforeMemoryIsAllocated(t *testing.T) {
	if _, err := Read(strings.NewReader("\xff\xff\xff\xff"), nil, Max); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	if _, err := Read(strings.NewReader("\x00\x00\x00\x09short"), nil, Max); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if _, err := Append(nil, make([]byte, Max+1), Max); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	if kept := NewFailure(1, strings.Repeat("é", 1000)); len(kept.Message) > messageMax || len(kept.Message) < messageMax-1 {
		t.Error(len(kept.Message))
	}
}
