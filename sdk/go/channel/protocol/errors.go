package protocol

import "fmt"

// Code is a stable name of spec/registry.toml, table channel_errors.
type Code string

// Every way in which a channel refuses.
const (
	SettingInvalid        Code = "setting_invalid"
	HandshakeFrameInvalid Code = "handshake_frame_invalid"
	HandshakeTooLarge     Code = "handshake_too_large"
	HandshakeUnexpected   Code = "handshake_unexpected"
	HandshakeJSONInvalid  Code = "handshake_json_invalid"
	HandshakeFieldInvalid Code = "handshake_field_invalid"
	VersionMismatch       Code = "version_mismatch"
	RoleMismatch          Code = "role_mismatch"
	ChannelMismatch       Code = "channel_mismatch"
	SuiteMismatch         Code = "suite_mismatch"
	InitChanged           Code = "init_changed"
	HandshakeIDMismatch   Code = "handshake_id_mismatch"
	HandshakeTimestamp    Code = "handshake_timestamp"
	InitExpired           Code = "init_expired"
	HandshakeUnauthentic  Code = "handshake_unauthentic"
	PeerKeyInvalid        Code = "peer_key_invalid"
	PeerKeyUnpinned       Code = "peer_key_unpinned"
	Unconfirmed           Code = "unconfirmed"
	HandshakeState        Code = "handshake_state"
	RecordTruncated       Code = "record_truncated"
	RecordTooLarge        Code = "record_too_large"
	RecordInvalid         Code = "record_invalid"
	RecordFlags           Code = "record_flags"
	RecordReplayed        Code = "record_replayed"
	RecordMissing         Code = "record_missing"
	RecordReflected       Code = "record_reflected"
	RecordUnsealable      Code = "record_unsealable"
	RecordContent         Code = "record_content"
	RekeyOverdue          Code = "rekey_overdue"
	RecordsExhausted      Code = "records_exhausted"
	ChannelClosed         Code = "channel_closed"
	ContentUnsupported    Code = "content_unsupported"
	ContentTooLarge       Code = "content_too_large"
	ChannelProvider       Code = "channel_provider"
)

type meaning struct{ stage, blame, text string }

var meanings = map[Code]meaning{
	SettingInvalid:        {"handshake", "caller", "a setting is absent or out of bounds"},
	HandshakeFrameInvalid: {"handshake", "peer", "not a handshake frame"},
	HandshakeTooLarge:     {"handshake", "limit", "handshake message is over its bound"},
	HandshakeUnexpected:   {"handshake", "peer", "handshake message is not the one that is due"},
	HandshakeJSONInvalid:  {"handshake", "peer", "handshake message is not JSON"},
	HandshakeFieldInvalid: {"handshake", "peer", "a member of a handshake message is absent or invalid"},
	VersionMismatch:       {"handshake", "peer", "handshake has another version"},
	RoleMismatch:          {"handshake", "peer", "peer has the wrong role"},
	ChannelMismatch:       {"handshake", "peer", "peer means another channel"},
	SuiteMismatch:         {"handshake", "peer", "peer uses another suite"},
	InitChanged:           {"handshake", "peer", "a second Init differs from the first"},
	HandshakeIDMismatch:   {"handshake", "peer", "Ack belongs to another handshake"},
	HandshakeTimestamp:    {"handshake", "expiry", "timestamp is outside the window"},
	InitExpired:           {"handshake", "expiry", "the channel's time to begin is over"},
	HandshakeUnauthentic:  {"handshake", "crypto", "handshake does not authenticate"},
	PeerKeyInvalid:        {"handshake", "crypto", "peer's public key is invalid"},
	PeerKeyUnpinned:       {"handshake", "peer", "peer has another static key than the pinned one"},
	Unconfirmed:           {"handshake", "peer", "peer's first record confirms nothing"},
	HandshakeState:        {"handshake", "caller", "handshake is not at this step"},
	RecordTruncated:       {"record", "peer", "record is cut off, or holds more than it says"},
	RecordTooLarge:        {"record", "limit", "record is over its bound"},
	RecordInvalid:         {"record", "peer", "not a record"},
	RecordFlags:           {"record", "peer", "record has unknown flags"},
	RecordReplayed:        {"record", "peer", "record was read before"},
	RecordMissing:         {"record", "peer", "a record is missing before this one"},
	RecordReflected:       {"record", "peer", "a record of this side came back"},
	RecordUnsealable:      {"record", "crypto", "record does not open"},
	RecordContent:         {"record", "peer", "record holds what no sender writes"},
	RekeyOverdue:          {"record", "peer", "sender has used its key for too many records"},
	RecordsExhausted:      {"record", "limit", "no sequence number is left"},
	ChannelClosed:         {"record", "caller", "the channel is closed"},
	ContentUnsupported:    {"record", "caller", "the profile has no record for this"},
	ContentTooLarge:       {"record", "caller", "content is longer than a record holds"},
	ChannelProvider:       {"handshake", "crypto", "a crypto module refused to work"},
}

// Error is a refusal. It holds no secret and nothing that was decrypted.
type Error struct {
	// Code is stable, for programs.
	Code Code
	// Field is the setting or member at fault, where there is one.
	Field string
}

// Error is a sentence, for people.
func (e *Error) Error() string {
	text := meanings[e.Code].text
	if e.Field != "" {
		text = fmt.Sprintf("%s: %s", text, e.Field)
	}
	return fmt.Sprintf("channel: %s (%s)", text, e.Code)
}

// Stage is how far the channel had come: handshake or record.
func (e *Error) Stage() string { return meanings[e.Code].stage }

// Blame says whose doing it is: peer, caller, crypto, expiry or limit.
func (e *Error) Blame() string { return meanings[e.Code].blame }

// Is makes errors.Is compare codes.
func (e *Error) Is(target error) bool {
	other, is := target.(*Error)
	return is && other.Code == e.Code && (other.Field == "" || other.Field == e.Field)
}

func fail(code Code) error { return &Error{Code: code} }

func failAt(code Code, field string) error { return &Error{Code: code, Field: field} }
