package session

import (
	"strconv"
	"strings"

	"sealway.dev/go/wire"
)

// SealedRequest is a sealed request, of any wire, whose headers are in order; its session is to be looked up next.
type SealedRequest struct {
	version     wire.Version
	policy      ReplayPolicy
	headers     wire.Headers
	line        Line // on wires 1 and 2 without the query
	kid, id     string
	stamp       string
	stampMs     uint64
	nonce       string
	detached    detached // wire 1
	clientID    string   // wire 2
	contentType string   // wire 3
	sealed      []byte   // wire 3, the stream in X-Sealed; nil if there is none
}

// ParseRequest reads the headers of a sealed request: of wire 3 where X-Seal is there. The window of wire 3 is the policy's, and five
// minutes at most. spec/session.md#open spec/session-3.md#sealed-requests
func ParseRequest(headers wire.Headers, line Line, nowMs uint64, policy ReplayPolicy) (*SealedRequest, error) {
	r := &SealedRequest{version: wire.VersionOf(headers), policy: policy, headers: headers, line: line}
	nonceMin := 1
	if len(headers.Values(wire.HeaderSeal)) > 0 {
		r.version, r.policy, nonceMin = wire.Wire3, policy.onNative(), wire.NativeNonceLenMin
	} else {
		r.line.Target, _, _ = strings.Cut(line.Target, "?")
	}
	var err error
	if r.kid, err = wire.Required(headers, wire.HeaderKid); err != nil {
		return nil, err
	}
	if err := r.parseOwn(); err != nil {
		return nil, err
	}
	if err := wire.CheckRequestNonce(r.nonce, nonceMin); err != nil {
		return nil, err
	}
	if r.stampMs, err = wire.ParseStamp(r.stamp); err != nil {
		return nil, err
	}
	if r.version != wire.Wire3 {
		if err := policy.Check(r.stampMs, nowMs); err != nil {
			return nil, err
		}
	}
	if r.id, err = wire.SessionIDOfKid(r.kid); err != nil || r.version != wire.Wire3 {
		return r, err
	}
	if r.contentType, _, err = wire.Optional(headers, "Content-Type"); err != nil {
		return nil, err
	}
	if r.sealed, err = sealedHeader(headers); err == nil && len(line.Target) > wire.PathLenMax {
		err = wire.Refuse(wire.CodeHeaderInvalid)
	}
	return r, err
}

// parseOwn reads the headers of one wire that have stamp and nonce.
func (r *SealedRequest) parseOwn() (err error) {
	if r.version == wire.Wire1 {
		if r.nonce, r.stamp, r.detached, err = parse1(r.headers); err == nil && len(r.line.Target) > wire.PathLenMax {
			err = wire.Refuse(wire.CodeBodyTooLarge)
		}
		return err
	}
	key, err := wire.Required(r.headers, wire.HeaderIdempotencyKey)
	if err != nil {
		return err
	}
	if r.version == wire.Wire3 {
		err = checkSeal(r.headers, r.version)
	} else {
		r.clientID, err = requiredClientID(r.headers)
	}
	if err == nil {
		r.stamp, r.nonce, err = wire.SplitIdempotencyKey(key)
	}
	return err
}

// SessionID is the session to look up; session_unknown for a malformed id: no store need be asked.
func (r *SealedRequest) SessionID() (string, error) {
	if !wire.ValidSessionID(r.id) {
		return "", wire.Refuse(wire.CodeSessionUnknown)
	}
	return r.id, nil
}

// Version is the wire that the request speaks.
func (r *SealedRequest) Version() wire.Version { return r.version }

// Check refuses a session that the request may not use, and a stamp outside of the window. Order: id, expiry, wire, client id, stamp.
func (r *SealedRequest) Check(session *Session, nowMs uint64) error {
	if _, err := r.SessionID(); err != nil {
		return err
	}
	if err := session.check(r.id, r.version, nowMs); err != nil {
		return err
	}
	if r.version == wire.Wire2 && session.record.ClientID != r.clientID {
		return wire.Refuse(wire.CodeClientMismatch)
	}
	return r.policy.Check(r.stampMs, nowMs)
}

