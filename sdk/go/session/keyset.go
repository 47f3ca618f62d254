package session

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// IdentityKey is one of a key set. A key of an algorithm that is not known is under the root's signature, and never trusted.
type IdentityKey struct {
	KeyID                   string
	Algorithm               crypto.SignatureAlgorithm
	Public                  []byte
	NotBeforeMs, NotAfterMs uint64
}

// timeMsMax is the latest time of a key set or key document: 15 digits.
const timeMsMax = 999_999_999_999_999

// signed is what key sets and key documents have in common: their times, and the signature of a root.
type signed struct {
	IssuedMs, ExpiresMs uint64
	// RootKeyID is empty where no root signed.
	RootKeyID string
	signature []byte
}

// parseSigned reads the members in common, and returns the list of keys.
func parseSigned(data []byte) (s signed, keys []any, err error) {
	if len(data) > wire.KeySetLenMax {
		return s, nil, wire.Refuse(wire.CodeBodyTooLarge)
	}
	members, err := wire.ParseObject(data)
	if err != nil {
		return s, nil, err
	}
	var ok bool
	if s.IssuedMs, ok = wire.Whole(members["issued_ms"], timeMsMax); !ok {
		return s, nil, fieldInvalid("issued_ms")
	}
	if s.ExpiresMs, ok = wire.Whole(members["expires_ms"], timeMsMax); !ok {
		return s, nil, fieldInvalid("expires_ms")
	}
	if keys, ok = members["keys"].([]any); !ok || len(keys) > wire.PinnedKeysMax {
		return s, nil, fieldInvalid("keys")
	}
	if s.RootKeyID, ok = members.Text("root_key_id"); members.Has("root_key_id") && (!ok || !wire.ValidKeyID(s.RootKeyID)) {
		return s, nil, fieldInvalid("root_key_id")
	}
	if s.signature, ok = members.Base64("root_signature"); members.Has("root_signature") && (!ok || len(s.signature) > wire.SignatureLenMax) {
		return s, nil, fieldInvalid("root_signature")
	}
	if (s.RootKeyID == "") != (s.signature == nil) {
		return s, nil, fieldInvalid("root_signature")
	}
	return s, keys, nil
}

// verify refuses what a pinned root did not sign (signature_invalid), and what is of another root or none, over, or issued before what
// was taken (key_untrusted), also if the client does not accept the root's algorithm. list has the keys. spec/session-3.md#trust
func (s *signed) verify(on wire.Version, list fields, root []byte, accepted Algorithms, nowMs, takenIssuedMs uint64) error {
	if s.RootKeyID != crypto.KeyID(root) || !accepted.Accept(root, true) {
		return wire.Refuse(wire.CodeKeyUntrusted)
	}
	hash := sha256.Sum256(fields(nil).number(s.IssuedMs).number(s.ExpiresMs).bytes(list))
	if !crypto.Verify(root, append(fmt.Appendf(nil, "sealway/%d keys", on), hash[:]...), s.signature) {
		return wire.Refuse(wire.CodeSignatureInvalid)
	}
	if nowMs >= s.ExpiresMs || s.IssuedMs < takenIssuedMs {
		return wire.Refuse(wire.CodeKeyUntrusted)
	}
	return nil
}

// KeySet is what /.well-known/sealway-keys gives. Without a root it proves nothing: it is a lookup of keys by pinned ids.
type KeySet struct {
	signed
	Keys []IdentityKey
}

// ParseKeySet reads a set; body_too_large, json_invalid or field_invalid for one that is malformed, or has a key twice or
// under another's id. spec/session-3.md#identity-keys
func ParseKeySet(data []byte) (*KeySet, error) {
	common, list, err := parseSigned(data)
	if err != nil {
		return nil, err
	}
	set := &KeySet{signed: common}
	for _, value := range list {
		key, ok := parseIdentityKey(value)
		isListed := func(other IdentityKey) bool { return other.KeyID == key.KeyID }
		if !ok || slices.ContainsFunc(set.Keys, isListed) {
			return nil, fieldInvalid("keys")
		}
		set.Keys = append(set.Keys, key)
	}
	return set, nil
}

func parseIdentityKey(value any) (key IdentityKey, valid bool) {
	object, _ := value.(map[string]any)
	members := wire.Members(object)
	alg, _ := members.Text("alg")
	key.KeyID, _ = members.Text("key_id")
	public, okPublic := members.Base64("public_key")
	var okBefore, okAfter bool
	key.NotBeforeMs, okBefore = wire.Whole(members["not_before_ms"], timeMsMax)
	key.NotAfterMs, okAfter = wire.Whole(members["not_after_ms"], timeMsMax)
	key.Public = public
	// A set may list a key off the curve, which signs nothing. With another id a root's word for one key could be taken for its word for
	// another.
	key.Algorithm = crypto.SignatureAlgorithm(alg)
	valid = wire.ValidAlgorithmName(alg) && okPublic && okBefore && okAfter && key.KeyID == crypto.KeyID(public)
	if algorithm, known := crypto.AlgorithmOf(public); known || key.known() {
		return key, valid && key.Algorithm == algorithm && algorithm.HasPublic(public)
	}
	return key, valid && len(public) <= wire.PublicKeyLenMax
}

func (k *IdentityKey) known() bool { return k.Algorithm.PublicLen() > 0 }

// Key returns the public key of an id, nil if the set does not have it or its algorithm is not known.
func (s *KeySet) Key(id string) []byte {
	for _, key := range s.Keys {
		if key.KeyID == id && key.known() {
			return key.Public
		}
	}
	return nil
}

// Signer returns the public key of an id if it may have signed an answer whose server said serverTimeMs, and that came at nowMs of
// the client's own clock; nil if the set does not have it, or not at this time. For the ends the later clock counts, and the root's
// word on when it issued the set: the thief of a key that is over says an earlier time. spec/session-3.md#identity-keys
func (s *KeySet) Signer(id string, serverTimeMs, nowMs uint64) []byte {
	latest := max(serverTimeMs, nowMs, s.IssuedMs)
	for _, key := range s.Keys {
		if key.KeyID == id && key.known() && key.NotBeforeMs <= serverTimeMs && latest < key.NotAfterMs && latest < s.ExpiresMs {
			return key.Public
		}
	}
	return nil
}

// VerifyRoot refuses a set that a pinned root did not sign (signature_invalid), and one of another root or none, over, or
// issued before one that was taken, or of a root whose algorithm is not accepted (key_untrusted).
func (s *KeySet) VerifyRoot(root []byte, accepted Algorithms, nowMs, takenIssuedMs uint64) error {
	var list fields
	for _, key := range s.Keys {
		list = list.bytes(fields(nil).text(key.KeyID).bytes(key.Public).number(key.NotBeforeMs).number(key.NotAfterMs))
	}
	return s.verify(wire.Wire3, list, root, accepted, nowMs, takenIssuedMs)
}
