package wire

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
)

var strict = base64.StdEncoding.Strict()

// EncodeBase64 gives RFC 4648 section 4, padded.
func EncodeBase64(data []byte) string { return strict.EncodeToString(data) }

// DecodeBase64 reads the one canonical form: standard alphabet, padded, unused bits zero, nothing in between.
func DecodeBase64(text string) ([]byte, error) {
	// The library passes over line ends.
	if strings.ContainsAny(text, "\r\n") {
		return nil, Refuse(CodeBase64Invalid)
	}
	data, err := strict.DecodeString(text)
	if err != nil {
		return nil, Refuse(CodeBase64Invalid)
	}
	return data, nil
}

// NonceText gives 16 random bytes as 32 hexadecimal digits; an answer's begins with r-.
func NonceText(random [16]byte, answer bool) string {
	if answer {
		return "r-" + hex.EncodeToString(random[:])
	}
	return hex.EncodeToString(random[:])
}

// IdempotencyKey writes a message's stamp and nonce as that header carries them.
func IdempotencyKey(stampMs uint64, random [16]byte, answer bool) string {
	var space [64]byte
	text := append(strconv.AppendUint(space[:0], stampMs, 10), '.')
	if answer {
		text = append(text, "r-"...)
	}
	return string(hex.AppendEncode(text, random[:]))
}

func nonceWellFormed(nonce string, lenMin int) bool {
	if len(nonce) < lenMin || len(nonce) > NonceLenMax {
		return false
	}
	return !strings.ContainsFunc(nonce, func(r rune) bool { return !isNameRune(r) })
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// CheckRequestNonce refuses a malformed nonce and one of the kind that answers carry. spec/session.md#nonces
func CheckRequestNonce(nonce string, lenMin int) error {
	if !nonceWellFormed(nonce, lenMin) {
		return Refuse(CodeNonceInvalid)
	}
	// Without case: a store or a client that folds case must not make the two kinds meet.
	if len(nonce) >= 2 && strings.EqualFold(nonce[:2], "r-") {
		return Refuse(CodeNonceReserved)
	}
	return nil
}

// CheckAnswerNonce refuses a malformed nonce and one of a request, which would be an echo.
func CheckAnswerNonce(nonce string, lenMin int) error {
	if !nonceWellFormed(nonce, lenMin) {
		return Refuse(CodeNonceInvalid)
	}
	if !strings.HasPrefix(nonce, "r-") {
		return Refuse(CodeAnswerMismatch)
	}
	return nil
}

// IsProblemNonce says whether a nonce is well-formed and of a sealed problem of wire 4. spec/one-shot.md#the-answer
func IsProblemNonce(nonce string) bool {
	return nonceWellFormed(nonce, NativeNonceLenMin) && strings.HasPrefix(nonce, "p-")
}

// ValidPSKID says whether it is 1 to 64 bytes of 0x21 to 0x7e.
func ValidPSKID(id string) bool {
	return id != "" && len(id) <= PSKIDLenMax && !strings.ContainsFunc(id, func(r rune) bool { return r < '!' || r > '~' })
}

// SplitIdempotencyKey gives timestamp and nonce: two non-empty parts and one dot.
func SplitIdempotencyKey(key string) (stamp, nonce string, err error) {
	stamp, nonce, _ = strings.Cut(key, ".")
	if stamp == "" || nonce == "" || strings.Contains(nonce, ".") {
		return "", "", Refuse(CodeIdempotencyKeyShape)
	}
	return stamp, nonce, nil
}

// ParseStamp reads 1 to 15 decimal digits: milliseconds of the epoch. Leading zeros are allowed.
func ParseStamp(text string) (uint64, error) {
	if len(text) < 1 || len(text) > StampDigitsMax {
		return 0, Refuse(CodeTimestampInvalid)
	}
	ms, err := strconv.ParseUint(text, 10, 64) // takes digits alone
	if err != nil {
		return 0, Refuse(CodeTimestampInvalid)
	}
	return ms, nil
}

// SessionIDOf gives S- and 32 hexadecimal digits, A- for an anonymous session.
func SessionIDOf(random [16]byte, anonymous bool) string {
	if anonymous {
		return "A-" + hex.EncodeToString(random[:])
	}
	return "S-" + hex.EncodeToString(random[:])
}

// ValidSessionID says whether it is S- or A- and 32 lower-case hexadecimal digits.
func ValidSessionID(id string) bool {
	return len(id) == 34 && (id[:2] == "S-" || id[:2] == "A-") && lowerHex(id[2:])
}

func lowerHex(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}

// Kid returns the X-Kid of a session's messages.
func Kid(sessionID string) string { return Wire3.KidPrefix() + sessionID }

// SessionIDOfKid takes the prefix off. What is left may be malformed: such a session is unknown.
func SessionIDOfKid(kid string) (string, error) {
	id, found := strings.CutPrefix(kid, Wire3.KidPrefix())
	if !found {
		return "", Refuse(CodeKidPrefix)
	}
	return id, nil
}

// ValidClientID says whether it is 1 to 256 bytes of printable ASCII without a vertical bar.
func ValidClientID(id string) bool {
	if id == "" || len(id) > ClientIDLenMax {
		return false
	}
	for i := range len(id) {
		if id[i] < ' ' || id[i] > '~' || id[i] == '|' {
			return false
		}
	}
	return true
}

// ValidKeyID says whether it is 32 lower-case hexadecimal digits.
func ValidKeyID(id string) bool { return len(id) == 32 && lowerHex(id) }

// ValidAlgorithmName says whether it is 1 to 32 characters of A-Z a-z 0-9 _ - +.
func ValidAlgorithmName(name string) bool {
	return name != "" && ValidSuiteName(strings.ReplaceAll(name, "+", "-"))
}

// ValidSuiteName says whether it is 1 to 32 characters of A-Z a-z 0-9 _ -.
func ValidSuiteName(name string) bool {
	return name != "" && len(name) <= SuiteNameLenMax && !strings.ContainsFunc(name, func(r rune) bool { return !isNameRune(r) })
}
