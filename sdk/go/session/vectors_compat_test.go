package session_test

import (
	"bytes"
	"crypto/ecdh"
	"testing"

	"sealway.dev/go/crypto"
	"sealway.dev/go/internal/exchange"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

type vClaim struct {
	Key       hexBytes `json:"key_hex"`
	Sealed    bool     `json:"sealed"`
	StampMs   uint64   `json:"stamp_ms"`
	ExpiresMs uint64   `json:"expires_ms"`
}

func (c *vClaim) same(t *testing.T, claim session.Claim, nowMs uint64) {
	t.Helper()
	if want := (session.Claim{Key: [16]byte(c.Key), Sealed: c.Sealed, StampMs: c.StampMs, ExpiresMs: c.ExpiresMs, KeptMs: c.ExpiresMs - nowMs}); claim != want {
		t.Fatalf("claim %+v\nwants %+v", claim, want)
	}
}

type vSession struct {
	ID        string       `json:"id"`
	Wire      wire.Version `json:"wire"`
	ClientID  *string      `json:"client_id"`
	Key       hexBytes     `json:"key_hex"`
	CreatedMs uint64       `json:"created_ms"`
	ExpiresMs uint64       `json:"expires_ms"`
}

func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

func (s *vSession) record() *session.Record {
	return &session.Record{ID: s.ID, Wire: s.Wire, ClientID: text(s.ClientID), Auth: session.AuthNone,
		CreatedMs: s.CreatedMs, ExpiresMs: s.ExpiresMs, Key: session.Key(s.Key)}
}

func (s *vSession) open(t *testing.T) *session.Session {
	return must(session.NewSession(s.record()))(t)
}

type vClient struct {
	Wire       wire.Version `json:"wire"`
	Anonymous  bool         `json:"anonymous"`
	ClientID   *string      `json:"client_id"`
	Scalar     hexBytes     `json:"scalar_hex"`
	InitAnswer string       `json:"init_answer"`
}

func begun(t *testing.T, version wire.Version, anonymous bool, clientID *string, scalar []byte) *session.CompatClientInit {
	init, _, err := session.NewCompatClientInit(version, anonymous, text(clientID), nil, p256Key(t, scalar), [16]byte{}, 0)
	return must(init, err)(t)
}

func (c *vClient) session(t *testing.T) *session.CompatClientSession {
	return must(begun(t, c.Wire, c.Anonymous, c.ClientID, c.Scalar).Finish([]byte(c.InitAnswer), 0))(t)
}

type vSealed struct {
	Headers headerPairs `json:"headers"`
	Body    octets      `json:"body"`
}

func (s *vSealed) same(t *testing.T, message *session.Message) {
	t.Helper()
	made, want := headerSet(message.Headers), headerSet(s.Headers.list())
	if len(made) != len(want) || len(message.Headers) != len(want) {
		t.Fatalf("headers %v\nwants %v", made, want)
	}
	for name := range want {
		if made[name] != want[name] {
			t.Fatalf("%s is %q and not %q", name, made[name], want[name])
		}
	}
	if !s.Body.same(message.Body) {
		t.Fatal("another body")
	}
}

func (s *vSealed) bodiless() bool { return len(s.Headers.list().Values("X-Sealed")) > 0 }

type vMessage struct {
	Path      string   `json:"path"`
	Stamp     string   `json:"stamp"`
	Nonce     string   `json:"nonce"`
	IV        hexBytes `json:"iv_hex"`
	Plaintext octets   `json:"plaintext"`
	AAD       string   `json:"aad"`
	Sealed    vSealed  `json:"sealed"`
}

func (m *vMessage) seal(client *session.CompatClientSession) (*session.Message, *session.CompatCall) {
	return client.SealAs(m.Path, m.Plaintext.data, m.Stamp, m.Nonce, [12]byte(m.IV))
}

type vInit struct {
	head
	Family        string      `json:"family"`
	Headers       headerPairs `json:"headers"`
	Body          octets      `json:"body"`
	NowMs         uint64      `json:"now_ms"`
	WindowMs      uint64      `json:"window_ms"`
	Authenticated bool        `json:"authenticated"`
	ClientScalar  hexBytes    `json:"client_scalar_hex"`
	ServerScalar  hexBytes    `json:"server_scalar_hex"`
	SessionID     hexBytes    `json:"session_id_random_hex"`
	SharedSecret  hexBytes    `json:"shared_secret_hex"`
	KeyInfo       string      `json:"key_info"`
	Answer        string      `json:"answer"`
	Session       vSession    `json:"session"`
	Claim         vClaim      `json:"claim"`
}

var families = map[string]session.Family{"session": session.FamilySession, "anonymous": session.FamilyAnonymous, "v1": session.FamilyV1}

func release[T any](t *testing.T, unreplayed *session.ClaimGuard[T]) T {
	t.Helper()
	return must(unreplayed.Release(session.Reserved(unreplayed.Claim())))(t)
}

func playInit(t *testing.T, v *vInit) {
	family, known := families[v.Family]
	if !known {
		t.Fatalf("family %s", v.Family)
	}
	call := must(session.ParseCompatInit(family, v.Headers.list(), v.Body.data, v.NowMs, replayPolicy(v.WindowMs)))(t)
	v.Claim.same(t, call.Claim(), v.NowMs)
	random := session.CompatInitRandoms{SessionID: [16]byte(v.SessionID), Ephemeral: p256Key(t, v.ServerScalar)}
	answer, record, err := release(t, call).Accept(session.DefaultTTL(), v.Authenticated, "", random, v.NowMs)
	if err != nil {
		t.Fatal(err)
	}
	if string(answer) != v.Answer {
		t.Fatalf("answer %s\nwants %s", answer, v.Answer)
	}
	want := v.Session.record()
	want.Auth = record.Auth
	if *record != *want {
		t.Fatalf("session %+v\nwants %+v", record, want)
	}
	// The same from the client's side, through the values in between.
	z := must(crypto.Agree(ecdh.P256(), p256Key(t, v.ClientScalar), random.Ephemeral.PublicKey().Bytes()))(t)
	if !bytes.Equal(z, v.SharedSecret) {
		t.Fatal("another shared secret")
	}
	key := crypto.Expand(crypto.Extract([]byte(record.ID), z), 32, []byte(v.KeyInfo))
	if !bytes.Equal(key, record.Key[:]) {
		t.Fatal("another key")
	}
}

type vInitRefused struct {
	head
	Family   string      `json:"family"`
	Headers  headerPairs `json:"headers"`
	Body     octets      `json:"body"`
	NowMs    uint64      `json:"now_ms"`
	WindowMs uint64      `json:"window_ms"`
	Code     string      `json:"code"`
}

func playInitRefused(t *testing.T, v *vInitRefused) {
	call, err := session.ParseCompatInit(families[v.Family], v.Headers.list(), v.Body.data, v.NowMs, replayPolicy(v.WindowMs))
	if err == nil {
		random := session.CompatInitRandoms{Ephemeral: p256Key(t, bytes.Repeat([]byte{7}, 32))}
		_, _, err = release(t, call).Accept(session.DefaultTTL(), false, "", random, v.NowMs)
	}
	wantCode(t, err, v.Code)
}

type vClientInit struct {
	head
	Wire       wire.Version `json:"wire"`
	Anonymous  bool         `json:"anonymous"`
	ClientID   *string      `json:"client_id"`
	TTLSec     *uint32      `json:"ttl_sec"`
	Scalar     hexBytes     `json:"scalar_hex"`
	Nonce      hexBytes     `json:"nonce_random_hex"`
	SentMs     uint64       `json:"sent_ms"`
	Request    vSealed      `json:"request"`
	Answer     octets       `json:"answer"`
	ReceivedMs uint64       `json:"received_ms"`
	SessionID  string       `json:"session_id"`
	ExpiresMs  uint64       `json:"expires_ms"`
	Key        hexBytes     `json:"key_hex"`
	Probe      vMessage     `json:"probe"`
}

func playClientInit(t *testing.T, v *vClientInit) {
	init, message, err := session.NewCompatClientInit(v.Wire, v.Anonymous, text(v.ClientID), v.TTLSec, p256Key(t, v.Scalar), [16]byte(v.Nonce), v.SentMs)
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, message.Body, v.Request.Body.data)
	v.Request.same(t, &session.Message{Headers: message.Headers, Body: v.Request.Body.data})
	client := must(init.Finish(v.Answer.data, v.ReceivedMs))(t)
	if client.ID() != v.SessionID || client.ExpiresMs() != v.ExpiresMs {
		t.Fatalf("%s until %d", client.ID(), client.ExpiresMs())
	}
	// The key itself does not show; what it seals does.
	sealed, _ := v.Probe.seal(client)
	v.Probe.Sealed.same(t, sealed)
}

