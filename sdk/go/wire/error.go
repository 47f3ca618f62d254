package wire

// Code is a stable name of a refusal, one of spec/registry.toml. It is an error itself, so that errors.Is finds it.
type Code string

// The codes of sessions. A peer receives coarser ones.
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

// Blame is the party at fault.
type Blame string

// The parties that can be at fault.
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
	CodeHeaderMissing:          {BlamePeer, "A required sealing header is absent or empty."},
	CodeHeaderInvalid:          {BlamePeer, "A sealing header is repeated, holds bytes beyond ASCII, or breaks its format."},
	CodeIdempotencyKeyShape:    {BlamePeer, "X-Idempotency-Key is not timestamp.nonce; on an init, also if the header is repeated."},
	CodeNonceInvalid:           {BlamePeer, "A nonce has a wrong length or alphabet."},
	CodeNonceReserved:          {BlamePeer, "A request carries a nonce of the form that is reserved for responses."},
	CodeTimestampInvalid:       {BlamePeer, "A timestamp is not 1 to 15 decimal digits."},
	CodeTimestampOutsideWindow: {BlameExpiry, "A timestamp differs from the server's clock by more than the replay window."},
	CodeKidPrefix:              {BlamePeer, "X-Kid does not begin with `session:`."},
	CodeSessionUnknown:         {BlamePeer, "X-Kid is not a well-formed session id, or no store has the session."},
	CodeSessionExpired:         {BlameExpiry, "The session has reached the end of its lifetime."},
	CodeClientMismatch:         {BlamePeer, "The session belongs to another client id."},
	CodeWireMismatch:           {BlamePeer, "The session was agreed under another protocol than the one of the request."},
	CodeBodyTooShort:           {BlamePeer, "A sealed body is shorter than the seal of an empty message."},
	CodeBodyTooLarge:           {BlameLimit, "A body, or a path that v1 authenticates, exceeds its bound."},
	CodeBase64Invalid:          {BlamePeer, "A sealed body is not the base64 that the protocol requires."},
	CodeAADMismatch:            {BlamePeer, "v1: X-AAD differs from the additional data that the message itself gives."},
	CodeUnsealable:             {BlameCrypto, "The authentication tag does not verify: another key, changed bytes or a changed context (method, path, headers)."},
	CodeReplayed:               {BlamePeer, "The nonce was received before."},
	CodeJSONInvalid:            {BlamePeer, "A body is not JSON, or is nested too deeply."},
	CodeFieldInvalid:           {BlamePeer, "A member of a JSON body is absent or has a wrong type."},
	CodePublicKeyInvalid:       {BlameCrypto, "A public key is not the base64 of an uncompressed P-256 point."},
	CodeAnswerMismatch:         {BlamePeer, "A response belongs to another session, or carries the nonce of a request."},
	CodeReservationMismatch:    {BlameCaller, "A reservation was presented for a nonce that it was not made for: a defect of the server."},
	CodeSuiteRequired:          {BlamePeer, "The key share is not for the first suite of the client's list that the server supports."},
	CodeSuiteDowngraded:        {BlameCrypto, "The suite of a response is not the first of the client's list that the server supports."},
	CodeKeyRetired:             {BlameExpiry, "None of the identity keys that the client pinned is in use any more."},
	CodeKeyUntrusted:           {BlameCrypto, "A response is signed by an identity key that the client does not trust."},
	CodeSignatureInvalid:       {BlameCrypto, "A signature does not verify under the identity key that it names."},
	CodeUnconfirmed:            {BlameCrypto, "The server's key confirmation does not follow from the agreed keys."},
	CodeStreamTruncated:        {BlamePeer, "A sealed stream ended before its last frame."},
	CodeFrameInvalid:           {BlamePeer, "A frame has a wrong length, is empty without being the last, or follows the last one."},
	CodeInnerHeadersInvalid:    {BlamePeer, "The headers inside the seal are malformed, too many, or have a name that is not allowed there."},
	CodeUnsealed:               {BlamePeer, "The response to a sealed request is not sealed."},
	CodePolicy:                 {BlamePeer, "The policy of this client does not allow the request."},
	CodeUnauthenticated:        {BlamePeer, "The client did not authenticate."},
	CodeProvider:               {BlameCrypto, "The cryptographic module failed."},
}

// Codes returns every code of this package, in no order.
func Codes() []Code {
	all := make([]Code, 0, len(entries))
	for code := range entries {
		all = append(all, code)
	}
	return all
}

// Error says what the code means.
func (c Code) Error() string { return "sealway: " + string(c) + ": " + entries[c].meaning }

// Blame returns the party at fault.
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

// Blame returns the party at fault.
func (e *Error) Blame() Blame { return e.Code.Blame() }
