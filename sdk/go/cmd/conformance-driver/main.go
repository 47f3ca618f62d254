// Conformance-driver plays this SDK's pure core by JSON lines, as sdk/conformance/README.md says.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

const lineMax = 64 << 20

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, lineMax)
	out := bufio.NewWriter(os.Stdout)
	d := newDriver()
	for lines.Scan() {
		answer, _ := json.Marshal(d.answer(lines.Bytes()))
		out.Write(append(answer, '\n'))
		if err := out.Flush(); err != nil {
			os.Exit(1)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "conformance-driver:", err)
		os.Exit(1)
	}
}

// fault is what the driver cannot do; it is no refusal.
type fault string

func (f fault) Error() string { return string(f) }

type result map[string]any

// request has every member of every op; those that an op needs and that are absent are faults.
type request struct {
	Op       string          `json:"op"`
	Wire     *uint8          `json:"wire"`
	Path     *string         `json:"path"`
	ClientID *string         `json:"client_id"`
	TTLSec   *uint32         `json:"ttl_sec"`
	NowMs    *uint64         `json:"now_ms"`
	Suite    *string         `json:"suite"`
	Suites   []string        `json:"suites"`
	Trusted  []hexText       `json:"trusted_hex"`
	Headers  [][2]string     `json:"headers"`
	Body     *hexText        `json:"body_hex"`
	Identity *hexText        `json:"identity_hex"`
	Handle   *int            `json:"handle"`
	Status   *int            `json:"status"`
	Session  json.RawMessage `json:"session"`
	Method   *string         `json:"method"`
	Target   *string         `json:"target"`
	Call     *int            `json:"call"`
	Config   *hexText        `json:"config_hex"`
	PSKID    *string         `json:"psk_id"`
	PSK      *hexText        `json:"psk_hex"`
}

type hexText []byte

func (h *hexText) UnmarshalJSON(data []byte) error {
	var text string
	err := json.Unmarshal(data, &text)
	if err == nil {
		*h, err = hex.DecodeString(text)
	}
	return err
}

func need[T any](value *T, name string) T {
	if value == nil {
		panic(fault(name + " is missing"))
	}
	return *value
}

func (r *request) headers() wire.HeaderList {
	if r.Headers == nil {
		panic(fault("headers is missing"))
	}
	list := make(wire.HeaderList, len(r.Headers))
	for i, pair := range r.Headers {
		list[i] = wire.Header{Name: pair[0], Value: bytesOf(pair[1])}
	}
	return list
}

func (r *request) record() *session.Record {
	record, err := session.DecodeRecord(r.Session)
	if err != nil {
		panic(fault("session: " + err.Error()))
	}
	return record
}

func (r *request) handle(data json.RawMessage) int {
	var handle int
	if json.Unmarshal(data, &handle) != nil {
		panic(fault("session is no handle"))
	}
	return handle
}

func pairs(list wire.HeaderList) [][2]string {
	out := make([][2]string, len(list))
	for i, header := range list {
		out[i] = [2]string{header.Name, textOf(header.Value)}
	}
	return out
}

// bytesOf makes of each character the byte of its number, as the README says of values.
func bytesOf(text string) string {
	out := make([]byte, 0, len(text))
	for _, character := range text {
		if character > 0xff {
			panic(fault("a value has a character that is no byte"))
		}
		out = append(out, byte(character))
	}
	return string(out)
}

func textOf(value string) string {
	out := make([]rune, len(value))
	for i := range len(value) {
		out[i] = rune(value[i])
	}
	return string(out)
}

func hexOf(data []byte) string { return hex.EncodeToString(data) }

func (d *driver) answer(line []byte) (answer result) {
	defer func() {
		if what := recover(); what != nil {
			told, ok := what.(fault)
			if !ok {
				panic(what)
			}
			answer = result{"fault": string(told)}
		}
	}()
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return result{"fault": "no request: " + err.Error()}
	}
	run, known := d.ops()[r.Op]
	if !known {
		return result{"fault": "unknown op"}
	}
	ok, err := run(&r)
	var refused *wire.Error
	switch {
	case errors.As(err, &refused):
		return result{"error": string(refused.Code)}
	case err != nil:
		return result{"fault": err.Error()}
	}
	return result{"ok": ok}
}
