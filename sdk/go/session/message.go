package session

import (
	"crypto/sha256"
	"encoding/json"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// InitRequest is the body of an init or a renewal on wire 3. spec/session-3.md#init
type InitRequest struct {
	Suite    string
	Suites   []string
	Share    []byte
	ClientID string
	// TTLSec is nil if the client asks for none.
	TTLSec *uint32
	// Proof is a DPoP proof, or empty.
	Proof        string
	PinnedKeyIDs []string
	// SignatureAlgorithms restricts the algorithms that the client accepts; there may be names that are not known.
	SignatureAlgorithms Algorithms
}

// ParseInitRequest reads a body, in the order of the spec's table: body_too_large, json_invalid, or field_invalid with the member.
func ParseInitRequest(body []byte) (*InitRequest, error) {
	if len(body) > wire.NativeInitBodyMax {
		return nil, wire.Refuse(wire.CodeBodyTooLarge)
	}
	members, err := wire.ParseObject(body)
	if err != nil {
		return nil, err
	}
	request := &InitRequest{}
	var ok bool
	if request.Suite, _ = members.Text("suite"); !wire.ValidSuiteName(request.Suite) {
		return nil, fieldInvalid("suite")
	}
	if request.Suites, ok = members.Names("suites", 1, wire.SuitesMax, wire.ValidSuiteName); !ok {
		return nil, fieldInvalid("suites")
	}
	if request.Share, ok = members.Base64("share"); !ok {
		return nil, fieldInvalid("share")
	}
	if request.ClientID, _ = members.Text("client_id"); !wire.ValidClientID(request.ClientID) {
		return nil, fieldInvalid("client_id")
	}
	if members.Has("ttl_sec") {
		ttl, ok := wire.Whole(members["ttl_sec"], 1<<32-1)
		if !ok {
			return nil, fieldInvalid("ttl_sec")
		}
		sec := uint32(ttl)
		request.TTLSec = &sec
	}
	if members.Has("proof") {
		request.Proof, _ = members.Text("proof")
		if request.Proof == "" || len(request.Proof) > wire.ProofLenMax {
			return nil, fieldInvalid("proof")
		}
	}
	if members.Has("pinned_key_ids") {
		if request.PinnedKeyIDs, ok = members.Names("pinned_key_ids", 0, wire.PinnedKeysMax, wire.ValidKeyID); !ok {
			return nil, fieldInvalid("pinned_key_ids")
		}
	}
	if request.SignatureAlgorithms, ok = parseAlgorithms(members); !ok {
		return nil, fieldInvalid("signature_algorithms")
	}
	return request, nil
}

// Encode writes the body.
func (r *InitRequest) Encode() []byte {
	data, _ := json.Marshal(struct {
		Suite      string     `json:"suite"`
		Suites     []string   `json:"suites"`
		Share      string     `json:"share"`
		ClientID   string     `json:"client_id"`
		TTLSec     *uint32    `json:"ttl_sec,omitempty"`
		Proof      string     `json:"proof,omitempty"`
		Pinned     []string   `json:"pinned_key_ids,omitempty"`
		Algorithms Algorithms `json:"signature_algorithms,omitempty"`
	}{r.Suite, r.Suites, wire.EncodeBase64(r.Share), r.ClientID, r.TTLSec, r.Proof, r.PinnedKeyIDs, r.SignatureAlgorithms}) // cannot fail
	return data
}

func (f fields) optionalTTL(ttl *uint32) fields {
	if ttl == nil {
		return f.text("")
	}
	return f.number(uint64(*ttl))
}

// InitHash is what a DPoP proof is bound to; its claim is the base64url of it.
func (r *InitRequest) InitHash() [32]byte {
	return sha256.Sum256(fields(nil).list(r.Suites).text(r.Suite).bytes(r.Share).text(r.ClientID).optionalTTL(r.TTLSec).list(r.PinnedKeyIDs).
		algorithms(r.SignatureAlgorithms))
}

// Credential is SHA-256 of the value of Authorization as sent, nothing without one.
func Credential(authorization string) []byte {
	if authorization == "" {
		return nil
	}
	hash := sha256.Sum256([]byte(authorization))
	return hash[:]
}

// InitAnswer is what a server says in answer to an init or a renewal; all of it is under its signature.
type InitAnswer struct {
	SessionID    string
	Suite        string
	Suites       []string
	Share        []byte
	ExpiresInSec uint32
	ServerTimeMs uint64
	KeyID        string
	KeyIDs       []string
	Auth         Auth
	// Subject and Tenant are empty where nobody said.
	Subject, Tenant string
}

type initAnswerJSON struct {
	SessionID    string   `json:"session_id"`
	Suite        string   `json:"suite"`
	Suites       []string `json:"suites"`
	Share        string   `json:"share"`
	ExpiresInSec uint32   `json:"expires_in_sec"`
	ServerTimeMs uint64   `json:"server_time_ms"`
	KeyID        string   `json:"key_id"`
	KeyIDs       []string `json:"key_ids"`
	Auth         string   `json:"auth"`
	Subject      string   `json:"subject,omitempty"`
	Tenant       string   `json:"tenant,omitempty"`
	Signature    string   `json:"signature"`
	Confirm      string   `json:"confirm"`
}

func (a *InitAnswer) encode(signature, confirm []byte) []byte {
	data, _ := json.Marshal(initAnswerJSON{a.SessionID, a.Suite, a.Suites, wire.EncodeBase64(a.Share), a.ExpiresInSec, a.ServerTimeMs,
		a.KeyID, a.KeyIDs, string(a.Auth), a.Subject, a.Tenant, wire.EncodeBase64(signature), wire.EncodeBase64(confirm)}) // cannot fail
	return data
}

// parseInitAnswer reads an answer; whatever is wrong with its form is answer_mismatch.
func parseInitAnswer(body []byte) (answer *InitAnswer, signature, confirm []byte, err error) {
	mismatch := wire.Refuse(wire.CodeAnswerMismatch)
	if len(body) > wire.NativeInitBodyMax {
		return nil, nil, nil, mismatch
	}
	members, err := wire.ParseObject(body)
	if err != nil {
		return nil, nil, nil, mismatch
	}
	answer = &InitAnswer{}
	id, _ := members.Text("session_id")
	suite, _ := members.Text("suite")
	keyID, _ := members.Text("key_id")
	auth, _ := members.Text("auth")
	suites, okSuites := members.Names("suites", 1, wire.SuitesMax, wire.ValidSuiteName)
	keyIDs, okKeyIDs := members.Names("key_ids", 1, wire.PinnedKeysMax, wire.ValidKeyID)
	share, okShare := members.Base64("share")
	life, okLife := wire.Whole(members["expires_in_sec"], 1<<32-1)
	timeMs, okTime := wire.Whole(members["server_time_ms"], 1<<64-1)
	signature, okSignature := members.Base64("signature")
	confirm, okConfirm := members.Base64("confirm")
	subject, okSubject := optionalSubject(members, "subject")
	tenant, okTenant := optionalSubject(members, "tenant")
	valid := wire.ValidSessionID(id) && id[0] == 'S' && wire.ValidSuiteName(suite) && wire.ValidKeyID(keyID) && validAuth(auth) &&
		okSuites && okKeyIDs && okShare && okLife && okTime && okSubject && okTenant &&
		okSignature && len(signature) <= wire.SignatureLenMax && okConfirm && len(confirm) == sha256.Size
	if !valid {
		return nil, nil, nil, mismatch
	}
	*answer = InitAnswer{id, suite, suites, share, uint32(life), timeMs, keyID, keyIDs, Auth(auth), subject, tenant}
	return answer, signature, confirm, nil
}

// optionalSubject takes a text of 1 to 256 bytes, or none.
func optionalSubject(members wire.Members, name string) (string, bool) {
	text, ok := members.Text(name)
	if !ok {
		return "", !members.Has(name)
	}
	return text, len(text) >= 1 && len(text) <= wire.SubjectLenMax
}

// transcriptHash is everything that both sides said, but for signature and confirm. renewed is the old session's id, or empty.
func transcriptHash(request *InitRequest, credential []byte, answer *InitAnswer, renewed string) [32]byte {
	return sha256.Sum256(transcriptFields(request, credential, answer, renewed))
}

func transcriptFields(request *InitRequest, credential []byte, answer *InitAnswer, renewed string) fields {
	f := make(fields, 0, 4096)
	if renewed == "" {
		f = f.text("sealway/3 init")
	} else {
		f = f.text("sealway/3 renew").text(renewed)
	}
	f = f.text(request.Suite).list(request.Suites).bytes(request.Share).text(request.ClientID).optionalTTL(request.TTLSec).
		text(request.Proof).list(request.PinnedKeyIDs).algorithms(request.SignatureAlgorithms)
	return f.bytes(credential).text(answer.SessionID).text(answer.Suite).list(answer.Suites).bytes(answer.Share).
		number(uint64(answer.ExpiresInSec)).number(answer.ServerTimeMs).text(answer.KeyID).list(answer.KeyIDs).
		text(string(answer.Auth)).text(answer.Subject).text(answer.Tenant)
}

func signatureMessage(th [32]byte) []byte { return append([]byte("sealway/3 signature"), th[:]...) }

// derivePRK gives prk. Of a renewal the old exporter goes before the secret.
func derivePRK(th [32]byte, oldExporter, secret []byte) Key {
	prk := crypto.Extract(th[:], oldExporter, secret)
	defer clear(prk)
	return Key(prk)
}