type vClientInitRefused struct {
	head
	Wire      wire.Version `json:"wire"`
	Anonymous bool         `json:"anonymous"`
	ClientID  *string      `json:"client_id"`
	Scalar    hexBytes     `json:"scalar_hex"`
	Answer    octets       `json:"answer"`
	Code      string       `json:"code"`
}

func playClientInitRefused(t *testing.T, v *vClientInitRefused) {
	_, err := begun(t, v.Wire, v.Anonymous, v.ClientID, v.Scalar).Finish(v.Answer.data, 0)
	wantCode(t, err, v.Code)
}

func openCall(t *testing.T, s *vSession, path string, headers headerPairs, body []byte, nowMs, windowMs uint64) (*exchange.ClaimGuard, error) {
	opened, _, err := openRequest(t, s.open(t), session.Line{Method: "POST", Target: path}, headers, body, nowMs, windowMs)
	return opened, err
}

type vRequest struct {
	head
	Session  vSession `json:"session"`
	Client   vClient  `json:"client"`
	NowMs    uint64   `json:"now_ms"`
	WindowMs uint64   `json:"window_ms"`
	Request  vMessage `json:"request"`
	Claim    vClaim   `json:"claim"`
}

func playRequest(t *testing.T, v *vRequest) {
	sealed, _ := v.Request.seal(v.Client.session(t))
	v.Request.Sealed.same(t, sealed)
	opened := must(openCall(t, &v.Session, v.Request.Path, v.Request.Sealed.Headers, v.Request.Sealed.Body.data, v.NowMs, v.WindowMs))(t)
	v.Claim.same(t, opened.Claim(), v.NowMs)
	if !v.Request.Plaintext.same(releasePlain(t, opened).First) {
		t.Fatal("another plaintext")
	}
}

