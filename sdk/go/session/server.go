package session

import (
	"sort"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// Identity is an identity key and the time that it is live, up to and without NotAfterMs.
type Identity struct {
	Key                     crypto.Signer
	NotBeforeMs, NotAfterMs uint64
}

// ID returns its key id.
func (i Identity) ID() string { return crypto.KeyID(i.Key.PublicKey()) }

// Live says whether it signs at this time.
func (i Identity) Live(nowMs uint64) bool { return i.NotBeforeMs <= nowMs && nowMs < i.NotAfterMs }

// Terms is what a server grants in an init or a renewal.
type Terms struct {
	// Suites is the server's list for this client.
	Suites []crypto.Suite
	// Identities are all that there are; the live ones count.
	Identities      []Identity
	ExpiresInSec    uint32
	Auth            Auth
	Subject, Tenant string
	// Credential is [Credential] of the request's Authorization; empty in a renewal.
	Credential []byte
}

// InitRandoms are the random inputs of a server's agreement.
type InitRandoms struct {
	SessionID   [16]byte
	Keys        crypto.Keys
	Encapsulate crypto.Encapsulate
}

// AgreeInit agrees the keys of a session at nowMs; of a renewed one, old's exporter goes in. It gives the JSON of the answer,
// which is 201, and the session to keep. Refusals: suite_required, key_retired, public_key_invalid, policy. spec/session-3.md#init
func AgreeInit(request *InitRequest, terms Terms, old *Record, random func(crypto.Suite) (InitRandoms, error), nowMs uint64) ([]byte, *Record, error) {
	if old != nil && (request.ClientID != old.ClientID || request.Proof != "") {
		return nil, nil, wire.Refuse(wire.CodePolicy)
	}
	suite, err := CheckSuite(request, terms.Suites)
	if err != nil {
		return nil, nil, err
	}
	signer, live, err := signingKey(request, terms.Identities, nowMs)
	if err != nil {
		return nil, nil, err
	}
	randoms, err := random(suite)
	if err != nil {
		return nil, nil, err
	}
	share, secret, err := crypto.ServerAgree(suite, request.Share, randoms.Keys, randoms.Encapsulate)
	if err != nil {
		return nil, nil, err
	}
	defer clear(secret)
	answer := &InitAnswer{SessionID: wire.SessionIDOf(randoms.SessionID, false), Suite: string(suite), Suites: namesOf(terms.Suites),
		Share: share, ExpiresInSec: terms.ExpiresInSec, ServerTimeMs: nowMs, KeyID: signer.ID(), KeyIDs: live,
		Auth: terms.Auth, Subject: terms.Subject, Tenant: terms.Tenant}
	record := &Record{ID: answer.SessionID, Wire: wire.Wire3, ClientID: request.ClientID, Subject: terms.Subject, Tenant: terms.Tenant,
		Auth: terms.Auth, CreatedMs: nowMs, ExpiresMs: nowMs + uint64(terms.ExpiresInSec)*1000}
	var renewed string
	var exporter []byte
	if old != nil {
		renewed, exporter, record.CreatedMs = old.ID, old.Exporter(), old.CreatedMs
		defer clear(exporter)
	}
	th := transcriptHash(request, terms.Credential, answer, renewed)
	record.Key = derivePRK(th, exporter, secret)
	signature, err := signer.Key.Sign(signatureMessage(th))
	if err != nil {
		return nil, nil, err
	}
	return answer.encode(signature, confirmation(record.Key, th)), record, nil
}

// CheckSuite returns the suite of a session, suite_required if the share is of another one. spec/session-3.md#suites
func CheckSuite(request *InitRequest, suites []crypto.Suite) (crypto.Suite, error) {
	if name := chosen(request.Suites, namesOf(suites)); name == "" || name != request.Suite {
		return "", wire.Refuse(wire.CodeSuiteRequired)
	}
	return crypto.Suite(request.Suite), nil
}

// signingKey returns the latest key that the client accepts, and the ids of all live ones, the latest first.
func signingKey(request *InitRequest, identities []Identity, nowMs uint64) (Identity, []string, error) {
	var live []Identity
	for _, identity := range identities {
		if identity.Live(nowMs) {
			live = append(live, identity)
		}
	}
	sort.SliceStable(live, func(i, j int) bool { return live[i].NotBeforeMs > live[j].NotBeforeMs })
	var signer *Identity
	ids := make([]string, len(live))
	for i := range live {
		ids[i] = live[i].ID()
		if signer == nil && request.accepts(live[i].Key.PublicKey()) {
			signer = &live[i]
		}
	}
	if signer == nil {
		return Identity{}, nil, wire.Refuse(wire.CodeKeyRetired)
	}
	return *signer, ids, nil
}
