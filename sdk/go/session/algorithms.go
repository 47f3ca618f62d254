package session

import (
	"slices"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// Algorithms are the signature algorithms that a client accepts of identity keys and roots. If there are none, it accepts ES256, and of
// keys that it pins every algorithm. spec/session-3.md#the-request
type Algorithms []crypto.SignatureAlgorithm

// Accept says whether a client accepts signatures of a public key; pinned says that it pins the key. It accepts no key of an algorithm
// that is unknown, or not [crypto.SignatureAlgorithm.Available].
func (a Algorithms) Accept(public []byte, pinned bool) bool {
	algorithm, _ := crypto.AlgorithmOf(public)
	switch {
	case !algorithm.Available():
		return false
	case len(a) > 0:
		return slices.Contains(a, algorithm)
	}
	return pinned || algorithm == crypto.ES256
}

// accepts says whether the client of this request accepts signatures of a public key; the server's choice and the client's check are one.
func (r *InitRequest) accepts(public []byte) bool {
	pinned := slices.Contains(r.PinnedKeyIDs, crypto.KeyID(public))
	return (pinned || len(r.PinnedKeyIDs) == 0) && r.SignatureAlgorithms.Accept(public, pinned)
}

// algorithms appends the list, and no bytes at all without one.
func (f fields) algorithms(list Algorithms) fields {
	if len(list) == 0 {
		return f
	}
	return f.list(namesOf(list))
}

// namesOf returns the names of suites or algorithms.
func namesOf[T ~string](list []T) []string {
	names := make([]string, len(list))
	for i, name := range list {
		names[i] = string(name)
	}
	return names
}

// parseAlgorithms reads the member signature_algorithms; nil if it is absent.
func parseAlgorithms(members wire.Members) (list Algorithms, valid bool) {
	if !members.Has("signature_algorithms") {
		return nil, true
	}
	names, valid := members.Names("signature_algorithms", 1, wire.AlgorithmsMax, wire.ValidAlgorithmName)
	for _, name := range names {
		list = append(list, crypto.SignatureAlgorithm(name))
	}
	return list, valid
}
