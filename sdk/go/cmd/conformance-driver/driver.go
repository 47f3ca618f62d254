package main

import (
	"crypto/rand"
	"encoding/json"
	"math"

	"sealway.dev/go/crypto"
	"sealway.dev/go/internal/exchange"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

type driver struct {
	last     int
	inits    map[int]*clientInit
	sessions map[int]*clientSession
	pendings map[int]*clientCall
	replies  map[int]*serverCall
}

type clientInit struct {
	compat  *session.CompatClientInit
	native  *session.ClientInit
	trusted []hexText
}

type clientSession struct {
	compat   *session.CompatClientSession
	native   *session.ClientSession
	oneShot  *session.OneShot
	clientID string
	trusted  []hexText
}

type clientCall struct {
	compat *session.CompatCall
	native *session.Call
}

type serverCall struct {
	reply  *exchange.Reply
	isHead bool
}

func newDriver() *driver {
	return &driver{inits: map[int]*clientInit{}, sessions: map[int]*clientSession{}, pendings: map[int]*clientCall{}, replies: map[int]*serverCall{}}
}

func (d *driver) next() int {
	d.last++
	return d.last
}

func (d *driver) ops() map[string]func(*request) (result, error) {
	return map[string]func(*request) (result, error){
		"hello": d.hello, "reset": d.reset,
		"client.init": d.clientInit, "client.finish": d.clientFinish, "client.renew": d.clientRenew,
		"client.key": d.clientKey, "client.seal": d.clientSeal, "client.open": d.clientOpen,
		"server.init": d.serverInit, "server.renew": d.serverRenew, "server.open": d.serverOpen, "server.seal": d.serverSeal,
	}
}

func (d *driver) hello(*request) (result, error) {
	return result{"language": "go", "wires": []int{1, 2, 3, 4}, "suites": crypto.Suites(), "kems": kemNames(), "roles": []string{"client", "server"}}, nil
}

func kemNames() (names []string) {
	for _, kem := range crypto.KEMs() {
		names = append(names, kem.String())
	}
	return names
}

func (d *driver) reset(*request) (result, error) {
	last := d.last
	*d = *newDriver()
	d.last = last
	return result{}, nil
}

func random16() (out [16]byte) {
	rand.Read(out[:])
	return out
}

func suitesOf(names []string) []crypto.Suite {
	if names == nil {
		panic(fault("suites is missing"))
	}
	suites := make([]crypto.Suite, len(names))
	for i, name := range names {
		suites[i] = crypto.Suite(name)
	}
	return suites
}

func suiteOf(name string) crypto.Suite {
	suite, known := crypto.ParseSuite(name)
	if !known {
		panic(fault("suite is unknown"))
	}
	return suite
}

func trusts(keys []hexText) func(string) []byte {
	return func(id string) []byte {
		for _, key := range keys {
			if crypto.KeyID(key) == id {
				return key
			}
		}
		return nil
	}
}

func (d *driver) clientInit(r *request) (result, error) {
	version, clientID, nowMs := wire.Version(need(r.Wire, "wire")), "", need(r.NowMs, "now_ms")
	if r.ClientID != nil {
		clientID = *r.ClientID
	}
	handle := d.next()
	if version == wire.Wire3 {
		offer := session.Offer{Suites: suitesOf(r.Suites), ClientID: clientID, TTLSec: r.TTLSec}
		init, err := d.beginNative(offer, suiteOf(need(r.Suite, "suite")), nil)
		if err != nil {
			return nil, err
		}
		d.inits[handle] = &clientInit{native: init, trusted: r.Trusted}
		return result{"handle": handle, "method": "POST", "headers": [][2]string{{"Content-Type", "application/json"}}, "body_hex": hexOf(init.Body())}, nil
	}
	key, err := crypto.DrawP256(rand.Reader)
	if err != nil {
		return nil, err
	}
	anonymous := need(r.Path, "path") == "/session/init/anon"
	init, message, err := session.NewCompatClientInit(version, anonymous, clientID, r.TTLSec, key, random16(), nowMs)
	if err != nil {
		return nil, err
	}
	d.inits[handle] = &clientInit{compat: init}
	headers := append(message.Headers, wire.Header{Name: "Content-Type", Value: message.ContentType})
	return result{"handle": handle, "method": "POST", "headers": pairs(headers), "body_hex": hexOf(message.Body)}, nil
}

func (d *driver) beginNative(offer session.Offer, suite crypto.Suite, renewed *session.ClientSession) (*session.ClientInit, error) {
	keys, err := crypto.DrawKeys(suite, true, rand.Reader)
	if err != nil {
		return nil, err
	}
	return session.NewClientInit(offer, suite, keys, renewed)
}

func (d *driver) clientFinish(r *request) (result, error) {
	init, known := d.inits[need(r.Handle, "handle")]
	if !known {
		return nil, fault("unknown handle")
	}
	status, body, nowMs := need(r.Status, "status"), need(r.Body, "body_hex"), need(r.NowMs, "now_ms")
	handle := d.next()
	if init.native != nil {
		made, err := init.native.Finish(status, body, trusts(init.trusted))
		if err != nil {
			return nil, err
		}
		d.sessions[handle] = &clientSession{native: made, trusted: init.trusted}
		return result{"session": handle, "session_id": made.ID()}, nil
	}
	if status != 200 {
		return nil, wire.Refuse(wire.CodeAnswerMismatch)
	}
	made, err := init.compat.Finish(body, nowMs)
	if err != nil {
		return nil, err
	}
	d.sessions[handle] = &clientSession{compat: made}
	return result{"session": handle, "session_id": made.ID()}, nil
}

func (d *driver) sessionOf(r *request) *clientSession {
	made, known := d.sessions[r.handle(r.Session)]
	if !known {
		panic(fault("unknown session"))
	}
	return made
}

func (d *driver) clientRenew(r *request) (result, error) {
	made := d.sessionOf(r)
	if made.native == nil {
		return nil, fault("only wire 3 renews")
	}
	init, err := d.beginNative(session.Offer{Suites: suitesOf(r.Suites), ClientID: made.native.ClientID()}, suiteOf(need(r.Suite, "suite")), made.native)
	if err != nil {
		return nil, err
	}
	handle := d.next()
	d.inits[handle] = &clientInit{native: init, trusted: made.trusted}
	return result{"handle": handle, "body_hex": hexOf(init.Body())}, nil
}

var families = map[string]session.Family{
	"/session/init": session.FamilySession, "/session/init/anon": session.FamilyAnonymous, "/v1/session/init": session.FamilyV1,
}

func (d *driver) serverInit(r *request) (result, error) {
	path, body, nowMs := need(r.Path, "path"), need(r.Body, "body_hex"), need(r.NowMs, "now_ms")
	if path == "/v3/sessions" {
		authorization := ""
		if values := r.headers().Values("Authorization"); len(values) > 0 {
			authorization = values[0]
		}
		return d.agreeNative(r, body, nil, session.Credential(authorization), nowMs)
	}
	family, known := families[path]
	if !known {
		return nil, fault("unknown path")
	}
	call, err := session.ParseCompatInit(family, r.headers(), body, nowMs, session.ReplayPolicy{})
	if err != nil {
		return nil, err
	}
	init, err := call.Release(session.Reserved(call.Claim()))
	if err != nil {
		return nil, err
	}
	key, err := crypto.DrawP256(rand.Reader)
	if err != nil {
		return nil, err
	}
	answer, record, err := init.Accept(session.DefaultTTL(), false, "", session.CompatInitRandoms{SessionID: random16(), Ephemeral: key}, nowMs)
	if err != nil {
		return nil, err
	}
	headers := [][2]string{{"Content-Type", "application/json"}}
	if family == session.FamilyV1 {
		headers = append(headers, [2]string{wire.HeaderKid, record.ID})
	}
	return result{"status": 200, "headers": headers, "body_hex": hexOf(answer), "session": json.RawMessage(record.Encode())}, nil
}

func (d *driver) agreeNative(r *request, body []byte, old *session.Record, credential []byte, nowMs uint64) (result, error) {
	request, err := session.ParseInitRequest(body)
	if err != nil {
		return nil, err
	}
	identity, err := crypto.ParseIdentity(need(r.Identity, "identity_hex"))
	if err != nil {
		return nil, fault("identity_hex is no key")
	}
	ttl := uint32(1800)
	if request.TTLSec != nil {
		ttl = min(max(*request.TTLSec, 300), 3600)
	}
	terms := session.Terms{Suites: suitesOf(r.Suites), Identities: []session.Identity{{Key: identity, NotAfterMs: math.MaxInt64}},
		ExpiresInSec: ttl, Auth: session.AuthNone, Credential: credential}
	if old != nil {
		terms.Auth, terms.Subject, terms.Tenant = old.Auth, old.Subject, old.Tenant
	}
	draw := func(suite crypto.Suite) (session.InitRandoms, error) {
		keys, err := crypto.DrawKeys(suite, false, rand.Reader)
		return session.InitRandoms{SessionID: random16(), Keys: keys, Encapsulate: crypto.EncapsulationKey.Encapsulate}, err
	}
	answer, record, err := session.AgreeInit(request, terms, old, draw, nowMs)
	if err != nil {
		return nil, err
	}
	return result{"status": 201, "headers": [][2]string{{"Content-Type", "application/json"}}, "body_hex": hexOf(answer), "session": json.RawMessage(record.Encode())}, nil
}

func (d *driver) serverRenew(r *request) (result, error) {
	ok, err := d.agreeNative(r, need(r.Body, "body_hex"), r.record(), nil, need(r.NowMs, "now_ms"))
	delete(ok, "headers")
	return ok, err
}

const octetStream = "application/octet-stream"
