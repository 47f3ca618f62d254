package session_test

import (
	"bytes"
	"crypto/mlkem"
	"encoding/json"
	"errors"
	"testing"

	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

type vNativeSession struct {
	ID        string       `json:"id"`
	Wire      wire.Version `json:"wire"`
	ClientID  string       `json:"client_id"`
	PRK       hexBytes     `json:"prk_hex"`
	C2S       hexBytes     `json:"c2s_hex"`
	S2C       hexBytes     `json:"s2c_hex"`
	CreatedMs uint64       `json:"created_ms"`
	ExpiresMs uint64       `json:"expires_ms"`
}

func (s *vNativeSession) open(t *testing.T) *session.Session {
	for label, want := range map[string][]byte{"c2s": s.C2S, "s2c": s.S2C} {
		if !bytes.Equal(crypto.Expand(s.PRK, 32, []byte("sealway/3 "+label)), want) {
			t.Fatalf("another %s", label)
		}
	}
	return must(session.NewSession(&session.Record{ID: s.ID, Wire: s.Wire, ClientID: s.ClientID, Auth: session.AuthNone,
		CreatedMs: s.CreatedMs, ExpiresMs: s.ExpiresMs, Key: session.Key(s.PRK)}))(t)
}

type vNativeClient struct {
	Scalar  hexBytes `json:"p256_scalar_hex"`
	Body    string   `json:"body"`
	Answer  string   `json:"answer"`
	Trusted hexBytes `json:"trusted_hex"`
}

func trusts(keys ...hexBytes) func(string) []byte {
	return func(id string) []byte {
		for _, key := range keys {
			if crypto.KeyID(key) == id {
				return key
			}
		}
		return nil
	}
}

func (c *vNativeClient) session(t *testing.T) *session.ClientSession {
	request := must(session.ParseInitRequest([]byte(c.Body)))(t)
	init := must(session.ResumeClientInit(request, "", crypto.Keys{P256: p256Key(t, c.Scalar)}, nil))(t)
	return must(init.Finish(201, []byte(c.Answer), trusts(c.Trusted)))(t)
}

type vClientKeys struct {
	P256    hexBytes `json:"p256_scalar_hex"`
	P384    hexBytes `json:"p384_scalar_hex"`
	X25519  hexBytes `json:"x25519_hex"`
	KEM     hexBytes `json:"kem_private_hex"`
	KEMSeed hexBytes `json:"kem_seed_hex"`
}

func (k *vClientKeys) keys(t *testing.T, ciphertext, secret []byte) crypto.Keys {
	keys := crypto.Keys{P256: p256Key(t, k.P256), P384: p384Key(t, k.P384), X25519: x25519Key(t, k.X25519)}
	if len(k.KEMSeed) > 0 {
		keys.KEM = seed1024{must(mlkem.NewDecapsulationKey1024(k.KEMSeed))(t)}
	} else if len(k.KEM) > 0 {
		keys.KEM = &expandedKey{k.KEM, ciphertext, secret}
	}
	return keys
}

type vIdentity struct {
	Algorithm   *string  `json:"alg"`
	Scalar      hexBytes `json:"scalar_hex"`
	Seed        hexBytes `json:"seed_hex"`
	Public      hexBytes `json:"public_hex"`
	NotBeforeMs uint64   `json:"not_before_ms"`
	NotAfterMs  uint64   `json:"not_after_ms"`
}

type vServer struct {
	Suites     []string    `json:"suites"`
	Identities []vIdentity `json:"identities"`
}

func (s *vServer) terms(t *testing.T) session.Terms {
	terms := session.Terms{Auth: session.AuthNone, ExpiresInSec: 3600}
	for _, name := range s.Suites {
		suite, ok := crypto.ParseSuite(name)
		if !ok {
			t.Fatalf("suite %s", name)
		}
		terms.Suites = append(terms.Suites, suite)
	}
	for _, identity := range s.Identities {
		algorithm := crypto.ES256
		if identity.Algorithm != nil {
			algorithm = crypto.SignatureAlgorithm(*identity.Algorithm)
		}
		key := must(algorithm.ParseKey(append(bytes.Clone(identity.Scalar), identity.Seed...)))(t)
		if identity.Public != nil && !bytes.Equal(key.PublicKey(), identity.Public) {
			t.Fatalf("another public key of %s", algorithm)
		}
		terms.Identities = append(terms.Identities, session.Identity{Key: key,
			NotBeforeMs: identity.NotBeforeMs, NotAfterMs: identity.NotAfterMs})
	}
	return terms
}

type vServerKeys struct {
	vServer
	SessionID     hexBytes `json:"session_id_random_hex"`
	ExpiresInSec  uint32   `json:"expires_in_sec"`
	Auth          string   `json:"auth"`
	Subject       *string  `json:"subject"`
	Tenant        *string  `json:"tenant"`
	P256          hexBytes `json:"p256_scalar_hex"`
	P384          hexBytes `json:"p384_scalar_hex"`
	X25519        hexBytes `json:"x25519_hex"`
	KEMCiphertext hexBytes `json:"kem_ciphertext_hex"`
	KEMSecret     hexBytes `json:"kem_secret_hex"`
}

type vNativeInit struct {
	head
	Authorization *string      `json:"authorization"`
	Body          octets       `json:"body"`
	NowMs         uint64       `json:"now_ms"`
	Client        *vClientKeys `json:"client"`
	Trusted       []hexBytes   `json:"trusted_hex"`
	Server        vServerKeys  `json:"server"`
	Answer        string       `json:"answer"`
	InitHash      hexBytes     `json:"init_hash_hex"`
	Credential    hexBytes     `json:"credential_hex"`
	Transcript    hexBytes     `json:"transcript_hex"`
	TH            hexBytes     `json:"th_hex"`
	Secret        hexBytes     `json:"secret_hex"`
	PRK           hexBytes     `json:"prk_hex"`
	C2S           hexBytes     `json:"c2s_hex"`
	S2C           hexBytes     `json:"s2c_hex"`
	Exporter      hexBytes     `json:"exporter_hex"`
	ConfirmKey    hexBytes     `json:"confirm_key_hex"`
}

func playNativeInit(t *testing.T, v *vNativeInit) { bothSidesNative(t, v, nil, nil) }

func bothSidesNative(t *testing.T, v *vNativeInit, old *session.Record, oldClient *session.ClientSession) {
	request := must(session.ParseInitRequest(v.Body.data))(t)
	if hash := request.InitHash(); !bytes.Equal(hash[:], v.InitHash) {
		t.Fatal("another init_hash")
	}
	if !bytes.Equal(session.Credential(text(v.Authorization)), v.Credential) {
		t.Fatal("another credential")
	}
	terms := v.Server.terms(t)
	terms.ExpiresInSec, terms.Auth, terms.Credential = v.Server.ExpiresInSec, session.Auth(v.Server.Auth), v.Credential
	terms.Subject, terms.Tenant = text(v.Server.Subject), text(v.Server.Tenant)
	draw := func(crypto.Suite) (session.InitRandoms, error) {
		return session.InitRandoms{SessionID: [16]byte(v.Server.SessionID),
			Keys: crypto.Keys{P256: p256Key(t, v.Server.P256), P384: p384Key(t, v.Server.P384), X25519: x25519Key(t, v.Server.X25519)},
			Encapsulate: func(crypto.EncapsulationKey) (secret, ciphertext []byte) {
				return bytes.Clone(v.Server.KEMSecret), v.Server.KEMCiphertext
			}}, nil
	}
	answer, record, err := session.AgreeInit(request, terms, old, draw, v.NowMs)
	if err != nil {
		t.Fatal(err)
	}
	// A signature may be another and as good; the reference's are RFC 6979's, as this library's are.
	sameJSON(t, answer, []byte(v.Answer))
	if !bytes.Equal(record.Key[:], v.PRK) {
		t.Fatal("another prk")
	}
	if !bytes.Equal(record.Exporter(), v.Exporter) {
		t.Fatal("another exporter")
	}
	session.CheckTranscript(t, request, v.Credential, []byte(v.Answer), oldID(old), v.Transcript, v.TH)
	for label, want := range map[string][]byte{"c2s": v.C2S, "s2c": v.S2C, "confirm": v.ConfirmKey} {
		if !bytes.Equal(crypto.Expand(v.PRK, 32, []byte("sealway/3 "+label)), want) {
			t.Fatalf("another %s", label)
		}
	}
	if v.Client == nil {
		return
	}
	keys := v.Client.keys(t, v.Server.KEMCiphertext, v.Server.KEMSecret)
	suite, _ := crypto.ParseSuite(request.Suite)
	share := must(crypto.ClientShare(suite, keys))(t)
	mine := *request
	mine.Share = share
	sameJSON(t, mine.Encode(), v.Body.data)
	var members struct {
		Share string `json:"share"`
	}
	if err := json.Unmarshal([]byte(v.Answer), &members); err != nil {
		t.Fatal(err)
	}
	secret := must(crypto.ClientAgree(suite, must(wire.DecodeBase64(members.Share))(t), keys))(t)
	if !bytes.Equal(secret, v.Secret) {
		t.Fatal("another secret")
	}
	init := must(session.ResumeClientInit(&mine, text(v.Authorization), keys, oldClient))(t)
	client := must(init.Finish(201, []byte(v.Answer), trusts(v.Trusted...)))(t)
	session.CheckClientKeys(t, client, v.C2S, v.S2C, v.Exporter)
}

func oldID(old *session.Record) string {
	if old == nil {
		return ""
	}
	return old.ID
}

type vCompat struct {
	SessionID string        `json:"session_id"`
	PRK       hexBytes      `json:"prk_hex"`
	Exporter  hexBytes      `json:"exporter_hex"`
	Client    vNativeClient `json:"client"`
}

type vNativeRenew struct {
	vNativeInit
	Old vCompat `json:"old"`
}

func playNativeRenew(t *testing.T, v *vNativeRenew) {
	old := &session.Record{ID: v.Old.SessionID, Wire: wire.Wire3, ClientID: "demo-client", Key: session.Key(v.Old.PRK)}
	if !bytes.Equal(old.Exporter(), v.Old.Exporter) {
		t.Fatal("another exporter of the old session")
	}
	bothSidesNative(t, &v.vNativeInit, old, v.Old.Client.session(t))
}

type vNativeInitRefused struct {
	head
	Old           *vCompat    `json:"old"`
	Authorization *string     `json:"authorization"`
	Body          octets      `json:"body"`
	Client        vClientKeys `json:"client"`
	Trusted       []hexBytes  `json:"trusted_hex"`
	Status        int         `json:"status"`
	Answer        octets      `json:"answer"`
	Code          string      `json:"code"`
}

func playNativeInitRefused(t *testing.T, v *vNativeInitRefused) {
	request := must(session.ParseInitRequest(v.Body.data))(t)
	var old *session.ClientSession
	if v.Old != nil {
		old = v.Old.Client.session(t)
	}
	init := must(session.ResumeClientInit(request, text(v.Authorization), v.Client.keys(t, nil, nil), old))(t)
	_, err := init.Finish(v.Status, v.Answer.data, trusts(v.Trusted...))
	wantCode(t, err, v.Code)
}

type vNativeInitRequestRefused struct {
	head
	Body   octets  `json:"body"`
	NowMs  uint64  `json:"now_ms"`
	Server vServer `json:"server"`
	Code   string  `json:"code"`
	Field  *string `json:"field"`
}

func playNativeInitRequestRefused(t *testing.T, v *vNativeInitRequestRefused) {
	request, err := session.ParseInitRequest(v.Body.data)
	if err == nil {
		draw := func(suite crypto.Suite) (session.InitRandoms, error) {
			fixed := bytes.Repeat([]byte{7}, 32)
			return session.InitRandoms{Keys: crypto.Keys{P256: p256Key(t, fixed), P384: p384Key(t, bytes.Repeat([]byte{7}, 48)), X25519: x25519Key(t, fixed)},
				Encapsulate: crypto.EncapsulationKey.Encapsulate}, nil
		}
		_, _, err = session.AgreeInit(request, v.Server.terms(t), nil, draw, v.NowMs)
	}
	wantCode(t, err, v.Code)
	var refused *wire.Error
	if errors.As(err, &refused); refused.Name != text(v.Field) {
		t.Fatalf("the member at fault is %q, not %q", refused.Name, text(v.Field))
	}
}
