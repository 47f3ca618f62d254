package wire

// Code is a stable name of a refusal, one of spec/registry.toml. It is an error itself, so that errors.Is finds it.
type Code string

// The codes of sessions. What a peer is told is coarser.
const (
	CodeHeaderMissing          Code = "header_missing"
	CodeHeaderInvalid          Code = "header_invalid"
	CodeIdempotencyKeyShape    Code = "idempotency_key_shape"
	CodeNonceInvalid           Code = "nonce_invalid"
	CodeNonceReserved          Code = "nonce_reserved"
	CodeTimestampInvalid       Code = "timestamp_invalid"
	CodeTimestampOutsideWindow Code = "timestamp_outside_window"
	CodeKidPrefix              Code = "kid_prefix"
	CodeSessionUnknown         Code = "session_unknown"
	CodeSessionExpired         Code = "session_expired"
	CodeClientMismatch         Code = "client_mismatch"
	CodeWireMismatch           Code = "wire_mismatch"
	CodeBodyTooShort           Code = "body_too_short"
	CodeBodyTooLarge           Code = "body_too_large"
	CodeBase64Invalid          Code = "base64_invalid"
	CodeAADMismatch            Code = "aad_mismatch"
	CodeUnsealable             Code = "unsealable"
	CodeReplayed               Code = "replayed"
	CodeJSONInvalid            Code = "json_invalid"
	CodeFieldInvalid           Code = "field_invalid"
	CodePublicKeyInvalid       Code = "public_key_invalid"
	CodeAnswerMismatch         Code = "answer_mismatch"
	CodeReservationMismatch    Code = "reservation_mismatch"
	CodeSuiteRequired          Code = "suite_required"
	CodeSuiteDowngraded        Code = "suite_downgraded"
	CodeKeyRetired             Code = "key_retired"
	CodeKeyUntrusted           Code = "key_untrusted"
	CodeSignatureInvalid       Code = "signature_invalid"
	CodeUnconfirmed            Code = "unconfirmed"
	CodeStreamTruncated        Code = "stream_truncated"
	CodeFrameInvalid           Code = "frame_invalid"
	CodeInnerHeadersInvalid    Code = "inner_headers_invalid"
	CodeUnsealed               Code = "unsealed"
	CodePolicy                 Code = "policy"
	CodeUnauthenticated        Code = "unauthenticated"
	CodeProvider               Code = "provider"
)

// Blame says whose fault a refusal is.
type Blame string

// Who can be to blame.
const (
	BlamePeer   Blame = "peer"
	BlameCaller Blame = "caller"
	BlameLimit  Blame = "limit"
	BlameExpiry Blame = "expiry"
	BlameCrypto Blame = "crypto"
)

type entry struct {
	blame   Blame
	meaning string
}

