package session

import (
	"crypto/ecdh"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// Family is the endpoint that an init of wires 1 and 2 came to.
type Family uint8

// The endpoints.
const (
	// FamilySession is POST /session/init, wires 1 and 2.
	FamilySession Family = iota
	// FamilyAnonymous is POST /session/init/anon, wire 1 alone.
	FamilyAnonymous
	// FamilyV1 is POST /v1/session/init, wire 2 alone.
	FamilyV1
)

// TTLPolicy says how long sessions of wires 1 and 2 live, in seconds.
type TTLPolicy struct {
	MinSec, MaxSec, DefaultSec, V1AnonymousSec, V1AuthenticatedSec, AnonymousSec uint32
}

// DefaultTTL returns the spec's defaults.
func DefaultTTL() TTLPolicy { return TTLPolicy{300, 3600, 1800, 1800, 3600, 120} }

// CompatInitRandoms are the random inputs of one init of wires 1 and 2.
type CompatInitRandoms struct {
	SessionID [16]byte
	Ephemeral *ecdh.PrivateKey
}

// CompatInitRequest is a well-formed init whose public key is not yet checked: its nonce comes first.
type CompatInitRequest struct {
	family   Family
	version  wire.Version
	clientID string
	public   string
	ttl      *uint32
}

// ParseCompatInit reads an init of wires 1 and 2. spec/session.md#init
func ParseCompatInit(family Family, headers wire.Headers, body []byte, nowMs uint64, policy ReplayPolicy) (*ClaimGuard[*CompatInitRequest], error) {
	call := &CompatInitRequest{family: family, version: wire.VersionOf(headers)}
	switch family {
	case FamilyAnonymous:
		call.version = wire.Wire1
	case FamilyV1:
		call.version = wire.Wire2
	}
	value, err := wire.ParseJSON(body)
	if err != nil {
		return nil, err
	}
	object, _ := value.(map[string]any)
	members := wire.Members(object)
	stamp, nonce, err := call.stampAndNonce(headers, members)
	if err != nil {
		return nil, err
	}
	lenMin := 1
	if family == FamilyV1 {
		lenMin = wire.NonceLenMinV1
	}
	if err := wire.CheckRequestNonce(nonce, lenMin); err != nil {
		return nil, err
	}
	stampMs, err := wire.ParseStamp(stamp)
	if err != nil {
		return nil, err
	}
	if err := policy.Check(stampMs, nowMs); err != nil {
		return nil, err
	}
	if family == FamilySession {
		if call.ttl, err = readTTL(members["ttlSec"], call.version); err != nil {
			return nil, err
		}
	}
	tag, scope := byte(tagInit1), ""
	if call.version == wire.Wire2 {
		tag, scope = tagInit2, call.clientID
	}
	return &ClaimGuard[*CompatInitRequest]{newClaim(tag, scope, nonce, stampMs, nowMs, policy), call}, nil
}

// stampAndNonce reads the headers, and the members that are checked between them and the nonce.
func (c *CompatInitRequest) stampAndNonce(headers wire.Headers, members wire.Members) (stamp, nonce string, err error) {
	if c.version == wire.Wire1 {
		if nonce, err = wire.Required(headers, wire.HeaderNonce); err != nil {
			return "", "", err
		}
		if stamp, err = wire.Required(headers, wire.HeaderTimestamp); err != nil {
			return "", "", err
		}
		if name, _ := members.Text("keyAgreement"); name != "ECDH_P256" {
			return "", "", &wire.Error{Code: wire.CodeFieldInvalid, Name: "keyAgreement"}
		}
		return stamp, nonce, c.readPublic(members)
	}
	key, keyErr := wire.Required(headers, wire.HeaderIdempotencyKey)
	if refused, _ := keyErr.(*wire.Error); refused != nil {
		if refused.Code == wire.CodeHeaderMissing {
			return "", "", keyErr
		}
		// A repeated header is there, and of a wrong shape.
		keyErr = wire.Refuse(wire.CodeIdempotencyKeyShape)
	}
	if c.clientID, err = requiredClientID(headers); err != nil {
		return "", "", err
	}
	if err := c.readPublic(members); err != nil {
		return "", "", err
	}
	if keyErr != nil {
		return "", "", keyErr
	}
	return wire.SplitIdempotencyKey(key)
}

func requiredClientID(headers wire.Headers) (string, error) {
	id, err := wire.Required(headers, wire.HeaderClientID)
	if err == nil && !wire.ValidClientID(id) {
		err = &wire.Error{Code: wire.CodeHeaderInvalid, Name: wire.HeaderClientID}
	}
	return id, err
}

func (c *CompatInitRequest) readPublic(members wire.Members) error {
	c.public, _ = members.Text("clientPublicKey")
	if c.public == "" {
		return &wire.Error{Code: wire.CodeFieldInvalid, Name: "clientPublicKey"}
	}
	return nil
}

var decimal = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)

