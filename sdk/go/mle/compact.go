package mle

import (
	"bytes"
	"encoding/base64"
	"mime"
	"slices"

	"sealway.dev/go/wire"
)

var strict = base64.RawURLEncoding.Strict()

// splitToken splits a token at its dots. The parts are not decoded. spec/mle.md#compact-form
func splitToken(token []byte) (parts [5][]byte, err error) {
	// Counted first: a token of a million dots costs one pass and no memory.
	if bytes.Count(token, []byte{'.'}) != 4 {
		return parts, refuse(ClassShape, "the token has not five parts")
	}
	return [5][]byte(bytes.Split(token, []byte{'.'})), nil
}

// decodePart decodes a part of a token: canonical base64url without padding, with + and / for - and _ where a profile reads them.
func (p Profile) decodePart(part []byte) ([]byte, error) {
	if p.hasMixedLetters && bytes.ContainsAny(part, "+/") {
		part = bytes.ReplaceAll(bytes.ReplaceAll(part, []byte{'+'}, []byte{'-'}), []byte{'/'}, []byte{'_'})
	}
	// The library passes over line ends.
	if !bytes.ContainsAny(part, "\r\n") {
		// Room for a tag of GCM behind a ciphertext.
		data := make([]byte, strict.DecodedLen(len(part)), strict.DecodedLen(len(part))+16)
		if _, err := strict.Decode(data, part); err == nil {
			return data, nil
		}
	}
	return nil, refuse(ClassBase64, "a part of the token is not canonical base64url without padding")
}

// bareTypes are the media types of a body that is a token. The second is registered for the JSON form of JOSE; Wise uses it for the
// compact one, and UK Open Banking the third.
var bareTypes = []string{"application/jose", "application/jose+json", "application/jose+jwe"}

// IsToken says whether a message has the form of the profile: the one member in its body, or the media type of a bare token.
func (p Profile) IsToken(message Message, headers wire.Headers, body []byte) bool {
	if p.side(message).member != "" {
		_, err := p.unwrapBody(message, body)
		return err == nil
	}
	kind := headers.Values("Content-Type")
	if len(kind) != 1 {
		return false
	}
	essence, _, _ := mime.ParseMediaType(kind[0])
	return slices.Contains(bareTypes, essence)
}

// unwrapBody returns the token of a body. Another member beside it is not protected, so there must be none. spec/mle.md#bodies
func (p Profile) unwrapBody(message Message, body []byte) ([]byte, error) {
	name := p.side(message).member
	if name == "" {
		return body, nil
	}
	members, why := readObject(body, 1)
	if why != "" {
		return nil, refuse(ClassJSON, "the body is not an object with the token as its sole member: %s", why)
	}
	value, there := members[name]
	if !there {
		return nil, refuse(ClassJSON, "the sole member of the body is not %s", quote(name))
	}
	token, isText := textOf(value)
	if !isText {
		return nil, refuse(ClassJSON, "the token is not a string")
	}
	return []byte(token), nil
}

// wrapToken returns the body with a token. A token needs no escape.
func (p Profile) wrapToken(message Message, token []byte) []byte {
	name := p.side(message).member
	if name == "" {
		return token
	}
	return slices.Concat([]byte("{"), jsonText(name), []byte(`:"`), token, []byte(`"}`))
}
