package channel

import (
	"errors"
	"fmt"
	"strings"

	"sealway.dev/go/channel/protocol"
)

// Stage is how far it had come when something failed.
type Stage string

// The stages, in their order.
const (
	StageGrant     Stage = "grant"
	StageConnect   Stage = "connect"
	StageAttach    Stage = "attach"
	StageHandshake Stage = "handshake"
	StageRecord    Stage = "record"
	StageStream    Stage = "stream"
	StageRPC       Stage = "rpc"
)

// Error is why a channel, or something on it, did not come about or is over. It holds no key, no token and nothing that was
// decrypted.
type Error struct {
	// Stage is how far it had come.
	Stage Stage
	// Code is stable, for programs: of spec/registry.toml, tables channel_errors and channel_client_errors, or the words of a
	// relay's reason ("token replay" is token_replay).
	Code string
	// Text is a sentence, for people.
	Text string
	// cause is what the platform said, where it may be looked at: a context's error, a refusal of protocol.
	cause error
}

// Error is the sentence with its stage and code.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%s)", e.Stage, e.Text, e.Code) }

// Unwrap gives what lies below, such as a context's error.
func (e *Error) Unwrap() error { return e.cause }

// Is makes errors.Is compare codes.
func (e *Error) Is(target error) bool {
	other, is := target.(*Error)
	return is && other.Code == e.Code && (other.Stage == "" || other.Stage == e.Stage)
}

// Signatures, keys and configurations do not change by themselves.
var lasting = map[string]bool{
	"address_invalid": true, "channel_mismatch": true, "forbidden": true, "grant_invalid": true, "invalid_attach": true,
	"role_mismatch": true, "suite_unsupported": true, "tls_untrusted": true, "unauthorized": true, "upgrade_refused": true,
}

// IsPassing says whether the same may work a little later: nobody was there, a bound was reached, a connection broke.
func (e *Error) IsPassing() bool {
	// A rejected handshake or record is the fault of this peer: the next peer is another.
	return e.Stage == StageHandshake || e.Stage == StageRecord || !lasting[e.Code]
}

func fault(stage Stage, code, format string, args ...any) *Error {
	return &Error{Stage: stage, Code: code, Text: printable(fmt.Sprintf(format, args...))}
}

// caused is a fault whose cause may be asked for.
func caused(cause error, stage Stage, code, format string, args ...any) *Error {
	made := fault(stage, code, format, args...)
	made.cause = cause
	return made
}

func ofProtocol(err error) *Error {
	var refused *protocol.Error
	if !errors.As(err, &refused) {
		return caused(err, StageHandshake, string(protocol.ChannelProvider), "a crypto module refused to work")
	}
	return caused(err, Stage(refused.Stage()), string(refused.Code), "%s", strings.TrimPrefix(refused.Error(), "channel: "))
}

// ofClose is a close frame of the peer or the relay. A stranger's words become the code: bounded, and of no other signs.
func ofClose(stage Stage, code int, reason string) *Error {
	switch {
	case code == 1000:
		return fault(stage, "ended", "the channel was ended: %s", reason)
	case reason == "":
		return fault(stage, "closed", "the connection was closed with the code %d", code)
	}
	word := func(sign rune) rune {
		if sign >= 'a' && sign <= 'z' || sign >= '0' && sign <= '9' {
			return sign
		}
		return '_'
	}
	made := strings.Map(word, strings.ToLower(reason))
	return fault(stage, made[:min(len(made), 64)], "the connection was closed with the code %d: %s", code, reason)
}

// printable keeps what strangers say from moving a terminal's cursor.
func printable(text string) string {
	return strings.Map(func(sign rune) rune {
		if sign < 0x20 || sign >= 0x7f && sign < 0xa0 {
			return ' '
		}
		return sign
	}, text)
}
