package broker

import (
	"sync"
	"time"
)

// BreakerOptions bound the failures after which calls fail at once. The zero value has the defaults.
type BreakerOptions struct {
	// Failures is the number of failures in a row that open the breaker. The default is 10.
	Failures int
	// OpenFor is the time from opening to the first probe. The default is 250 ms.
	OpenFor time.Duration
	// Probes is the number of concurrent probes of a half-open breaker; the first success closes it. The default is 1.
	Probes int
	// Off lets everything through.
	Off bool
}

// BreakerState is the state of a breaker.
type BreakerState int

// A closed breaker lets all calls through, an open one none, a half-open one probes.
const (
	Closed BreakerState = iota
	Open
	HalfOpen
)

// breaker takes the time as an argument.
type breaker struct {
	options  BreakerOptions
	mu       sync.Mutex
	state    BreakerState
	failures int
	probes   int
	until    time.Time
}

func newBreaker(options BreakerOptions) *breaker {
	if options.Failures < 1 {
		options.Failures = 10
	}
	if options.OpenFor <= 0 {
		options.OpenFor = 250 * time.Millisecond
	}
	if options.Probes < 1 {
		options.Probes = 1
	}
	return &breaker{options: options}
}

type verdict int

const (
	undecided verdict = iota
	succeeded
	failed
)

// pass gives leave for an attempt, whose verdict is to be told once; or says how long the next probe is away.
func (b *breaker) pass(now time.Time) (tell func(verdict, time.Time), wait time.Duration, passes bool) {
	if b.options.Off {
		return func(verdict, time.Time) {}, 0, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	isProbe := false
	switch b.state {
	case Open:
		if now.Before(b.until) {
			return nil, b.until.Sub(now), false
		}
		b.state, b.probes, isProbe = HalfOpen, 1, true
	case HalfOpen:
		if b.probes >= b.options.Probes {
			return nil, 0, false
		}
		b.probes++
		isProbe = true
	case Closed:
	}
	return func(said verdict, at time.Time) { b.tell(isProbe, said, at) }, 0, true
}

func (b *breaker) tell(isProbe bool, said verdict, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	// A success of before it opened says nothing of now: a probe alone closes it.
	case b.state == Open || b.state == HalfOpen && !isProbe:
	case said == succeeded:
		b.state, b.failures = Closed, 0
	case said == undecided:
		// A call that was cancelled gives its place as a probe back.
		b.probes = max(0, b.probes-1)
	case b.state == HalfOpen || b.failures+1 >= b.options.Failures:
		b.state, b.failures, b.until = Open, 0, now.Add(b.options.OpenFor)
	default:
		b.failures++
	}
}

func (b *breaker) stateAt(now time.Time) BreakerState {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == Open && !now.Before(b.until) {
		return HalfOpen
	}
	return b.state
}
