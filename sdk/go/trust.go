package sealway

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// KeySetPath is the path at which a service publishes its identity keys.
const KeySetPath = "/.well-known/sealway-keys"

type trustKind uint8

const (
	trustPins trustKind = iota
	trustRoot
	trustFirstUse
	trustKeyConfigs
	trustKids
)

// Trust verifies the identity of a service. The zero value is none, which wires 3 and 4 reject.
// spec/session-3.md#identity-keys spec/one-shot.md#the-key-document
type Trust struct {
	kind    trustKind
	pins    map[string][]byte // key id to key; nil where only the id is known
	root    []byte
	store   TrustStore
	configs []*session.KeyConfig
	kids    []string
	err     error
}

// TrustPins trusts these identity keys alone: 1 to 16 key ids (32 hexadecimal digits) or public keys (base64), of any algorithm.
// [NewTransport] reports a malformed pin.
func TrustPins(pins ...string) Trust {
	trust := Trust{pins: map[string][]byte{}}
	for _, pin := range pins {
		pin = strings.TrimSpace(pin)
		if wire.ValidKeyID(pin) {
			if _, known := trust.pins[pin]; !known {
				trust.pins[pin] = nil
			}
			continue
		}
		public, err := publicKey(pin)
		if err != nil {
			return Trust{err: err}
		}
		trust.pins[crypto.KeyID(public)] = public
	}
	if len(trust.pins) < 1 || len(trust.pins) > wire.PinnedKeysMax {
		return Trust{err: &UsageError{fmt.Sprintf("TrustPins has %d keys: 1 to %d can be pinned", len(trust.pins), wire.PinnedKeysMax)}}
	}
	return trust
}

func publicKey(text string) ([]byte, error) {
	public, err := wire.DecodeBase64(text)
	if err != nil || !crypto.ValidPublicKey(public) {
		return nil, &UsageError{fmt.Sprintf("a pin is neither a key id nor the base64 of a public key of %v", crypto.SignatureAlgorithms())}
	}
	return public, nil
}

// TrustRoot trusts the keys that this root key signs (base64, of any algorithm), on wires 3 and 4. The store keeps the time of the newest key
// set or key document, so that no earlier one is accepted after a restart; it may be nil. [NewTransport] reports a malformed key.
func TrustRoot(root string, store TrustStore) Trust {
	public, err := publicKey(strings.TrimSpace(root))
	return Trust{kind: trustRoot, root: public, store: store, err: err}
}

// TrustFirstUse trusts the keys of the first answer and keeps them in the store. An attacker in between at the first use stays
// undetected. A nil store keeps the keys in memory alone, for tests and demonstrations.
func TrustFirstUse(store TrustStore) Trust { return Trust{kind: trustFirstUse, store: store} }

// keyring holds the keys that a client trusts for one service.
type keyring struct {
	trust    Trust
	accepted session.Algorithms
	origin   string

	mu        sync.Mutex
	keys      map[string][]byte // trusted
	published map[string][]byte // by the service; nobody trusts them for that
	met       bool
	rootID    string
	set       *session.KeySet // that the root signed last
	newest    issued
}

func newKeyring(trust Trust, accepted session.Algorithms, origin string) (*keyring, error) {
	ring := &keyring{trust: trust, accepted: accepted, origin: origin, keys: map[string][]byte{}, published: map[string][]byte{}}
	for id, public := range trust.pins {
		if public != nil {
			ring.keys[id] = public
		}
	}
	if trust.store == nil {
		return ring, nil
	}
	switch trust.kind {
	case trustRoot:
		var err error
		if ring.newest, err = loadIssued(trust.store, ring.stateName()); err != nil {
			return nil, err
		}
	case trustFirstUse:
		line, err := trust.store.Line(origin)
		if err != nil {
			return nil, err
		}
		if line != "" {
			if ring.keys, ring.rootID, err = parseTrustLine(line); err != nil {
				return nil, &UsageError{"the line of " + origin + " in " + storeName(trust.store) + " is damaged"}
			}
			ring.met = true
			if kept := slices.Collect(maps.Values(ring.keys)); !slices.ContainsFunc(kept, ring.accepts) {
				return nil, &UsageError{"no key of " + origin + " in " + storeName(trust.store) + " is accepted; one " + notAccepted(accepted, kept[0])}
			}
		}
	}
	return ring, nil
}

