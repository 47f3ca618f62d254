package sealway

import (
	"context"
	"sync"
	"time"
)

// liveSession is a session, or a key document, that the slot renews and replaces.
type liveSession interface {
	comparable
	// fresh says that it is not yet to be renewed.
	fresh() bool
	// over says that it is of no use, or will be in a moment.
	over() bool
}

// slot holds one session for all callers, and runs one agreement or renewal at a time.
type slot[S liveSession] struct {
	timeout time.Duration
	what    string // of an agreement, in the error of one that takes too long
	mu      sync.Mutex
	current S
	flight  *flight[S]
	// failed is the time of the last failed renewal, after which the next one waits.
	failed time.Time
}

type flight[S liveSession] struct {
	done  chan struct{}
	value S
	err   error
}

const renewPause = 5 * time.Second

func newSlot[S liveSession](timeout time.Duration, what string) *slot[S] {
	return &slot[S]{timeout: timeout, what: what}
}

// get returns a session other than not: the current one, renewed in the background while it lasts, or a new one. The end of ctx ends the
// wait of this caller; the agreement continues for the others.
func (m *slot[S]) get(ctx context.Context, not S, agree func(ctx context.Context, old S) (S, error)) (S, error) {
	var none S
	m.mu.Lock()
	if m.current != none && m.current == not {
		m.current = none
	}
	usable := m.current != none && !m.current.over()
	if usable && (m.current.fresh() || m.flight != nil || time.Since(m.failed) < renewPause) {
		current := m.current
		m.mu.Unlock()
		return current, nil
	}
	f := m.flight
	if f == nil {
		f = &flight[S]{done: make(chan struct{})}
		m.flight = f
		go m.fly(context.WithoutCancel(ctx), f, m.current, agree)
	}
	current := m.current
	m.mu.Unlock()
	if usable {
		return current, nil
	}
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

func (m *slot[S]) fly(ctx context.Context, f *flight[S], old S, agree func(context.Context, S) (S, error)) {
	if m.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, m.timeout, &TimeoutError{Wait: m.what, After: m.timeout, Option: "Config.TotalTimeout"})
		defer cancel()
	}
	f.value, f.err = agree(ctx, old)
	if cause := context.Cause(ctx); f.err != nil && cause != nil {
		f.err = cause
	}
	m.mu.Lock()
	// An agreement that began before forget serves its waiters, and is not kept.
	if m.flight == f {
		if m.flight = nil; f.err == nil {
			m.current = f.value
		} else {
			m.failed = time.Now()
		}
	}
	m.mu.Unlock()
	close(f.done)
}

func (m *slot[S]) peek() (S, bool) {
	var none S
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current, m.current != none
}

func (m *slot[S]) take() (S, bool) {
	var none S
	m.mu.Lock()
	defer m.mu.Unlock()
	current := m.current
	m.current, m.flight = none, nil
	return current, current != none
}

func (m *slot[S]) forget() { m.take() }

// drop forgets a session if it is still the one in use.
func (m *slot[S]) drop(old S) {
	var none S
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current == old {
		m.current = none
	}
}
