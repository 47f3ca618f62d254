package channel

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"sealway.dev/go/channel/relay"
)

const (
	// peerTime is how long an end waits for the first word of its peer. Both are given their grants at the same time: one that says
	// nothing for so long is not there.
	peerTime = 5 * time.Second
	// shakingMax is how many peers of a listener may have a grant and not be there yet: clients beyond wait at the control plane.
	shakingMax = 64
)

// Backoff bounds the waits between attempts. Each wait is random below a bound that doubles, so that clients that lost the same
// relay do not return together. The zero value has the defaults.
type Backoff struct {
	// First bounds the first wait. The default is 250 ms.
	First time.Duration
	// Max bounds every wait. The default is 30 s.
	Max time.Duration
	// Settled is the life of a channel or attempt after which the next wait is the first again. The default is 10 s.
	Settled time.Duration
	// Failed receives the error of each failed attempt and the bound of the next wait. It may be nil.
	Failed func(err error, wait time.Duration)
}

func (b Backoff) filled() Backoff {
	if b.First <= 0 {
		b.First = 250 * time.Millisecond
	}
	if b.Max <= 0 {
		b.Max = 30 * time.Second
	}
	if b.Settled <= 0 {
		b.Settled = 10 * time.Second
	}
	return b
}

func (b Backoff) bound(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	bound := b.First
	for range min(failures-1, 40) {
		if bound *= 2; bound >= b.Max {
			break
		}
	}
	return min(bound, b.Max)
}

// attempts counts them, and waits between them.
type attempts struct {
	Backoff
	failures int
	since    time.Time
	// wait sits out a time, or says that the context ended first; tests put their own in its place.
	wait func(ctx context.Context, time time.Duration) bool
}

func newAttempts(backoff Backoff) attempts {
	return attempts{Backoff: backoff.filled(), wait: sleep}
}

func sleep(ctx context.Context, wait time.Duration) bool {
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}

// make makes one attempt after another, until one succeeds or fails in a way that does not pass by itself.
func (a *attempts) make(ctx context.Context, once func(context.Context) (*Channel, error)) (*Channel, error) {
	if !a.since.IsZero() && time.Since(a.since) < a.Settled {
		// A channel that always ends at once counts as a failure.
		a.failures++
	} else {
		a.failures = 0
	}
	a.since = time.Time{}
	for {
		if bound := a.bound(a.failures); bound > 0 && !a.wait(ctx, rand.N(bound)) {
			return nil, caused(context.Cause(ctx), StageConnect, "timeout", "no channel came about before it was cancelled")
		}
		begun := time.Now()
		made, err := once(ctx)
		if err == nil {
			a.since = time.Now()
			return made, nil
		}
		var told *Error
		if ctx.Err() != nil || !errors.As(err, &told) || !told.IsPassing() {
			return nil, err
		}
		a.failures++
		if time.Since(begun) >= a.Settled {
			a.failures = 0
		}
		a.tell(err, a.bound(a.failures))
	}
}

// Listener is an end that listens: each peer that comes has a channel of its own. It goes on waiting at the control plane while it
// shakes hands with peers, so that one that says nothing holds up no other.
type Listener struct {
	grants   Grants
	options  Options
	me       Instance
	mu       sync.Mutex
	attempts attempts
	// asking has the next grant, once a client asks for its counterpart; nil where nobody waits for it.
	asking chan grantResult
	// shaken receives the results of handshakes; shaking counts those under way.
	shaken  chan handshakeResult
	shaking int
}

type grantResult struct {
	grant *relay.Grant
	err   error
	// ended is true if the context of the caller ended.
	ended bool
}

type handshakeResult struct {
	channel *Channel
	err     error
	ended   bool
}

var errNoGrants = fault(StageGrant, "grant_invalid", "grants is nil: NewControl or a GrantFile gives them")

// NewListener does nothing before Accept. options may be nil.
func NewListener(grants Grants, options *Options, backoff Backoff) (*Listener, error) {
	if grants == nil {
		return nil, errNoGrants
	}
	me, err := NewInstance()
	made := &Listener{
		grants: grants, options: options.filled(), me: me, attempts: newAttempts(backoff), shaken: make(chan handshakeResult, shakingMax),
	}
	if made.options.PeerTimeout <= 0 {
		made.options.PeerTimeout = peerTime
	}
	return made, err
}

