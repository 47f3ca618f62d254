package session

import (
	"fmt"
	"io"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// Offer is what a client wants of a session of wire 3.
type Offer struct {
	// Suites are those it takes, the one it likes most first. 1 to 8.
	Suites   []crypto.Suite
	ClientID string
	TTLSec   *uint32
	// PinnedKeyIDs are the identity keys it trusts, if it pins keys.
	PinnedKeyIDs []string
	// Authorization is the value of that header as it will be sent; empty in a renewal.
	Authorization string
	// SignatureAlgorithms restricts the algorithms of identity keys, if it has any. At most 8.
	SignatureAlgorithms Algorithms
}

// ClientInit is a client that has sent its share and waits for the server's.
type ClientInit struct {
	request    *InitRequest
	credential []byte
	suite      crypto.Suite
	keys       crypto.Keys
	renewed    *ClientSession
}

// NewClientInit begins with a share of suite, made of keys. renewed is the session that is to be renewed, or nil.
func NewClientInit(offer Offer, suite crypto.Suite, keys crypto.Keys, renewed *ClientSession) (*ClientInit, error) {
	if !wire.ValidClientID(offer.ClientID) {
		return nil, fieldInvalid("client_id")
	}
	if len(offer.Suites) < 1 || len(offer.Suites) > wire.SuitesMax {
		return nil, fieldInvalid("suites")
	}
	if len(offer.PinnedKeyIDs) > wire.PinnedKeysMax {
		return nil, fieldInvalid("pinned_key_ids")
	}
	if len(offer.SignatureAlgorithms) > wire.AlgorithmsMax {
		return nil, fieldInvalid("signature_algorithms")
	}
	share, err := crypto.ClientShare(suite, keys)
	if err != nil {
		return nil, err
	}
	init := &ClientInit{suite: suite, keys: keys, renewed: renewed, credential: Credential(offer.Authorization)}
	if renewed != nil {
		init.credential = nil
	}
	init.request = &InitRequest{Suite: string(suite), Suites: namesOf(offer.Suites), Share: share, ClientID: offer.ClientID,
		TTLSec: offer.TTLSec, PinnedKeyIDs: offer.PinnedKeyIDs, SignatureAlgorithms: offer.SignatureAlgorithms}
	return init, nil
}

// ResumeClientInit takes up an init whose request was made before: for vectors and tests.
func ResumeClientInit(request *InitRequest, authorization string, keys crypto.Keys, renewed *ClientSession) (*ClientInit, error) {
	suite, ok := crypto.ParseSuite(request.Suite)
	if !ok {
		return nil, fieldInvalid("suite")
	}
	return &ClientInit{request, Credential(authorization), suite, keys, renewed}, nil
}

// InitHash is what a DPoP proof is bound to.
func (c *ClientInit) InitHash() [32]byte { return c.request.InitHash() }

// SetProof puts a DPoP proof in; [ClientInit.InitHash] does not change by it.
func (c *ClientInit) SetProof(proof string) { c.request.Proof = proof }

// Body is what is sent: POST /v3/sessions, or sealed to /v3/sessions/<id>/renew.
func (c *ClientInit) Body() []byte { return c.request.Encode() }

// String shows no key.
func (c *ClientInit) String() string { return "ClientInit(redacted)" }

// Format is String, whatever the verb: no verb shows a key.
func (c *ClientInit) Format(state fmt.State, _ rune) { io.WriteString(state, c.String()) }

// Claimed reads the answer as far as its suite, and gives the key id that it names: the caller says whether it trusts that.
func (c *ClientInit) Claimed(status int, body []byte) (*InitAnswer, error) {
	answer, _, _, err := c.parse(status, body)
	return answer, err
}

func (c *ClientInit) parse(status int, body []byte) (answer *InitAnswer, signature, confirm []byte, err error) {
	if status != 201 {
		return nil, nil, nil, wire.Refuse(wire.CodeAnswerMismatch)
	}
	if answer, signature, confirm, err = parseInitAnswer(body); err != nil {
		return nil, nil, nil, err
	}
	if answer.Suite != c.request.Suite {
		return nil, nil, nil, wire.Refuse(wire.CodeAnswerMismatch)
	}
	if chosen(c.request.Suites, answer.Suites) != answer.Suite {
		return nil, nil, nil, wire.Refuse(wire.CodeSuiteDowngraded)
	}
	return answer, signature, confirm, nil
}

// Finish takes the answer. trusted gives the public key of a key id, nil if it is not trusted. The checks come in the spec's
// order: status and form, suite, key_untrusted, signature_invalid, public_key_invalid, unconfirmed. spec/session-3.md#init
func (c *ClientInit) Finish(status int, body []byte, trusted func(keyID string) []byte) (*ClientSession, error) {
	answer, signature, confirm, err := c.parse(status, body)
	if err != nil {
		return nil, err
	}
	public := trusted(answer.KeyID)
	if public == nil || crypto.KeyID(public) != answer.KeyID || !c.request.accepts(public) {
		return nil, wire.Refuse(wire.CodeKeyUntrusted)
	}
	var renewed string
	var exporter []byte
	if c.renewed != nil {
		var old [32]byte
		if err := c.renewed.use(func(*sessionKeys) { old = c.renewed.exporter }); err != nil {
			return nil, err
		}
		defer clear(old[:])
		renewed, exporter = c.renewed.answer.SessionID, old[:]
	}
	th := transcriptHash(c.request, c.credential, answer, renewed)
	if !crypto.Verify(public, signatureMessage(th), signature) {
		return nil, wire.Refuse(wire.CodeSignatureInvalid)
	}
	secret, err := crypto.ClientAgree(c.suite, answer.Share, c.keys)
	if err != nil {
		return nil, err
	}
	defer clear(secret)
	prk := derivePRK(th, exporter, secret)
	defer prk.Wipe()
	if !crypto.Equal(confirmation(prk, th), confirm) {
		return nil, wire.Refuse(wire.CodeUnconfirmed)
	}
	session := &ClientSession{answer: answer, clientID: c.request.ClientID, callKeys: callKeys{keys: deriveSessionKeys(prk)}}
	session.exporter = [32]byte(crypto.Expand(prk[:], 32, []byte("sealway/3 exporter")))
	return session, nil
}

// ClientSession is an agreed session of wire 3, for as many calls as its time allows, concurrent ones too.
type ClientSession struct {
	callKeys
	answer   *InitAnswer
	clientID string
	exporter [32]byte
}

// ID returns the session's id.
func (s *ClientSession) ID() string { return s.answer.SessionID }

// ClientID gives whom the client said it is; a renewal says the same.
func (s *ClientSession) ClientID() string { return s.clientID }

// Agreed gives what the server said; all of it is under its signature.
func (s *ClientSession) Agreed() *InitAnswer { return s.answer }

// ExpiresMs is when it ends by the server's clock.
func (s *ClientSession) ExpiresMs() uint64 {
	return s.answer.ServerTimeMs + uint64(s.answer.ExpiresInSec)*1000
}

// Wipe overwrites its keys. Calls that begin after it fail.
func (s *ClientSession) Wipe() {
	s.wipe(func() { clear(s.exporter[:]) })
}

// String shows the id alone.
func (s *ClientSession) String() string { return "ClientSession(" + s.answer.SessionID + ")" }

// Format is String, whatever the verb: no verb shows a key.
func (s *ClientSession) Format(state fmt.State, _ rune) { io.WriteString(state, s.String()) }

// Seal begins a request: its headers, and what writes its stream, which begins with inner headers. contentType is the outer
// one, empty for a message whose stream goes into X-Sealed.
func (s *ClientSession) Seal(line Line, contentType string, nowMs uint64, nonce [16]byte) (wire.HeaderList, *FrameSealer, *Call, error) {
	return s.seal(binding{wire.Wire3, s.ID()}, nil, line, contentType, wire.IdempotencyKey(nowMs, nonce, false))
}

// SealAs seals with stamp and nonce as text: for vectors and tests.
func (s *ClientSession) SealAs(line Line, contentType, stamp, nonce string) (wire.HeaderList, *FrameSealer, *Call, error) {
	return s.seal(binding{wire.Wire3, s.ID()}, nil, line, contentType, stamp+"."+nonce)
}
