package sealway

import (
	"context"
	"sync"
	"time"

	"sealway.dev/go/internal/exchange"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// ErrStoreUnavailable says that a store gave no answer that was understood, in time. A request is refused with 503.
var ErrStoreUnavailable error = exchange.StoreUnavailable

// ErrStoreFull says that a store has no room for another claim or session. It never evicts one.
var ErrStoreFull error = exchange.NoncesFull

// SessionStore is where an API side has sessions from, and where it claims nonces. Each call is bounded by its context.
type SessionStore interface {
	// Session gives a session, also one that is over; wire.CodeSessionUnknown if there is none, ErrStoreUnavailable if it
	// cannot be told.
	Session(ctx context.Context, id string) (*session.Session, error)
	ClaimStore
}

// ClaimStore remembers claims against replays.
type ClaimStore interface {
	// Reserve claims a nonce: of any number of equal claims exactly one is granted. The others are wire.CodeReplayed; a stamp
	// outside the store's own window is wire.CodeTimestampOutsideWindow; then there are ErrStoreFull and ErrStoreUnavailable.
	// What may have been granted is never asked for again.
	Reserve(ctx context.Context, claim session.Claim) (session.Fresh, error)
}

// MemoryStore keeps sessions and claims in memory, for tests and for a process that is authority and API side in one. It
// forgets everything when it ends, sessions first of all, so no request is ever admitted twice.
type MemoryStore struct {
	max      int
	mu       sync.Mutex
	sessions map[string]*session.Session
	claims   [2]map[[16]byte]uint64 // inits, sealed: bounded apart
	sweptMs  uint64
	now      func() uint64
}

// NewMemoryStore makes a store of at most max sessions, and max claims of either kind.
func NewMemoryStore(max int) *MemoryStore {
	return &MemoryStore{max: max, sessions: map[string]*session.Session{}, claims: [2]map[[16]byte]uint64{{}, {}}, now: nowMs}
}

// Put keeps a session; ErrStoreFull where there is no room.
func (s *MemoryStore) Put(_ context.Context, record *session.Record) error {
	made, err := session.NewSession(record)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	if len(s.sessions) >= s.max {
		return ErrStoreFull
	}
	s.sessions[record.ID] = made
	return nil
}

// Delete ends a session.
func (s *MemoryStore) Delete(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, id)
	return nil
}

// Session is that of [SessionStore].
func (s *MemoryStore) Session(_ context.Context, id string) (*session.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.sessions[id]; found != nil {
		return found, nil
	}
	return nil, wire.Refuse(wire.CodeSessionUnknown)
}

// Reserve is that of [SessionStore].
func (s *MemoryStore) Reserve(_ context.Context, claim session.Claim) (session.Fresh, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// By the clock by which claims are forgotten, and at one moment with it: what was asked long ago may have been granted before.
	if s.now() > claim.StampMs+claim.WindowMs() {
		return session.Fresh{}, wire.Refuse(wire.CodeTimestampOutsideWindow)
	}
	s.sweep()
	kind := s.claims[0]
	if claim.Sealed {
		kind = s.claims[1]
	}
	if _, known := kind[claim.Key]; known {
		return session.Fresh{}, wire.Refuse(wire.CodeReplayed)
	}
	if len(kind) >= s.max {
		return session.Fresh{}, ErrStoreFull
	}
	kind[claim.Key] = claim.ExpiresMs
	return session.Reserved(claim), nil
}

// sweep forgets what is over, every ten seconds.
func (s *MemoryStore) sweep() {
	now := s.now()
	if now < s.sweptMs+uint64((10*time.Second).Milliseconds()) {
		return
	}
	s.sweptMs = now
	for _, kind := range s.claims {
		for key, expiresMs := range kind {
			if now >= expiresMs {
				delete(kind, key)
			}
		}
	}
	for id, found := range s.sessions {
		if found.Record().Expired(now) {
			delete(s.sessions, id)
		}
	}
}