// Accept waits for the next peer, and makes another attempt whenever one fails. Its error is the context's, or does not pass by
// itself: a token that is not taken, an address that is none. Calls at the same time wait for each other.
func (l *Listener) Accept(ctx context.Context) (*Channel, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if l.asking == nil && l.shaking < l.shakingMax() {
			l.ask(ctx, 0)
		}
		select {
		case done := <-l.shaken:
			l.shaking--
			switch {
			case done.err == nil:
				l.attempts.failures = 0
				return done.channel, nil
			case done.ended:
			case !isPassing(done.err):
				return nil, done.err
			case isAbsence(done.err):
			case l.asking == nil:
				l.askLater(ctx, done.err)
			default:
				// The next grant is waited for already: a client decides when the next attempt comes.
				l.attempts.tell(done.err, 0)
			}
		case got := <-l.asking:
			l.asking = nil
			switch {
			case got.err == nil:
				l.shake(ctx, got.grant)
			case got.ended:
			case !isPassing(got.err):
				return nil, got.err
			default:
				l.askLater(ctx, got.err)
			}
		case <-ctx.Done():
			return nil, caused(context.Cause(ctx), StageConnect, "timeout", "no channel came about before it was cancelled")
		}
	}
}

// shakingMax is 1 where grants do not wait for a client: such a grant is there at once, and works once.
func (l *Listener) shakingMax() int {
	if _, waits := l.grants.(*Control); waits {
		return shakingMax
	}
	return 1
}

// askLater tells of a failure and asks for the next grant after a wait.
func (l *Listener) askLater(ctx context.Context, why error) {
	l.attempts.failures++
	bound := l.attempts.bound(l.attempts.failures)
	l.attempts.tell(why, bound)
	l.ask(ctx, rand.N(bound))
}

// ask waits, and then for the next grant.
func (l *Listener) ask(ctx context.Context, wait time.Duration) {
	asking := make(chan grantResult, 1)
	l.asking = asking
	go func() {
		if wait > 0 && !l.attempts.wait(ctx, wait) {
			asking <- grantResult{err: ctx.Err(), ended: true}
			return
		}
		grant, err := l.grants.Next(ctx)
		asking <- grantResult{grant, err, ctx.Err() != nil}
	}()
}

func (l *Listener) shake(ctx context.Context, grant *relay.Grant) {
	l.shaking++
	go func() {
		channel, err := Attach(ctx, grant, l.me, &l.options)
		l.shaken <- handshakeResult{channel, err, ctx.Err() != nil}
	}()
}

func (a *attempts) tell(err error, wait time.Duration) {
	if a.Failed != nil {
		a.Failed(err, wait)
	}
}

func isPassing(err error) bool {
	var told *Error
	return errors.As(err, &told) && told.IsPassing()
}

// isAbsence says whether a peer that was given a grant did not use it: nobody can do anything about it here.
func isAbsence(err error) bool {
	var told *Error
	if !errors.As(err, &told) {
		return false
	}
	return told.Stage == StageAttach && (told.Code == "init_expired" || told.Code == "idle_timeout") ||
		told.Stage == StageHandshake && told.Code == "timeout"
}

// Connector is an end that connects: one channel at a time, made when it is first needed and again after it has ended.
type Connector struct {
	grants  Grants
	options Options
	me      Instance
	// turn is the lock of the goroutine that makes the channel; a Go channel, so that a context ends the wait.
	turn     chan struct{}
	attempts attempts
	current  *Channel
}

// NewConnector does nothing before Channel. options may be nil.
func NewConnector(grants Grants, options *Options, backoff Backoff) (*Connector, error) {
	if grants == nil {
		return nil, errNoGrants
	}
	me, err := NewInstance()
	made := &Connector{
		grants: grants, options: options.filled(), me: me, turn: make(chan struct{}, 1),
		attempts: newAttempts(backoff),
	}
	if made.options.PeerTimeout <= 0 {
		made.options.PeerTimeout = peerTime
	}
	return made, err
}

// Channel returns the channel, or another one where it has ended. Those who ask at the same time wait for the same attempts. Errors
// are as Listener.Accept's.
func (c *Connector) Channel(ctx context.Context) (*Channel, error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, caused(context.Cause(ctx), StageConnect, "timeout", "no channel came about before it was cancelled")
	}
	defer func() { <-c.turn }()
	if c.current != nil && c.current.Err() == nil {
		return c.current, nil
	}
	made, err := c.attempts.make(ctx, func(ctx context.Context) (*Channel, error) {
		grant, err := c.grants.Next(ctx)
		if err != nil {
			return nil, err
		}
		return Attach(ctx, grant, c.me, &c.options)
	})
	if err != nil {
		return nil, err
	}
	c.current = made
	return made, nil
}

// Close ends the channel that is there, after attempts that are under way. The connector makes another one when it is asked.
func (c *Connector) Close() error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if c.current == nil {
		return nil
	}
	return c.current.Close()
}