// readTTL reads ttlSec; wire 1 does so as its servers did. spec/session.md#post-sessioninit
func readTTL(value any, version wire.Version) (*uint32, error) {
	var sec float64
	isNumber, isText := false, false
	switch value := value.(type) {
	case nil:
		return nil, nil
	case json.Number:
		isNumber = true
		sec, _ = value.Float64()
	case string:
		text := strings.TrimSpace(value)
		number, err := strconv.ParseFloat(text, 64)
		sec, isText = number, err == nil && decimal.MatchString(text)
	}
	if version == wire.Wire2 && (!isNumber || sec < 0 || sec != math.Trunc(sec)) {
		return nil, &wire.Error{Code: wire.CodeFieldInvalid, Name: "ttlSec"}
	}
	if !isNumber && !isText {
		return nil, nil
	}
	ttl := uint32(min(max(sec, 0), math.MaxUint32))
	return &ttl, nil
}

// Version is the wire that the session will be bound to.
func (c *CompatInitRequest) Version() wire.Version { return c.version }

// ClientID is whom the client says it is; wire 1 has none.
func (c *CompatInitRequest) ClientID() string { return c.clientID }

// Accept agrees the key and gives the JSON answer of exactly four members. authenticated is whether a token was presented and
// accepted, subject whom it names. A key that is no point is public_key_invalid. spec/session.md#keys
func (c *CompatInitRequest) Accept(ttl TTLPolicy, authenticated bool, subject string, random CompatInitRandoms, nowMs uint64) ([]byte, *Record, error) {
	peer, err := wire.DecodeBase64(c.public)
	if err != nil {
		return nil, nil, wire.Refuse(wire.CodePublicKeyInvalid)
	}
	z, err := crypto.Agree(ecdh.P256(), random.Ephemeral, peer)
	if err != nil {
		return nil, nil, err
	}
	defer clear(z)
	anonymous := c.family == FamilyAnonymous
	id := wire.SessionIDOf(random.SessionID, anonymous)
	lifeSec, alg := ttl.DefaultSec, wire.A256GCM
	switch {
	case anonymous:
		lifeSec = ttl.AnonymousSec
	case c.family == FamilyV1:
		alg, lifeSec = "aes-256-gcm", ttl.V1AnonymousSec
		if authenticated {
			lifeSec = ttl.V1AuthenticatedSec
		}
	case c.ttl != nil:
		lifeSec = min(max(*c.ttl, ttl.MinSec), ttl.MaxSec)
	}
	record := &Record{ID: id, Wire: c.version, ClientID: c.clientID, Subject: subject, Auth: AuthNone,
		CreatedMs: nowMs, ExpiresMs: nowMs + uint64(lifeSec)*1000, Key: deriveKey(z, id, keyInfo(c.version, anonymous, c.clientID))}
	if authenticated {
		record.Auth = AuthBearer
	}
	// No member needs escaping.
	answer := fmt.Appendf(nil, `{"sessionId":%q,"serverPublicKey":%q,"encAlg":%q,"expiresInSec":%d}`,
		id, wire.EncodeBase64(random.Ephemeral.PublicKey().Bytes()), alg, lifeSec)
	return answer, record, nil
}

// String shows no key.
func (c *CompatInitRequest) String() string {
	return fmt.Sprintf("CompatInitRequest(wire %d)", c.version)
}

func keyInfo(version wire.Version, anonymous bool, clientID string) string {
	switch {
	case version == wire.Wire2:
		return "SESSION|A256GCM|" + clientID
	case anonymous:
		return "SESSION|A256GCM|ANON"
	}
	return "SESSION|A256GCM|AUTH"
}

// deriveKey is HKDF-SHA256(ikm = Z, salt = session id, info, 32).
func deriveKey(z []byte, id, info string) Key {
	prk := crypto.Extract([]byte(id), z)
	defer clear(prk)
	out := crypto.Expand(prk, wire.KeyLen, []byte(info))
	defer clear(out)
	return Key(out)
}
