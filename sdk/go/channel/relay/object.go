package relay

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"
)

var b64u = base64.RawURLEncoding.Strict()

// decodeB64u refuses padding, stray bits, and line ends, which the platform's decoder passes over.
func decodeB64u(text string) ([]byte, bool) {
	raw, err := b64u.DecodeString(text)
	return raw, err == nil && b64u.EncodedLen(len(raw)) == len(text)
}

// object is JSON read as this wire has it: names are exact, of a repeated one the last counts, and a member that is absent or
// null has the zero of its type. The first member of another type is kept as bad.
type object struct {
	raw map[string]json.RawMessage
	bad string
}

var errNoObject = errors.New("no JSON object")

func parseObject(text []byte) (*object, error) {
	made := &object{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if !utf8.Valid(text) || decoder.Decode(&made.raw) != nil || made.raw == nil {
		return nil, errNoObject
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errNoObject
	}
	return made, nil
}

func (o *object) refuse(name string) {
	if o.bad == "" {
		o.bad = name
	}
}

func (o *object) isZero(name string) bool {
	raw := o.raw[name]
	return len(raw) == 0 || string(raw) == "null"
}

func (o *object) text(name string) (text string) {
	if !o.isZero(name) && (o.raw[name][0] != '"' || json.Unmarshal(o.raw[name], &text) != nil) {
		o.refuse(name)
	}
	return text
}

// needed is a text that is not empty.
func (o *object) needed(name string) string {
	text := o.text(name)
	if text == "" {
		o.refuse(name)
	}
	return text
}

func (o *object) whole(name string, bits int) int64 {
	if o.isZero(name) {
		return 0
	}
	number, err := strconv.ParseInt(string(o.raw[name]), 10, bits)
	if err != nil {
		o.refuse(name)
	}
	return number
}

func (o *object) suite(name string) uint16 {
	number := o.whole(name, 32)
	if number < 1 || number > 1<<16-1 {
		o.refuse(name)
	}
	return uint16(number)
}

func (o *object) suites(name string) (made []uint16) {
	if !o.isZero(name) && json.Unmarshal(o.raw[name], &made) != nil {
		o.refuse(name)
	}
	return made
}

func (o *object) bytes(name string) []byte {
	raw, is := decodeB64u(o.text(name))
	if !is {
		o.refuse(name)
	}
	return raw
}
