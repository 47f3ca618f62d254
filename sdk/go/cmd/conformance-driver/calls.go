package main

import (
	"crypto/rand"
	"strings"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

func sealRandoms() (random session.SealRandoms) {
	rand.Read(random.IV[:])
	rand.Read(random.Nonce[:])
	return random
}

func path(target string) string {
	path, _, _ := strings.Cut(target, "?")
	return path
}

func (d *driver) clientSeal(r *request) (result, error) {
	made, body, nowMs := d.sessionOf(r), need(r.Body, "body_hex"), need(r.NowMs, "now_ms")
	method, target, headers := need(r.Method, "method"), need(r.Target, "target"), r.headers()
	handle := d.next()
	if made.three == nil {
		message, pending := made.old.Seal(path(target), body, nowMs, sealRandoms())
		d.pendings[handle] = &clientCall{old: pending}
		return result{"call": handle, "headers": pairs(append(message.Headers, wire.Header{Name: "Content-Type", Value: message.ContentType})),
			"body_hex": hexOf(message.Body)}, nil
	}
	within, err := inner(headers)
	if err != nil {
		return nil, err
	}
	contentType, bodiless := octetStream, bodilessRequest(method, body)
	if bodiless {
		contentType = ""
	}
	outer, sealer, pending, err := made.three.Seal(session.Line{Method: method, Target: target}, contentType, nowMs, random16())
	if err != nil {
		return nil, err
	}
	stream, err := sealer.SealWhole(nil, within, body)
	if err != nil {
		return nil, err
	}
	d.pendings[handle] = &clientCall{three: pending}
	placed, sent := place(outer, stream, bodiless)
	return result{"call": handle, "headers": placed, "body_hex": sent}, nil
}

func (d *driver) serverOpen(r *request) (result, error) {
	headers, body, nowMs := r.headers(), need(r.Body, "body_hex"), need(r.NowMs, "now_ms")
	method, target := need(r.Method, "method"), need(r.Target, "target")
	server, err := session.NewSession(r.record())
	if err != nil {
		return nil, err
	}
	if len(headers.Values(wire.HeaderSeal)) > 0 {
		return d.open3(server, session.Line{Method: method, Target: target}, headers, body, nowMs)
	}
	call, err := session.ParseCall(headers, path(target), nowMs, session.ReplayPolicy{})
	if err != nil {
		return nil, err
	}
	opened, err := call.Open(server, body, nowMs)
	if err != nil {
		return nil, err
	}
	request, err := release(opened)
	if err != nil {
		return nil, err
	}
	handle := d.next()
	d.replies[handle] = &serverCall{old: request.Reply, method: method}
	return result{"call": handle, "headers": [][2]string{}, "body_hex": hexOf(request.Plaintext), "claim_hex": opened.Claim().KeyHex()}, nil
}

func (d *driver) open3(server *session.Session, line session.Line, headers wire.HeaderList, body []byte, nowMs uint64) (result, error) {
	request, err := session.ParseRequest3(headers, line)
	if err != nil {
		return nil, err
	}
	opener, opening, err := request.Open(server, nowMs, session.ReplayPolicy{})
	if err != nil {
		return nil, err
	}
	sealed, err := request.Sealed()
	if err != nil {
		return nil, err
	}
	stream, err := oneStream(sealed, body)
	if err != nil {
		return nil, err
	}
	first, complete, err := opener.Read(&stream, nil)
	if err != nil {
		return nil, err
	}
	if !complete {
		return nil, opener.End()
	}
	unreplayed, err := opening.First(first, server, nowMs)
	if err != nil {
		return nil, err
	}
	opened, err := release(unreplayed)
	if err != nil {
		return nil, err
	}
	plain := opened.First
	for len(stream) > 0 {
		if plain, _, err = opener.Read(&stream, plain); err != nil {
			return nil, err
		}
	}
	if err := opener.End(); err != nil {
		return nil, err
	}
	handle := d.next()
	d.replies[handle] = &serverCall{three: opened.Reply, method: line.Method}
	return result{"call": handle, "headers": pairs(opened.Headers), "body_hex": hexOf(plain), "claim_hex": unreplayed.Claim().KeyHex()}, nil
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
	if call.three == nil {
		message := call.old.Seal(status, body, nowMs, sealRandoms())
		return result{"status": status, "headers": pairs(append(message.Headers, wire.Header{Name: "Content-Type", Value: message.ContentType})),
			"body_hex": hexOf(message.Body)}, nil
	}
	within, err := inner(headers)
	if err != nil {
		return nil, err
	}
	contentType, bodiless := octetStream, bodilessAnswer(call.method, status)
	if bodiless {
		contentType, body = "", nil
	}
	outer, sealer, err := call.three.Seal(status, contentType, nowMs, random16())
	if err != nil {
		return nil, err
	}
	stream, err := sealer.SealWhole(nil, within, body)
	if err != nil {
		return nil, err
	}
	placed, sent := place(outer, stream, bodiless)
	return result{"status": status, "headers": placed, "body_hex": sent}, nil
}

func (d *driver) clientOpen(r *request) (result, error) {
	handle := need(r.Call, "call")
	call, known := d.pendings[handle]
	if !known {
		return nil, fault("unknown call")
	}
	delete(d.pendings, handle)
	status, headers, body, nowMs := need(r.Status, "status"), r.headers(), need(r.Body, "body_hex"), need(r.NowMs, "now_ms")
	if call.three == nil {
		plain, err := call.old.Open(headers, status, body, nowMs, session.ReplayPolicy{})
		if err != nil {
			return nil, err
		}
		return result{"headers": [][2]string{}, "body_hex": hexOf(plain)}, nil
	}
	sealed, opener, err := call.three.Open(headers, status)
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
	return result{"headers": pairs(within), "body_hex": hexOf(plain)}, nil
}
