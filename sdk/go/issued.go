package sealway

import (
	"fmt"
	"strconv"

	"sealway.dev/go/wire"
)

// issued is the time of the newest key set or key document that a client took from a root, in milliseconds. With a store it never goes
// back, in any process that shares the store.
type issued struct {
	ms    uint64
	store TrustStore // nil for memory alone
	name  string     // of the line in the store
}

func loadIssued(store TrustStore, name string) (issued, error) {
	line, err := store.Line(name)
	if err != nil {
		return issued{}, err
	}
	ms, err := parseIssued(line, store)
	return issued{ms, store, name}, err
}

// keep takes a time that is not below the newest. Where another process has kept a later one meanwhile, this one is rejected.
func (i *issued) keep(ms uint64) error {
	if i.store != nil {
		if err := i.compare(ms); err != nil {
			return err
		}
	}
	i.ms = ms
	return nil
}

func (i *issued) compare(ms uint64) error {
	newest := func(line string) (string, error) {
		theirs, err := parseIssued(line, i.store)
		if err == nil && theirs > ms {
			err = &TrustError{Reason: "its keys are older than what another process took from the pinned root", Err: wire.Refuse(wire.CodeKeyUntrusted)}
		}
		return strconv.FormatUint(ms, 10), err
	}
	if ms > i.ms {
		return i.store.Update(i.name, newest)
	}
	line, err := i.store.Line(i.name)
	if err == nil {
		_, err = newest(line)
	}
	return err
}

// storeName names a store in a message.
func storeName(store TrustStore) string {
	if named, ok := store.(fmt.Stringer); ok {
		return named.String()
	}
	return "the trust store"
}

// parseIssued reads the line of a root: 0 where there is none.
func parseIssued(line string, store TrustStore) (uint64, error) {
	if line == "" {
		return 0, nil
	}
	issuedMs, err := strconv.ParseUint(line, 10, 64)
	if err != nil {
		return 0, &UsageError{storeName(store) + ": a time is no number of milliseconds"}
	}
	return issuedMs, nil
}
