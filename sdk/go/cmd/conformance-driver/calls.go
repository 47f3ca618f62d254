package main

import (
	"bytes"
	"crypto/rand"
	"strings"

	"sealway.dev/go/crypto"
	"sealway.dev/go/internal/exchange"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

func sealRandoms() (random session.SealRandoms) {
	rand.Read(random.IV[:])
	rand.Read(random.Nonce[:])
	return random
}

func (d *driver) clientKey(r *request) (result, error) {
	config, err := session.ParseKeyConfig(need(r.Config, "config_hex"))
	if err != nil {
		return nil, err
	}
	id, psk := "", session.Key{}
	if r.PSKID != nil {
		id = *r.PSKID
		if copy(psk[:], need(r.PSK, "psk_hex")) < len(psk) {
			return nil, fault("psk_hex is too short")
		}
	}
	made, err := session.NewOneShot(config, id, psk)
	if err != nil {
		return nil, err
	}
	handle := d.next()
	d.sessions[handle] = &clientSession{oneShot: made}
	return result{"session": handle, "kid": made.Kid()}, nil
}

// begin seals a request of wire 3, or of wire 4 with an encapsulation of its own.
func (s *clientSession) begin(line session.Line, contentType string, nowMs uint64) (wire.HeaderList, *session.FrameSealer, *session.Call, error) {
	if s.native != nil {
		return s.native.Seal(line, contentType, nowMs, random16())
	}
	ephemeral, err := crypto.DrawEphemeral(s.oneShot.KEM(), rand.Reader, crypto.EncapsulationKey.Encapsulate)
	if err != nil {
		return nil, nil, nil, err
	}
	return s.oneShot.Seal(line, contentType, nowMs, random16(), ephemeral)
}

func (d *driver) clientSeal(r *request) (result, error) {
	made, body, nowMs := d.sessionOf(r), need(r.Body, "body_hex"), need(r.NowMs, "now_ms")
	method, target, headers := need(r.Method, "method"), need(r.Target, "target"), r.headers()
	handle := d.next()
	if made.compat != nil {
		path, _, _ := strings.Cut(target, "?")
		message, pending := made.compat.Seal(path, body, nowMs, sealRandoms())
		d.pendings[handle] = &clientCall{compat: pending}
		return result{"call": handle, "headers": pairs(append(message.Headers, wire.Header{Name: "Content-Type", Value: message.ContentType})),
			"body_hex": hexOf(message.Body)}, nil
	}
	for i := range headers {
		headers[i].Name = strings.ToLower(headers[i].Name)
	}
	within, err := session.EncodeInner(headers)
	if err != nil {
		return nil, err
	}
	contentType, bodiless := octetStream, len(body) == 0 && (method == "GET" || method == "HEAD" || method == "DELETE")
	if bodiless {
		contentType = ""
	}
	outer, sealer, pending, err := made.begin(session.Line{Method: method, Target: target}, contentType, nowMs)
	if err != nil {
		return nil, err
	}
	stream, err := sealer.SealWhole(nil, within, body)
	if err != nil {
		return nil, err
	}
	d.pendings[handle] = &clientCall{native: pending}
	if bodiless {
		outer, stream = append(outer, wire.Header{Name: wire.HeaderSealed, Value: wire.EncodeBase64(stream)}), nil
	} else {
		outer = append(outer, wire.Header{Name: "Content-Type", Value: octetStream})
	}
	return result{"call": handle, "headers": pairs(outer), "body_hex": hexOf(stream)}, nil
}

func (d *driver) serverOpen(r *request) (result, error) {
	headers, body, nowMs := r.headers(), need(r.Body, "body_hex"), need(r.NowMs, "now_ms")
	line := session.Line{Method: need(r.Method, "method"), Target: need(r.Target, "target")}
	server, err := session.NewSession(r.record())
	if err != nil {
		return nil, err
	}
	call, err := exchange.Begin(headers, line, []wire.Version{wire.Wire1, wire.Wire2, wire.Wire3}, session.ReplayPolicy{}, nowMs)
	if err != nil {
		return nil, err
	}
	opening, stream, err := call.Session(server, nowMs)
	if err != nil {
		return nil, err
	}
	rest, err := oneStream(stream.InHeader, body)
	if err != nil {
		return nil, err
	}
	first, err := next(stream, &rest)
	if err != nil {
		return nil, err
	}
	unreplayed, err := opening.Open(first, server, nowMs)
	if err != nil {
		return nil, err
	}
	opened, err := unreplayed.Release(session.Reserved(unreplayed.Claim()))
	if err != nil {
		return nil, err
	}
	plain := bytes.Clone(opened.First)
	for !stream.Done() {
		piece, err := next(stream, &rest)
		if err != nil {
			return nil, err
		}
		plain = append(plain, piece.Bytes...)
	}
	handle := d.next()
	d.replies[handle] = &serverCall{opened.Reply, line.Method == "HEAD"}
	return result{"call": handle, "headers": pairs(opened.Inner), "body_hex": hexOf(plain), "claim_hex": unreplayed.Claim().KeyHex()}, nil
}

// next returns the next piece of a body that is all there.
func next(stream *exchange.Stream, rest *[]byte) (*exchange.Piece, error) {
	for len(*rest) > 0 {
		if piece, err := stream.Read(rest); piece != nil || err != nil {
			return piece, err
		}
	}
	return stream.End()
}

// oneStream takes the stream from X-Sealed or the body, never from both.
func oneStream(sealed, body []byte) ([]byte, error) {
	if sealed == nil {
		return body, nil
	}
	if len(body) > 0 {
		return nil, &wire.Error{Code: wire.CodeHeaderInvalid, Name: wire.HeaderSealed}
	}
	return sealed, nil
}

func (d *driver) serverSeal(r *request) (result, error) {
	handle := need(r.Call, "call")
	call, known := d.replies[handle]
	if !known {
		return nil, fault("unknown call")
	}
	delete(d.replies, handle)
	status, headers, body, nowMs := need(r.Status, "status"), r.headers(), need(r.Body, "body_hex"), need(r.NowMs, "now_ms")
	seal := call.reply.Answer(status, call.isHead)
	if err := seal.Begin(headers); err != nil {
		return nil, err
	}
	outer, stream := wire.HeaderList(nil), []byte(nil)
	for last := false; !last; {
		if !seal.Bodyless {
			body = body[seal.Take(body):]
		}
		last = len(body) == 0 || seal.Bodyless
		head, piece, err := seal.Seal(last, nowMs, sealRandoms())
		if err != nil {
			return nil, err
		}
		outer, stream = append(outer, head...), append(stream, piece...)
	}
	return result{"status": seal.Status, "headers": pairs(outer), "body_hex": hexOf(stream)}, nil
}

func (d *driver) clientOpen(r *request) (result, error) {
	handle := need(r.Call, "call")
	call, known := d.pendings[handle]
	if !known {
		return nil, fault("unknown call")
	}
	delete(d.pendings, handle)
	status, headers, body, nowMs := need(r.Status, "status"), r.headers(), need(r.Body, "body_hex"), need(r.NowMs, "now_ms")
	if call.native == nil {
		plain, err := call.compat.Open(headers, status, body, nowMs, session.ReplayPolicy{})
		if err != nil {
			return nil, err
		}
		return result{"headers": [][2]string{}, "body_hex": hexOf(plain)}, nil
	}
	sealed, opener, err := call.native.Open(headers, status)
	if err != nil {
		return nil, err
	}
	stream, err := oneStream(sealed, body)
	if err != nil {
		return nil, err
	}
	within, plain, err := opener.OpenWhole(stream)
	if err != nil {
		return nil, err
	}
	return result{"headers": pairs(within), "body_hex": hexOf(plain), "is_problem": opener.IsProblem()}, nil
}
