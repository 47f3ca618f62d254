package wire

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"unicode/utf8"
)

// ParseJSON reads one JSON value as spec/session.md#encodings has it: numbers stay [json.Number], of a repeated member the
// last counts, and 128 levels of nesting, numbers beyond a double, a byte order mark and text that is not UTF-8 are json_invalid.
func ParseJSON(data []byte) (any, error) {
	invalid := Refuse(CodeJSONInvalid)
	if !WellFormed(data, JSONDepthMax) {
		return nil, invalid
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, invalid
		}
		if number, ok := token.(json.Number); ok {
			if _, err := strconv.ParseFloat(string(number), 64); err != nil {
				return nil, invalid
			}
		}
	}
	decoder = json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil, invalid
	}
	return value, nil
}

// WellFormed says whether data is one JSON value (RFC 8259) in UTF-8, nested at most depthMax deep, without halves of surrogate pairs.
func WellFormed(data []byte, depthMax int) bool {
	return utf8.Valid(data) && json.Valid(data) && wellNested(data, depthMax)
}

// wellNested looks at valid JSON for what the library lets pass: too many levels, and halves of surrogate pairs.
func wellNested(data []byte, depthMax int) bool {
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			if data[i+1] != 'u' {
				i++
				continue
			}
			unit, _ := strconv.ParseUint(string(data[i+2:i+6]), 16, 16)
			i += 5
			if unit < 0xd800 || unit > 0xdfff {
				continue
			}
			if unit >= 0xdc00 || data[i+1] != '\\' || data[i+2] != 'u' {
				return false
			}
			low, err := strconv.ParseUint(string(data[i+3:i+7]), 16, 16)
			if err != nil || low < 0xdc00 || low > 0xdfff {
				return false
			}
			i += 6
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > depthMax {
				return false
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return true
}

// Whole reads a number of integer value, however written, of at most top.
func Whole(value any, top uint64) (uint64, bool) {
	number, ok := value.(json.Number)
	if !ok {
		return 0, false
	}
	if whole, err := strconv.ParseUint(string(number), 10, 64); err == nil {
		return whole, whole <= top
	}
	float, err := number.Float64()
	if err != nil || float < 0 || float != math.Trunc(float) || float >= 1<<64 {
		return 0, false
	}
	return uint64(float), uint64(float) <= top
}

// Members are those of a JSON object.
type Members map[string]any

// ParseObject reads a JSON object; another value is field_invalid.
func ParseObject(data []byte) (Members, error) {
	value, err := ParseJSON(data)
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, Refuse(CodeFieldInvalid)
	}
	return object, nil
}

// Text returns a member that is a string; null is as absent.
func (m Members) Text(name string) (string, bool) {
	text, ok := m[name].(string)
	return text, ok
}

// Has says whether a member is there and not null.
func (m Members) Has(name string) bool { return m[name] != nil }

// Names returns a member that is a list of least to most different strings, each of a form.
func (m Members) Names(name string, least, most int, valid func(string) bool) ([]string, bool) {
	list, ok := m[name].([]any)
	if !ok || len(list) < least || len(list) > most {
		return nil, false
	}
	names := make([]string, 0, len(list))
	for _, value := range list {
		text, ok := value.(string)
		if !ok || !valid(text) {
			return nil, false
		}
		for _, other := range names {
			if other == text {
				return nil, false
			}
		}
		names = append(names, text)
	}
	return names, true
}

// Base64 returns a member that is the canonical base64 of at least one byte.
func (m Members) Base64(name string) ([]byte, bool) {
	text, ok := m.Text(name)
	if !ok || text == "" {
		return nil, false
	}
	data, err := DecodeBase64(text)
	return data, err == nil
}
