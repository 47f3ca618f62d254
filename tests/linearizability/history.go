package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// record is one operation as a process saw it, a line of the history.
type record struct {
	// Process is the store instance that was asked.
	Process int `json:"process"`
	// Op is put, get, delete or reserve.
	Op string `json:"op"`
	// Key is a session's id, or a nonce.
	Key string `json:"key"`
	// Input is the record that a put keeps; empty for the others.
	Input string `json:"input"`
	// Output: of put "ok"; of get the record, or "" for none; of delete "true" or "false"; of reserve "fresh" or
	// "replayed".
	Output string `json:"output"`
	// Unknown says that the operation failed: it may have happened, then or at any time later, or never.
	Unknown bool `json:"unknown"`
	// Strict says that nothing had been lost when a reserve was answered: a refusal must have a cause.
	Strict bool `json:"strict"`
	// CallNs and ReturnNs are on one clock for all processes.
	CallNs   int64 `json:"call_ns"`
	ReturnNs int64 `json:"return_ns"`
}

// outputs lists what each operation may say; nil means anything.
var outputs = map[string][]string{
	"put":     {"ok"},
	"get":     nil,
	"delete":  {"true", "false"},
	"reserve": {"fresh", "replayed"},
}

func (r *record) check() error {
	allowed, known := outputs[r.Op]
	switch {
	case !known:
		return fmt.Errorf("no such operation: %q", r.Op)
	case r.Key == "":
		return fmt.Errorf("%s without a key", r.Op)
	case r.ReturnNs < r.CallNs:
		return fmt.Errorf("%s returns before it is called", r.Op)
	case r.Unknown || allowed == nil:
		return nil
	}
	for _, output := range allowed {
		if r.Output == output {
			return nil
		}
	}
	return fmt.Errorf("%s cannot say %q", r.Op, r.Output)
}

// read takes a history, a JSON object a line. A line that is none is an error: a history with holes proves nothing.
func read(from io.Reader) ([]record, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	var history []record
	for number := 1; lines.Scan(); number++ {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		history = append(history, r)
	}
	return history, lines.Err()
}
