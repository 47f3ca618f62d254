package sealway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// KeyDocumentPath is the path at which a service publishes its keys of wire 4.
const KeyDocumentPath = "/.well-known/sealway-hpke-keys"

// TrustKeyConfigs trusts these keys of wire 4 alone: 1 to 16 key configurations in base64, as the service's operator gives them. The
// client uses the first whose KEM it allows, and fetches no key document.
func TrustKeyConfigs(configs ...string) Trust {
	trust := Trust{kind: trustKeyConfigs, err: pinCount("TrustKeyConfigs", configs)}
	for n, text := range configs {
		data, err := wire.DecodeBase64(strings.TrimSpace(text))
		config, invalid := session.ParseKeyConfig(data)
		if err != nil || invalid != nil {
			return Trust{err: &UsageError{fmt.Sprintf("TrustKeyConfigs: key %d is no key configuration of wire 4 in base64", n+1)}}
		}
		trust.configs = append(trust.configs, config)
	}
	return trust
}

// TrustKids trusts the keys of wire 4 with these kids alone: 1 to 16 of the form hpke: and 32 hexadecimal digits. The client finds the
// keys in the service's key document.
func TrustKids(kids ...string) Trust {
	trust := Trust{kind: trustKids, err: pinCount("TrustKids", kids)}
	for _, text := range kids {
		kid := strings.TrimSpace(text)
		if !session.ValidKeyKid(kid) {
			return Trust{err: &UsageError{fmt.Sprintf("TrustKids: %.64q is no kid: it is hpke: and 32 lower-case hexadecimal digits", kid)}}
		}
		trust.kids = append(trust.kids, kid)
	}
	return trust
}

func pinCount(function string, pins []string) error {
	if len(pins) < 1 || len(pins) > wire.PinnedKeysMax {
		return &UsageError{fmt.Sprintf("%s has %d keys: 1 to %d can be pinned", function, len(pins), wire.PinnedKeysMax)}
	}
	return nil
}

// isOneShot says whether the source of trust is for wire 4; a root is for both wires.
func (t Trust) isOneShot() bool {
	return t.kind == trustKeyConfigs || t.kind == trustKids || t.kind == trustRoot
}

// documents finds the keys of wire 4 that a client trusts for one service.
type documents struct {
	trust    Trust
	accepted session.Algorithms // of the root
	kems     []crypto.KEM
	pinned   *session.KeyConfig // of a pinned configuration; nil where the document has the keys
	held     *slot[*heldDocument]
	mu       sync.Mutex
	newest   issued
}

func newDocuments(config *Config, origin string) (*documents, error) {
	d := &documents{trust: config.Trust, accepted: config.SignatureAlgorithms, kems: config.KEMs, held: newSlot[*heldDocument](config.TotalTimeout, "fetching the key document")}
	if d.trust.kind == trustKeyConfigs {
		first := slices.IndexFunc(d.trust.configs, func(key *session.KeyConfig) bool { return slices.Contains(d.kems, key.KEM) })
		if first < 0 {
			return nil, &UsageError{fmt.Sprintf("Config.Trust has no key of a KEM of Config.KEMs, which are %v", d.kems)}
		}
		d.pinned = d.trust.configs[first]
	}
	if d.trust.kind == trustRoot && d.trust.store != nil {
		var err error
		d.newest, err = loadIssued(d.trust.store, origin+" one-shot-root:"+crypto.KeyID(d.trust.root))
		return d, err
	}
	return d, nil
}

// key returns the key to use now. fetch gives the service's key document, if it is needed.
func (d *documents) key(ctx context.Context, fetch func(context.Context) ([]byte, error)) (*session.KeyConfig, error) {
	if d.pinned != nil {
		return d.pinned, nil
	}
	held, err := d.held.get(ctx, nil, func(ctx context.Context, _ *heldDocument) (*heldDocument, error) {
		text, err := fetch(ctx)
		if err != nil {
			return nil, err
		}
		return d.take(text)
	})
	if err != nil {
		return nil, err
	}
	if key := held.key(); key != nil {
		return key, nil
	}
	if d.trust.kind == trustKids {
		return nil, &KeyRetiredError{Kids: held.Kids()}
	}
	return nil, &TrustError{KeyIDs: held.Kids(), Err: wire.Refuse(wire.CodeKeyUntrusted), Reason: fmt.Sprintf("the key document that the root signed "+
		"has no key in use of the KEMs %v: its operator has to sign it anew, or this machine's clock is wrong", d.kems)}
}

// take accepts a key document: of a pinned root one that it signed, that is not over, and that is not older than the one before.
func (d *documents) take(text []byte) (*heldDocument, error) {
	document, err := session.ParseKeyDocument(text)
	if err != nil {
		return nil, &TrustError{Reason: "its key document is malformed", Err: err}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.trust.kind == trustRoot {
		if err := document.VerifyRoot(d.trust.root, d.accepted, nowMs(), d.newest.ms); err != nil {
			return nil, &TrustError{Reason: "its key document is not what the pinned root signed last", Err: err}
		}
		if err := d.newest.keep(document.IssuedMs); err != nil {
			return nil, err
		}
	}
	return &heldDocument{document, d}, nil
}

// replace takes a key document in the place of the one in use, which stays if the new one is rejected.
func (d *documents) replace(ctx context.Context, text []byte) error {
	taken, err := d.take(text)
	if err != nil {
		return err
	}
	old, _ := d.held.peek()
	_, err = d.held.get(ctx, old, func(context.Context, *heldDocument) (*heldDocument, error) { return taken, nil })
	return err
}

// heldDocument is a key document that was taken.
type heldDocument struct {
	*session.KeyDocument
	by *documents
}

// key returns the document's key to use now; nil if it has none.
func (h *heldDocument) key() *session.KeyConfig {
	now := nowMs()
	if h.by.trust.kind == trustRoot && now >= h.ExpiresMs {
		return nil
	}
	return h.Choose(now, h.by.kems, h.by.trust.kids)
}

func (h *heldDocument) fresh() bool { return true }

func (h *heldDocument) over() bool { return h.key() == nil }