// Entries as in spec/registry.toml; a test compares both.
var entries = map[Code]entry{
	CodeHeaderMissing:          {BlamePeer, "A header that the wire needs is absent or empty."},
	CodeHeaderInvalid:          {BlamePeer, "A header is repeated, holds bytes beyond ASCII, or breaks its own form."},
	CodeIdempotencyKeyShape:    {BlamePeer, "X-Idempotency-Key is not timestamp.nonce; on an init, also when it is repeated."},
	CodeNonceInvalid:           {BlamePeer, "A nonce has a wrong length or alphabet."},
	CodeNonceReserved:          {BlamePeer, "A request carries a nonce of the kind that only answers carry."},
	CodeTimestampInvalid:       {BlamePeer, "A timestamp is not 1 to 15 decimal digits."},
	CodeTimestampOutsideWindow: {BlameExpiry, "A timestamp is too far from the reader's clock."},
	CodeKidPrefix:              {BlamePeer, "X-Kid does not begin with session:."},
	CodeSessionUnknown:         {BlamePeer, "X-Kid names no session id of the right form, or one that no store knows."},
	CodeSessionExpired:         {BlameExpiry, "The session's time is over."},
	CodeClientMismatch:         {BlamePeer, "The session belongs to another client id."},
	CodeWireMismatch:           {BlamePeer, "The session was agreed on another wire."},
	CodeBodyTooShort:           {BlamePeer, "A sealed body is shorter than an empty message."},
	CodeBodyTooLarge:           {BlameLimit, "A body, or a path that wire 1 authenticates, is over its bound."},
	CodeBase64Invalid:          {BlamePeer, "A sealed body is not the base64 that the wire asks for."},
	CodeAADMismatch:            {BlamePeer, "Wire 1: X-AAD is not what the message itself gives."},
	CodeUnsealable:             {BlameCrypto, "The tag does not verify: wrong key, changed bytes or changed context."},
	CodeReplayed:               {BlamePeer, "The nonce was seen before."},
	CodeJSONInvalid:            {BlamePeer, "A body is not JSON, or is nested too deep."},
	CodeFieldInvalid:           {BlamePeer, "A member of a JSON body is absent or of a wrong type."},
	CodePublicKeyInvalid:       {BlameCrypto, "A public key is not the base64 of an uncompressed point of P-256."},
	CodeAnswerMismatch:         {BlamePeer, "An answer is of another session, or carries the nonce of a request."},
	CodeReservationMismatch:    {BlameCaller, "A reservation was presented for another nonce than its own: a defect of the server."},
	CodeSuiteRequired:          {BlamePeer, "The suite of the share is not the first of the client's list that the server takes."},
	CodeSuiteDowngraded:        {BlameCrypto, "The suite of an answer is not the first of the client's list that is in the server's."},
	CodeKeyRetired:             {BlameExpiry, "None of the identity keys that the client pinned is live."},
	CodeKeyUntrusted:           {BlameCrypto, "An answer is signed by a key that the client does not trust."},
	CodeSignatureInvalid:       {BlameCrypto, "A signature is not of the key that it should be of."},
	CodeUnconfirmed:            {BlameCrypto, "The server's confirmation is not what the agreed keys give."},
	CodeStreamTruncated:        {BlamePeer, "A sealed stream ends without its last frame."},
	CodeFrameInvalid:           {BlamePeer, "A frame has a wrong length, is empty and not the last, or stands behind the last one."},
	CodeInnerHeadersInvalid:    {BlamePeer, "The headers within a seal are malformed, too many, or of a name that may not be there."},
	CodeUnsealed:               {BlamePeer, "An answer to a sealed request is not sealed."},
	CodePolicy:                 {BlamePeer, "The client's policy does not allow it."},
	CodeUnauthenticated:        {BlamePeer, "The client did not prove who it is."},
	CodeProvider:               {BlameCrypto, "The crypto module refused to work."},
}

// Codes gives every code of this package, in no order.
func Codes() []Code {
	all := make([]Code, 0, len(entries))
	for code := range entries {
		all = append(all, code)
	}
	return all
}

// Error says what the code means.
func (c Code) Error() string { return "sealway: " + string(c) + ": " + entries[c].meaning }

// Blame says whose fault it is.
func (c Code) Blame() Blame { return entries[c].blame }

// Error is a refusal: its code, and the header or JSON member at fault where one is. It never holds a value.
type Error struct {
	// Code is one of spec/registry.toml.
	Code Code
	// Name is the header or member at fault, or empty.
	Name string
}

// Refuse makes an [Error] without a name.
func Refuse(code Code) *Error { return &Error{Code: code} }

// Error says code, meaning and name.
func (e *Error) Error() string {
	if e.Name == "" {
		return e.Code.Error()
	}
	return e.Code.Error() + " (" + e.Name + ")"
}

// Is finds the code by errors.Is(err, wire.CodeReplayed).
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// Blame says whose fault it is.
func (e *Error) Blame() Blame { return e.Code.Blame() }
