package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// suitesOfConfig are the one suite of every key configuration of wire 4, HKDF-SHA256 and AES-256-GCM, behind its length.
var suitesOfConfig = []byte{0, 4, 0, 1, 0, 2}

// KeyConfig is a key configuration of RFC 9458 section 3.1 with the one suite of wire 4: a public key of a service.
type KeyConfig struct {
	KEM     crypto.KEM
	Public  []byte
	encoded []byte
}

// ParseKeyConfig reads a key configuration; field_invalid for another form. A KEM that is not known has [crypto.KEM.PublicLen] 0.
// spec/one-shot.md#keys
func ParseKeyConfig(data []byte) (*KeyConfig, error) {
	const headLen = 3
	public, found := bytes.CutSuffix(data, suitesOfConfig)
	if !found || len(public) <= headLen {
		return nil, fieldInvalid("config")
	}
	config := &KeyConfig{crypto.KEM(binary.BigEndian.Uint16(data[1:])), public[headLen:], data}
	if want := config.KEM.PublicLen(); want != 0 && len(config.Public) != want {
		return nil, fieldInvalid("config")
	}
	return config, nil
}

// Name is the key's name: 32 hexadecimal digits.
func (c *KeyConfig) Name() string {
	hash := sha256.Sum256(c.encoded)
	return hex.EncodeToString(hash[:16])
}

// Kid is the X-Kid of requests to the key.
func (c *KeyConfig) Kid() string { return wire.Wire4.KidPrefix() + c.Name() }

// ValidKeyKid says whether it is the kid of a key of wire 4.
func ValidKeyKid(kid string) bool {
	name, found := strings.CutPrefix(kid, wire.Wire4.KidPrefix())
	return found && wire.ValidKeyID(name)
}

// DocumentKey is one of a key document. A client uses it from NotBeforeMs up to and without UseUntilMs.
type DocumentKey struct {
	*KeyConfig
	NotBeforeMs, UseUntilMs, NotAfterMs uint64
}

// KeyDocument is what /.well-known/sealway-hpke-keys gives. Without a root it proves nothing: it is a lookup of keys by pinned kids.
type KeyDocument struct {
	signed
	Keys []DocumentKey
}

// ParseKeyDocument reads a document; body_too_large, json_invalid or field_invalid for one that is malformed or has a key twice.
// spec/one-shot.md#the-key-document
func ParseKeyDocument(data []byte) (*KeyDocument, error) {
	common, list, err := parseSigned(data)
	if err != nil {
		return nil, err
	}
	document := &KeyDocument{signed: common}
	for _, value := range list {
		key, ok := parseDocumentKey(value)
		if !ok || slices.Contains(document.Kids(), key.Kid()) {
			return nil, fieldInvalid("keys")
		}
		document.Keys = append(document.Keys, key)
	}
	return document, nil
}

func parseDocumentKey(value any) (key DocumentKey, valid bool) {
	object, _ := value.(map[string]any)
	members := wire.Members(object)
	encoded, _ := members.Base64("config")
	config, err := ParseKeyConfig(encoded)
	var okBefore, okUse, okAfter bool
	key.NotBeforeMs, okBefore = wire.Whole(members["not_before_ms"], timeMsMax)
	key.UseUntilMs, okUse = wire.Whole(members["use_until_ms"], timeMsMax)
	key.NotAfterMs, okAfter = wire.Whole(members["not_after_ms"], timeMsMax)
	key.KeyConfig = config
	return key, err == nil && okBefore && okUse && okAfter && key.NotBeforeMs <= key.UseUntilMs && key.UseUntilMs <= key.NotAfterMs
}

// VerifyRoot refuses a document that a pinned root did not sign (signature_invalid), and one of another root or none, over, or issued
// before one that was taken, or of a root whose algorithm is not accepted (key_untrusted).
func (d *KeyDocument) VerifyRoot(root []byte, accepted Algorithms, nowMs, takenIssuedMs uint64) error {
	var list fields
	for _, key := range d.Keys {
		list = list.bytes(fields(nil).bytes(key.encoded).number(key.NotBeforeMs).number(key.UseUntilMs).number(key.NotAfterMs))
	}
	return d.verify(wire.Wire4, list, root, accepted, nowMs, takenIssuedMs)
}

// Kids returns the kids of its keys, in order.
func (d *KeyDocument) Kids() []string {
	kids := make([]string, len(d.Keys))
	for n, key := range d.Keys {
		kids[n] = key.Kid()
	}
	return kids
}

// Choose returns the first key in use at nowMs that is of one of these KEMs and, if kids are given, has one of them; nil if there is none.
func (d *KeyDocument) Choose(nowMs uint64, kems []crypto.KEM, kids []string) *KeyConfig {
	for _, key := range d.Keys {
		inUse := key.NotBeforeMs <= nowMs && nowMs < key.UseUntilMs
		if inUse && slices.Contains(kems, key.KEM) && (len(kids) == 0 || slices.Contains(kids, key.Kid())) {
			return key.KeyConfig
		}
	}
	return nil
}