func (r *keyring) stateName() string { return r.origin + " root:" + crypto.KeyID(r.trust.root) }

// pinned is what is sent as pinned_key_ids.
func (r *keyring) pinned() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	switch r.trust.kind {
	case trustPins:
		for id := range r.trust.pins {
			ids = append(ids, id)
		}
	case trustFirstUse:
		for id := range r.keys {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// accepts says whether the client accepts the algorithm of a trusted key. With pins, and after the first use, the key is pinned.
func (r *keyring) accepts(public []byte) bool {
	return r.accepted.Accept(public, r.trust.kind == trustPins || r.trust.kind == trustFirstUse && r.met)
}

// notAccepted says why a client does not accept the algorithm of a key.
func notAccepted(accepted session.Algorithms, public []byte) string {
	algorithm, known := crypto.AlgorithmOf(public)
	switch {
	case !known:
		return "is of an algorithm that this client does not know"
	case !algorithm.Available():
		return fmt.Sprintf("is of %s, which needs the module sealway.dev/go/mldsa: import it", algorithm)
	case len(accepted) > 0:
		return fmt.Sprintf("is of %s, and Config.SignatureAlgorithms is %v: pin another key, or name its algorithm", algorithm, accepted)
	}
	return fmt.Sprintf("is of %s, which a client accepts only of a pinned key, or if Config.SignatureAlgorithms names it", algorithm)
}

// key returns a key if it is trusted to have signed at serverMs; ask says that the service's key set has to be seen first.
func (r *keyring) key(id string, serverMs, nowMs uint64) (public []byte, ask bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	public = r.keys[id]
	canLearn := false
	switch r.trust.kind {
	case trustPins:
		_, canLearn = r.trust.pins[id]
	case trustRoot:
		if canLearn = true; r.set != nil {
			public = r.set.Signer(id, serverMs, nowMs)
		}
	case trustFirstUse:
		canLearn = !r.met
	}
	if public == nil && !canLearn {
		return nil, false, r.untrusted(id)
	}
	return public, public == nil, nil
}

// lookUp takes the service's key set and finds a key in it, as far as it is trusted.
func (r *keyring) lookUp(id string, set []byte, serverMs, nowMs uint64) ([]byte, error) {
	if err := r.take(set, nowMs); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	public := r.keys[id]
	if r.set != nil {
		public = r.set.Signer(id, serverMs, nowMs)
	}
	if public != nil {
		return public, nil
	}
	// At first use there is nothing to trust yet but the signature with this very key.
	if public := r.published[id]; public != nil && r.trust.kind == trustFirstUse && !r.met {
		return public, nil
	}
	return nil, r.untrusted(id)
}

func (r *keyring) take(data []byte, nowMs uint64) error {
	set, err := session.ParseKeySet(data)
	if err != nil {
		return &TrustError{Reason: "its key set is malformed", Err: err}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.trust.kind {
	case trustPins:
		for _, key := range set.Keys {
			if _, pinned := r.trust.pins[key.KeyID]; pinned {
				r.keys[key.KeyID] = key.Public
			}
		}
	case trustRoot:
		if err := set.VerifyRoot(r.trust.root, r.accepted, nowMs, r.newest.ms); err != nil {
			return &TrustError{Reason: "its key set is not what the pinned root signed last", Err: err}
		}
		if err := r.newest.keep(set.IssuedMs); err != nil {
			return err
		}
		r.set = set
	case trustFirstUse:
		r.published = map[string][]byte{}
		for _, key := range set.Keys {
			r.published[key.KeyID] = key.Public
		}
		if set.RootKeyID != "" {
			r.rootID = set.RootKeyID
		}
	}
	return nil
}

// retired is what a key_retired is good for: a root's word on new keys is taken, and the init can begin anew.
func (r *keyring) retired(set []byte, nowMs uint64) error {
	if r.trust.kind == trustRoot && set != nil {
		return r.take(set, nowMs)
	}
	retired := &TrustError{Reason: "it has none of the trusted keys any more: this is another service or an impostor, or its keys were replaced. Ask its operator which keys are its own, and pin those or their root",
		Err: wire.Refuse(wire.CodeKeyRetired)}
	if parsed, err := session.ParseKeySet(set); err == nil {
		for _, key := range parsed.Keys {
			retired.KeyIDs = append(retired.KeyIDs, key.KeyID)
		}
	}
	return retired
}

// wantsSet says whether the key set is needed to keep all keys that an authenticated answer names.
func (r *keyring) wantsSet(answer *session.InitAnswer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trust.kind == trustFirstUse && slices.ContainsFunc(answer.KeyIDs, func(id string) bool {
		return r.keys[id] == nil && r.published[id] == nil
	})
}

// remember keeps what an authenticated answer says of the service's keys, where trust comes from the first use.
func (r *keyring) remember(answer *session.InitAnswer) error {
	if r.trust.kind != trustFirstUse {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Named keys first: the newest stay where there are too many.
	merged, order, changed := map[string][]byte{}, []string{}, !r.met
	add := func(id string, public []byte) {
		if public != nil && merged[id] == nil && len(merged) < wire.PinnedKeysMax {
			merged[id], order = public, append(order, id)
		}
	}
	for _, id := range append([]string{answer.KeyID}, answer.KeyIDs...) {
		// A store with a key off the curve could not be read again.
		if r.keys[id] == nil && crypto.ValidPublicKey(r.published[id]) && r.accepted.Accept(r.published[id], false) {
			changed = true
			add(id, r.published[id])
		}
		add(id, r.keys[id])
	}
	for id, public := range r.keys {
		add(id, public)
	}
	if !changed {
		return nil
	}
	if r.trust.store != nil {
		err := r.trust.store.Update(r.origin, func(line string) (string, error) {
			if line == "" {
				return trustLine(order, merged, r.rootID), nil
			}
			// Another process may have met the service, or more of its keys, meanwhile: what it met counts.
			theirs, theirRoot, err := parseTrustLine(line)
			isTheirs := func(id string) bool { return theirs[id] != nil }
			if err != nil || !isTheirs(answer.KeyID) && !(r.met && slices.ContainsFunc(slices.Collect(maps.Keys(r.keys)), isTheirs)) {
				return "", r.untrusted(answer.KeyID)
			}
			for _, id := range slices.Sorted(maps.Keys(theirs)) {
				add(id, theirs[id])
			}
			if r.rootID == "" {
				r.rootID = theirRoot
			}
			return trustLine(order, merged, r.rootID), nil
		})
		if err != nil {
			return err
		}
	}
	r.keys, r.met = merged, true
	return nil
}

func (r *keyring) untrusted(id string) error {
	reason := "it is none of the pinned ones: this is another service or an impostor. Ask its operator for its key id, and pin that or its root"
	switch {
	case r.trust.kind == trustRoot:
		reason = "the set that the root signed does not have it, or not at this time: this is another service or an impostor, the set has to be signed anew, or this machine's clock is wrong. Ask its operator"
	case r.trust.kind == trustFirstUse && r.trust.store != nil:
		reason = "it is another than was met before: this is another service or an impostor. If its operator says that the keys were replaced, remove the line of " +
			r.origin + " from " + storeName(r.trust.store)
	case r.trust.kind == trustFirstUse:
		reason = "it is another than was met before: this is another service or an impostor"
	}
	return &TrustError{KeyID: id, Reason: reason, Err: wire.Refuse(wire.CodeKeyUntrusted)}
}

// trustLine writes KEYID:BASE64 … root:KEYID.
func trustLine(order []string, keys map[string][]byte, rootID string) string {
	var words []string
	for _, id := range order {
		words = append(words, id+":"+wire.EncodeBase64(keys[id]))
	}
	if rootID != "" {
		words = append(words, "root:"+rootID)
	}
	return strings.Join(words, " ")
}

func parseTrustLine(line string) (keys map[string][]byte, rootID string, err error) {
	keys = map[string][]byte{}
	for word := range strings.FieldsSeq(line) {
		id, rest, _ := strings.Cut(word, ":")
		if id == "root" && wire.ValidKeyID(rest) {
			rootID = rest
			continue
		}
		public, err := publicKey(rest)
		// An id that is not its key's own would have another key pinned than the one shown.
		if err != nil || crypto.KeyID(public) != id {
			return nil, "", &UsageError{"damaged"}
		}
		keys[id] = public
	}
	if len(keys) < 1 || len(keys) > wire.PinnedKeysMax {
		return nil, "", &UsageError{"damaged"}
	}
	return keys, rootID, nil
}
