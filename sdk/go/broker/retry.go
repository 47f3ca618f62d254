package broker

import (
	"math/rand/v2"
	"time"
)

// RetryOptions say how often and how fast calls are repeated, always within their deadline. The one code that is answered with a
// retry is UNAVAILABLE, the client's own where it has no connection included: with any other the broker has looked at the call.
// Generate, Import and Rotate are repeated only where the first attempt surely was not sent: twice, they could make a key or a
// version that nobody knows of. The zero value has the defaults.
type RetryOptions struct {
	// Attempts of one call, the first included; 1 never repeats. 5 unless said.
	Attempts int
	// First is the longest pause before the second attempt; it doubles with each. 20 ms unless said.
	First time.Duration
	// Longest is the longest pause at all; 500 ms unless said.
	Longest time.Duration
}

func (r RetryOptions) filled() RetryOptions {
	if r.Attempts < 1 {
		r.Attempts = 5
	}
	if r.First <= 0 {
		r.First = 20 * time.Millisecond
	}
	if r.Longest <= 0 {
		r.Longest = 500 * time.Millisecond
	}
	return r
}

func (r RetryOptions) bound(attempts int) time.Duration {
	return min(r.First<<min(max(attempts-1, 0), 20), r.Longest)
}

// pause is anywhere below the bound, so that those who lost the broker together do not come back together.
func (r RetryOptions) pause(attempts int) time.Duration { return rand.N(r.bound(attempts) + 1) }
