// Package recent keeps sessions for as long as an API side may use them without asking their store again.
package recent

import (
	"sync"
	"time"

	"sealway.dev/go/session"
)

const (
	// UseMax is how long a session is used without asking again: less than the second that the spec allows, so that a stream whose
	// session was revoked is cut within it. spec/session.md#authority-endpoints
	UseMax  = 500 * time.Millisecond
	keptMax = 65536
)

type kept struct {
	session *session.Session
	asked   time.Time
}

// Sessions are those that were asked for less than half a second ago, 65 536 at most. It is safe for concurrent use.
type Sessions struct {
	mu   sync.Mutex
	kept map[string]kept
}

// New makes an empty one.
func New() *Sessions { return &Sessions{kept: map[string]kept{}} }

// Get returns a session that is still good to use, or nil.
func (s *Sessions) Get(id string) *session.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one, there := s.kept[id]; there && time.Since(one.asked) < UseMax {
		return one.session
	}
	return nil
}

// Put keeps what was asked for at a moment; where too many are kept, it is not.
func (s *Sessions) Put(id string, found *session.Session, asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) >= keptMax {
		for other, old := range s.kept {
			if time.Since(old.asked) >= UseMax {
				delete(s.kept, other)
			}
		}
		if len(s.kept) >= keptMax {
			return
		}
	}
	s.kept[id] = kept{found, asked}
}

// Forget takes a session out.
func (s *Sessions) Forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept, id)
}
