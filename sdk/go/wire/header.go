package wire

import (
	"slices"
	"strings"
)

// Header names of the wires.
const (
	HeaderKid            = "X-Kid"
	HeaderIdempotencyKey = "X-Idempotency-Key"
	HeaderClientID       = "X-ClientId"
	HeaderNonce          = "X-Nonce"
	HeaderTimestamp      = "X-Timestamp"
	HeaderEncAlg         = "X-Enc-Alg"
	HeaderIV             = "X-IV"
	HeaderTag            = "X-Tag"
	HeaderAAD            = "X-AAD"
	HeaderSeal           = "X-Seal"
	HeaderSealed         = "X-Sealed"
)

// A256GCM is the value of X-Enc-Alg, and an encAlg of wires 1 and 2.
const A256GCM = "A256GCM"

var sealing = []string{HeaderKid, HeaderIdempotencyKey, HeaderClientID, HeaderNonce, HeaderTimestamp, HeaderEncAlg, HeaderIV,
	HeaderTag, HeaderAAD, HeaderSeal, HeaderSealed}

// IsSealing says whether a header, in whichever case, is one of the sealing wires. None of them reaches a handler.
func IsSealing(name string) bool {
	return slices.ContainsFunc(sealing, func(known string) bool { return strings.EqualFold(name, known) })
}

// Headers are those of a message. [net/http.Header] is one; names compare without case.
type Headers interface {
	// Values gives what stands under a name, in order.
	Values(name string) []string
}

// Header is one name and value.
type Header struct{ Name, Value string }

// HeaderList is headers in order, for clients, vectors and tests.
type HeaderList []Header

// Values gives what stands under a name, which compares without case.
func (l HeaderList) Values(name string) []string {
	var found []string
	for _, header := range l {
		if strings.EqualFold(header.Name, name) {
			found = append(found, header.Value)
		}
	}
	return found
}

// Required returns a header that must be there once, not empty, of printable ASCII and tabs.
func Required(headers Headers, name string) (string, error) {
	value, there, err := Optional(headers, name)
	if err == nil && (!there || value == "") {
		err = &Error{CodeHeaderMissing, name}
	}
	return value, err
}

// Optional returns a header that may be absent; one that is there twice or holds other bytes is header_invalid.
func Optional(headers Headers, name string) (value string, there bool, err error) {
	values := headers.Values(name)
	if len(values) == 0 {
		return "", false, nil
	}
	if len(values) > 1 {
		return "", true, &Error{CodeHeaderInvalid, name}
	}
	for i := range len(values[0]) {
		if b := values[0][i]; b != '\t' && (b < ' ' || b > '~') {
			return "", true, &Error{CodeHeaderInvalid, name}
		}
	}
	return values[0], true, nil
}

// Version is a wire's number.
type Version uint8

// The wires.
const (
	Wire1 Version = 1
	Wire2 Version = 2
	Wire3 Version = 3
	Wire4 Version = 4
)

// KidPrefix is the beginning of X-Kid, before a session id or, on wire 4, before the name of a key.
func (v Version) KidPrefix() string {
	if v == Wire4 {
		return "hpke:"
	}
	return "session:"
}

// VersionOf tells wires 1 and 2 apart: wire 1 has X-Nonce and no X-Idempotency-Key.
func VersionOf(headers Headers) Version {
	if len(headers.Values(HeaderNonce)) > 0 && len(headers.Values(HeaderIdempotencyKey)) == 0 {
		return Wire1
	}
	return Wire2
}
