package session

import (
	"strings"

	"sealway.dev/go/wire"
)

// SealedRequest3 is a sealed request of wire 3 whose headers are in order; its session is to be looked up next.
type SealedRequest3 struct {
	line        Line
	contentType string
	id          string
	stamp       string
	stampMs     uint64
	nonce       string
	headers     wire.Headers
}

// ParseRequest3 reads the headers of a sealed request: check 1 of spec/session-3.md#sealed-requests.
func ParseRequest3(headers wire.Headers, line Line) (*SealedRequest3, error) {
	request := &SealedRequest3{line: line, headers: headers}
	kid, err := wire.Required(headers, wire.HeaderKid)
	if err != nil {
		return nil, err
	}
	key, err := wire.Required(headers, wire.HeaderIdempotencyKey)
	if err != nil {
		return nil, err
	}
	if err := checkSeal(headers); err != nil {
		return nil, err
	}
	if request.stamp, request.nonce, err = wire.SplitIdempotencyKey(key); err != nil {
		return nil, err
	}
	if err := wire.CheckRequestNonce(request.nonce, wire.NonceLenMin3); err != nil {
		return nil, err
	}
	if request.stampMs, err = wire.ParseStamp(request.stamp); err != nil {
		return nil, err
	}
	if request.id, err = wire.SessionIDOfKid(kid); err != nil {
		return nil, err
	}
	if request.contentType, _, err = wire.Optional(headers, "Content-Type"); err != nil {
		return nil, err
	}
	if len(line.Target) > wire.PathLenMax {
		return nil, wire.Refuse(wire.CodeHeaderInvalid)
	}
	return request, nil
}

// SessionID is the session to look up; session_unknown for a malformed id: no store need be asked.
func (r *SealedRequest3) SessionID() (string, error) {
	if !wire.ValidSessionID(r.id) {
		return "", wire.Refuse(wire.CodeSessionUnknown)
	}
	return r.id, nil
}

// StampAndNonce are what proofs in problems name.
func (r *SealedRequest3) StampAndNonce() (stamp, nonce string) { return r.stamp, r.nonce }

// Check refuses a session that the request may not use. Order: id, expiry, wire, stamp. The window is the policy's, and five
// minutes at most.
func (r *SealedRequest3) Check(session *Session, nowMs uint64, policy ReplayPolicy) error {
	if _, err := r.SessionID(); err != nil {
		return err
	}
	if err := session.check(r.id, wire.Wire3, nowMs); err != nil {
		return err
	}
	return policy.on3().Check(r.stampMs, nowMs)
}

// Sealed gives the stream, where it came in X-Sealed: then there may be no body. Nil where it is the body.
func (r *SealedRequest3) Sealed() ([]byte, error) { return sealedHeader(r.headers) }

// Open begins to open the stream; it checks once more what [SealedRequest3.Check] does, so that no caller can leave it out.
func (r *SealedRequest3) Open(session *Session, nowMs uint64, policy ReplayPolicy) (*FrameOpener, *Opening3, error) {
	if err := r.Check(session, nowMs, policy); err != nil {
		return nil, nil, err
	}
	keys := session.keys.request(r.nonce, r.stamp)
	opener, err := newFrameOpener(&keys, requestContext(r.line, r.contentType, r.stamp, r.nonce, r.id))
	if err != nil {
		return nil, nil, err
	}
	return opener, &Opening3{r, policy, &Reply3{session, r.line, r.nonce}}, nil
}

// Opening3 is a request whose first frame is not there yet.
type Opening3 struct {
	request *SealedRequest3
	policy  ReplayPolicy
	reply   *Reply3
}

// Opened3 is a request whose first frame has opened.
type Opened3 struct {
	// Headers are the inner ones.
	Headers wire.HeaderList
	// First is the beginning of the body; the opener has the rest.
	First []byte
	// Reply answers it.
	Reply *Reply3
}

// First takes the first frame, which the opener that came with this has opened. The frame may have taken its time: session is what
// the store has by now, and it and the stamp are checked again at nowMs. The request stays shut until its nonce is reserved.
func (o *Opening3) First(frame []byte, session *Session, nowMs uint64) (*Unreplayed[*Opened3], error) {
	if err := o.request.Check(session, nowMs, o.policy); err != nil {
		return nil, err
	}
	headers, rest, err := DecodeInner(frame)
	if err != nil {
		return nil, err
	}
	claim := newClaim(tagSealed, o.request.id, o.request.nonce, o.request.stampMs, nowMs, o.policy.on3())
	return &Unreplayed[*Opened3]{claim, &Opened3{headers, rest, o.reply}}, nil
}

// Reply3 is what sealing an answer needs of its request.
type Reply3 struct {
	session *Session
	line    Line
	nonce   string
}

// Session gives the session of the request.
func (r *Reply3) Session() *Session { return r.session }

// Seal begins an answer: its headers, and what writes its stream, which begins with inner headers. contentType is the outer one,
// empty without a body.
func (r *Reply3) Seal(status int, contentType string, nowMs uint64, nonce [16]byte) (wire.HeaderList, *FrameSealer, error) {
	return r.sealAs(status, contentType, wire.IdempotencyKey(nowMs, nonce, true))
}

func (r *Reply3) sealAs(status int, contentType, key string) (wire.HeaderList, *FrameSealer, error) {
	stamp, nonce, _ := strings.Cut(key, ".")
	id := r.session.record.ID
	keys := r.session.keys.answer(r.nonce, nonce)
	sealer, err := newFrameSealer(&keys, answerContext(status, r.line, contentType, stamp, nonce, id))
	return headers3(id, key), sealer, err
}
