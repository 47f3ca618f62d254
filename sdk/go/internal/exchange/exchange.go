// Package exchange is a sealed request at a server, as a value, whichever protocol it speaks: bytes go in, decisions come out. Time
// and randomness are arguments; nothing here has a connection, a store or a clock. A protocol is a variant of the types below; the
// middleware that drives them does not ask which one a request speaks.
//
//	headers ─ Begin ─► session ─ Exchange.Session ─► Opening, Stream
//	    body ─ Stream.Read, Stream.End ─► Piece, the first of them ─ Opening.Open ─► ClaimGuard
//	                     the store's session.Fresh ─ ClaimGuard.Release ─► PlainRequest
//	                     the service's answer ─ Reply.Answer ─► AnswerSeal
//
// A request that is refused, at whichever step, is a [Rejection], and [Rejection.Answer] is all that its client receives.
package exchange

import (
	"slices"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// Exchange is a sealed request whose headers are in order; its session is to be looked up next.
type Exchange struct {
	request *session.SealedRequest
	found   *session.Session
}

// LooksSealed says whether a header of a seal is there, of any protocol.
func LooksSealed(headers wire.Headers) bool {
	return len(headers.Values(wire.HeaderSeal))+len(headers.Values(wire.HeaderKid))+len(headers.Values(wire.HeaderIdempotencyKey)) > 0
}

// WireOf returns the protocol that a request's headers speak.
func WireOf(headers wire.Headers) wire.Version {
	if len(headers.Values(wire.HeaderSeal)) > 0 {
		return wire.Wire3
	}
	return wire.VersionOf(headers)
}

// Begin reads the headers of a sealed request at nowMs: [WireOff], [Method], or an error of its wire.
// spec/session.md#open spec/session-3.md#sealed-requests
func Begin(headers wire.Headers, line session.Line, served []wire.Version, policy session.ReplayPolicy, nowMs uint64) (*Exchange, error) {
	version := WireOf(headers)
	if !slices.Contains(served, version) {
		return nil, WireOff
	}
	if version != wire.Wire3 && line.Method != "POST" || line.Method == "CONNECT" || line.Method == "TRACE" {
		return nil, Method
	}
	request, err := session.ParseRequest(headers, line, nowMs, policy)
	if err != nil {
		return nil, err
	}
	return &Exchange{request: request}, nil
}

// SessionID is the session to look up; session_unknown for a malformed id: no store need be asked.
func (e *Exchange) SessionID() (string, error) { return e.request.SessionID() }

// Session takes the session, if the request may use it at nowMs: its body is read next.
func (e *Exchange) Session(found *session.Session, nowMs uint64) (*Opening, *Stream, error) {
	e.found = found
	opener, sealed, err := e.request.Accept(found, nowMs)
	if err != nil {
		return nil, nil, err
	}
	return (*Opening)(e), &Stream{opener: opener, InHeader: sealed}, nil
}

// Reject returns the rejection of the request for an error at nowMs; one of wire 3 for its stamp has the server's time and the proof of
// it. A request whose headers were not in order is nil.
func (e *Exchange) Reject(err error, nowMs uint64) *Rejection {
	rejection := Reject(err)
	if e != nil && e.found != nil && e.request.Version() == wire.Wire3 && rejection.Refusal == Refusal(wire.CodeTimestampOutsideWindow) {
		rejection.more = map[string]any{"server_time_ms": nowMs, "mac": wire.EncodeBase64(e.request.ClockProof(e.found, nowMs))}
	}
	return rejection
}

// Opening is a request whose session is known, and whose body is awaited.
type Opening Exchange

// BodyMax is the longest sealed body that may follow, of the bounds for one that is opened as a whole and for a stream, in bytes.
func (o *Opening) BodyMax(whole, stream int64) int64 {
	switch {
	case o.request.Version() == wire.Wire3:
		return stream
	case o.found.Record().Anonymous():
		return min(whole, wire.AnonBodyMax)
	}
	return whole
}

// Open opens the request by the first piece of its stream, which it may overwrite. The piece may have taken its time: found is what the
// store has by now, and it and the stamp are checked again at nowMs. The request stays shut until its nonce is reserved.
func (o *Opening) Open(first *Piece, found *session.Session, nowMs uint64) (*ClaimGuard, error) {
	shut, err := o.request.Open(found, first.Bytes, nowMs)
	return &ClaimGuard{shut}, err
}

// ClaimGuard is an opened request that nobody sees before its nonce was reserved.
type ClaimGuard struct {
	*session.ClaimGuard[*session.Content]
}

// Release returns the request for its own claim's reservation; for another's it is reservation_mismatch.
func (u *ClaimGuard) Release(fresh session.Fresh) (*PlainRequest, error) {
	opened, err := u.ClaimGuard.Release(fresh)
	if err != nil {
		return nil, err
	}
	return &PlainRequest{opened.Headers, opened.Plaintext, &Reply{opened.Reply}}, nil
}

// PlainRequest is a request that was opened, and is no replay.
type PlainRequest struct {
	// Inner are the headers within the seal, where the protocol seals headers; else the ones outside count.
	Inner wire.HeaderList
	// First is the beginning of its body; all of it, if the piece was the last.
	First []byte
	// Reply answers it.
	Reply *Reply
}
