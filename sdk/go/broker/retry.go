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
	// Attempts bounds the attempts of a call, the first included; 1 disables retries. The default is 5.
	Attempts int
	// First bounds the pause before the second attempt; the bound doubles with each attempt. The default is 20 ms.
	First time.Duration
	// Longest bounds every pause. The default is 500 ms.
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
