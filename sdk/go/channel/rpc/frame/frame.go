package frame

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// Bounds in bytes: of a frame of calls, of a prologue.
const (
	Max         = 1 << 20
	PrologueMax = 8192
	kindMax     = 64
)

// HeaderLen is the length before a frame's JSON, in bytes.
const HeaderLen = 4

// IDMax is the highest id of a request: the highest whole number that every reader of JSON keeps.
const IDMax = 1<<53 - 1

// ErrTooLong says that a frame is beyond its bound. Where the reader meets it the stream is over: the place of the next frame
// is not known.
var ErrTooLong = errors.New("frame is longer than its bound")

// Malformed says what is wrong with a frame's JSON. The stream may go on: the next frame's place is known.
type Malformed struct{ Member string }

// Error is a sentence, for people.
func (m *Malformed) Error() string { return "member " + m.Member + " of a frame is absent or wrong" }

// Append appends a frame.
func Append(dst, body []byte, lenMax int) ([]byte, error) {
	if len(body) > lenMax {
		return dst, ErrTooLong
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(body))), body...), nil
}

// Read reads a frame's JSON into buffer where it has room. A length beyond the bound is refused before room is made for it, and
// room is made as bytes come, not as the length promises.
func Read(from io.Reader, buffer []byte, lenMax int) ([]byte, error) {
	var header [HeaderLen]byte
	if _, err := io.ReadFull(from, header[:]); err != nil {
		return nil, err
	}
	length := int64(binary.BigEndian.Uint32(header[:]))
	if length > int64(lenMax) {
		return nil, ErrTooLong
	}
	into := bytes.NewBuffer(buffer[:0])
	if read, err := io.CopyN(into, from, length); err != nil {
		return nil, fmt.Errorf("a frame broke off after %d of %d bytes: %w", read, length, io.ErrUnexpectedEOF)
	}
	return into.Bytes(), nil
}

// Prologue says what a stream is for. spec/rpc.md#prologue
type Prologue struct {
	// Kind has 1 to 64 visible ASCII characters.
	Kind string `json:"kind"`
	// Version is at least 1.
	Version uint32 `json:"v"`
}

func isKind(kind string) bool {
	for _, sign := range []byte(kind) {
		if sign < 0x21 || sign > 0x7e {
			return false
		}
	}
	return kind != "" && len(kind) <= kindMax
}

// Encode returns the whole frame.
func (p Prologue) Encode() ([]byte, error) {
	if !isKind(p.Kind) {
		return nil, &Malformed{"kind"}
	}
	if p.Version < 1 {
		return nil, &Malformed{"v"}
	}
	body, err := marshal(p)
	if err != nil {
		return nil, err
	}
	return Append(nil, body, PrologueMax)
}

// ParsePrologue reads the JSON of one. Unknown members are ignored.
func ParsePrologue(text []byte) (Prologue, error) {
	said, err := parseObject(text)
	if err != nil {
		return Prologue{}, err
	}
	var made Prologue
	if raw := said["kind"]; len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &made.Kind) != nil || !isKind(made.Kind) {
		return Prologue{}, &Malformed{"kind"}
	}
	version, err := strconv.ParseUint(string(said["v"]), 10, 32)
	if err != nil || version < 1 {
		return Prologue{}, &Malformed{"v"}
	}
	made.Version = uint32(version)
	return made, nil
}

// parseObject reads names exactly, where the platform's reader of structs takes them in any case.
func parseObject(text []byte) (map[string]json.RawMessage, error) {
	var made map[string]json.RawMessage
	if !utf8.Valid(text) || json.Unmarshal(text, &made) != nil || made == nil {
		return nil, &Malformed{"(its JSON)"}
	}
	return made, nil
}

func marshal(what any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(what); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