// Accept checks a session before the body is read. It gives, on wire 3 alone, what opens the stream of its frames, and the stream where
// it came in X-Sealed: then there may be no body.
func (r *SealedRequest) Accept(session *Session, nowMs uint64) (opener *FrameOpener, sealed []byte, err error) {
	if err := r.Check(session, nowMs); err != nil || r.version != wire.Wire3 {
		return nil, nil, err
	}
	keys := session.keys.request(r.version, r.nonce, r.stamp)
	opener, err = newFrameOpener(&keys, binding{r.version, r.id}.requestContext(r.line, r.contentType, r.stamp, r.nonce), r.sealed != nil)
	return opener, r.sealed, err
}

// Content is an opened, fresh request.
type Content struct {
	// Headers are those within the seal, of wire 3.
	Headers wire.HeaderList
	// Plaintext is the body; on wire 3 its beginning, and the opener has the rest.
	Plaintext []byte
	// Reply answers it.
	Reply *Reply
}

// Open opens the request by its body, which it may overwrite; on wire 3 by its first frame, which the opener has opened. Either may have
// taken its time: session is what the store has by now, and it and the stamp are checked again at nowMs. The request stays shut until
// its nonce is reserved.
func (r *SealedRequest) Open(session *Session, first []byte, nowMs uint64) (*ClaimGuard[*Content], error) {
	if err := r.Check(session, nowMs); err != nil {
		return nil, err
	}
	opened := &Content{Reply: &Reply{session, r.line, r.nonce}}
	var err error
	switch r.version {
	case wire.Wire1:
		opened.Plaintext, err = open1(session.aead, r.detached, aad1("POST", r.line.Target, r.stamp, r.nonce, r.kid), first)
	case wire.Wire2:
		opened.Plaintext, err = open2(session.aead, aad2(r.stamp, r.nonce, r.kid, r.clientID), first)
	default:
		opened.Headers, opened.Plaintext, err = DecodeInner(first)
	}
	if err != nil {
		return nil, err
	}
	return &ClaimGuard[*Content]{newClaim(tagSealed, r.id, r.nonce, r.stampMs, nowMs, r.policy), opened}, nil
}

// ClockProof returns the mac of clock_skew for a request of wire 3 whose session is known.
func (r *SealedRequest) ClockProof(session *Session, nowMs uint64) []byte {
	return clockMAC(&session.keys, r.nonce, r.stamp, nowMs)
}

// Reply is what sealing an answer needs of its request.
type Reply struct {
	session *Session
	line    Line
	nonce   string
}

// Session returns the session of the request.
func (r *Reply) Session() *Session { return r.session }

// Whole says whether the answer is sealed as a whole, by [Reply.Seal]; else frame by frame, by [Reply.SealFrames].
func (r *Reply) Whole() bool { return r.session.record.Wire != wire.Wire3 }

// Seal seals an answer of wires 1 and 2; status is the one that it is sent with, which wire 1 binds. spec/session.md#answer
func (r *Reply) Seal(status int, plaintext []byte, nowMs uint64, random SealRandoms) *Message {
	record := &r.session.record
	stamp, nonce, kid := strconv.FormatUint(nowMs, 10), wire.NonceText(random.Nonce, true), wire.Kid(record.ID)
	if record.Wire == wire.Wire1 {
		return seal1(r.session.aead, strconv.Itoa(status), r.line.Target, stamp, nonce, kid, random.IV, plaintext)
	}
	return seal2(r.session.aead, stamp, nonce, kid, record.ClientID, random.IV, plaintext)
}

// SealFrames begins an answer of wire 3: its headers, and what writes its stream, which begins with inner headers. contentType is the
// outer one, empty without a body. spec/session-3.md#sealed-answers
func (r *Reply) SealFrames(status int, contentType string, nowMs uint64, nonce [16]byte) (wire.HeaderList, *FrameSealer, error) {
	return r.sealAs(status, contentType, wire.IdempotencyKey(nowMs, nonce, true))
}

func (r *Reply) sealAs(status int, contentType, key string) (wire.HeaderList, *FrameSealer, error) {
	stamp, nonce, _ := strings.Cut(key, ".")
	by := binding{wire.Wire3, r.session.record.ID}
	keys := r.session.keys.answer(by.version, r.nonce, nonce)
	sealer, err := newFrameSealer(&keys, by.answerContext(status, r.line, contentType, stamp, nonce))
	return by.headers(key), sealer, err
}