type vRequestRefused struct {
	head
	Session  vSession    `json:"session"`
	Path     string      `json:"path"`
	NowMs    uint64      `json:"now_ms"`
	WindowMs uint64      `json:"window_ms"`
	Headers  headerPairs `json:"headers"`
	Body     octets      `json:"body"`
	Code     string      `json:"code"`
}

func playRequestRefused(t *testing.T, v *vRequestRefused) {
	_, err := openCall(t, &v.Session, v.Path, v.Headers, v.Body.data, v.NowMs, v.WindowMs)
	wantCode(t, err, v.Code)
}

type vAnswerPart struct {
	vMessage
	Status      int      `json:"status"`
	StampMs     uint64   `json:"stamp_ms"`
	NonceRandom hexBytes `json:"nonce_random_hex"`
}

type vAnswer struct {
	head
	Session    vSession    `json:"session"`
	Client     vClient     `json:"client"`
	NowMs      uint64      `json:"now_ms"`
	WindowMs   uint64      `json:"window_ms"`
	Request    vMessage    `json:"request"`
	Answer     vAnswerPart `json:"answer"`
	ReceivedMs uint64      `json:"received_ms"`
}

func playAnswer(t *testing.T, v *vAnswer) {
	opened := must(openCall(t, &v.Session, v.Request.Path, v.Request.Sealed.Headers, v.Request.Sealed.Body.data, v.NowMs, v.WindowMs))(t)
	random := session.SealRandoms{IV: [12]byte(v.Answer.IV), Nonce: [16]byte(v.Answer.NonceRandom)}
	sealed := releasePlain(t, opened).Reply.Seal(v.Answer.Status, v.Answer.Plaintext.data, v.Answer.StampMs, random)
	v.Answer.Sealed.same(t, sealed)
	_, pending := v.Request.seal(v.Client.session(t))
	plaintext := must(pending.Open(v.Answer.Sealed.Headers.list(), v.Answer.Status, bytes.Clone(v.Answer.Sealed.Body.data), v.ReceivedMs, replayPolicy(v.WindowMs)))(t)
	if !v.Answer.Plaintext.same(plaintext) {
		t.Fatal("another plaintext")
	}
}

type vAnswerRefused struct {
	head
	Client     vClient     `json:"client"`
	Request    vMessage    `json:"request"`
	ReceivedMs uint64      `json:"received_ms"`
	WindowMs   uint64      `json:"window_ms"`
	Status     int         `json:"status"`
	Headers    headerPairs `json:"headers"`
	Body       octets      `json:"body"`
	Code       string      `json:"code"`
}

func playAnswerRefused(t *testing.T, v *vAnswerRefused) {
	_, pending := v.Request.seal(v.Client.session(t))
	plaintext, err := pending.Open(v.Headers.list(), v.Status, bytes.Clone(v.Body.data), v.ReceivedMs, replayPolicy(v.WindowMs))
	if plaintext != nil {
		t.Fatal("a plaintext beside an error")
	}
	wantCode(t, err, v.Code)
}
