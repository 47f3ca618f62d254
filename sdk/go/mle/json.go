package mle

import (
	"bytes"
	"encoding/json"

	"sealway.dev/go/wire"
)

// depthMax is the deepest nesting of JSON.
const depthMax = 64

// readObject returns the members of a JSON object of at most so many members, by their unescaped names; else why it is none. A name
// that stands twice is a defect.
func readObject(data []byte, membersMax int) (members map[string]json.RawMessage, why string) {
	if !wire.WellFormed(data, depthMax) {
		return nil, "the text is not JSON in UTF-8, or nested more than 64 deep"
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, "the text is not an object"
	}
	members = map[string]json.RawMessage{}
	for decoder.More() {
		token, _ := decoder.Token()
		name, _ := token.(string)
		var value json.RawMessage
		if decoder.Decode(&value) != nil {
			return nil, "the text is not JSON"
		}
		if _, there := members[name]; there {
			return nil, "a member stands twice: " + quote(name)
		}
		if members[name] = value; len(members) > membersMax {
			return nil, "there are more members than one"
		}
	}
	return members, ""
}

// textOf returns the content of a string of JSON.
func textOf(value json.RawMessage) (text string, isText bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	return text, json.Unmarshal(value, &text) == nil
}

// jsonText returns a text as a string of JSON.
func jsonText(text string) []byte {
	data, _ := json.Marshal(text) // cannot fail
	return data
}
