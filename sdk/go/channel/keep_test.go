package channel

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestWaitsBetweenAttemptsDoubleUpToTheirBoundAndAreRandomBelowIt(t *testing.T) {
	var bounds, waits []time.Duration
	made := newAttempts(Backoff{Failed: func(_ error, bound time.Duration) { bounds = append(bounds, bound) }})
	made.wait = func(_ context.Context, wait time.Duration) bool {
		waits = append(waits, wait)
		return true
	}
	const failures = 60
	left := failures
	_, err := made.make(t.Context(), func(context.Context) (*Channel, error) {
		if left--; left >= 0 {
			return nil, fault(StageConnect, "unreachable", "nobody")
		}
		return nil, nil
	})
	if err != nil || len(waits) != failures || len(bounds) != failures {
		t.Fatalf("%d waits, %d bounds: %v", len(waits), len(bounds), err)
	}
	distinct := map[time.Duration]bool{}
	for at, wait := range waits {
		bound := min(250*time.Millisecond<<min(at, 20), 30*time.Second)
		if bounds[at] != bound || wait < 0 || wait >= bound {
			t.Errorf("wait %d: %v of %v, where %v is the bound", at, wait, bounds[at], bound)
		}
		distinct[wait] = true
	}
	// Ends that lost the same relay must not come back together.
	if len(distinct) < failures/2 {
		t.Errorf("only %d of %d waits differ", len(distinct), failures)
	}
}

func TestAChannelThatEndsAtOnceCountsAsAFailureAndOneThatLastedDoesNot(t *testing.T) {
	waits := 0
	made := newAttempts(Backoff{})
	made.wait = func(context.Context, time.Duration) bool { waits++; return true }
	works := func(context.Context) (*Channel, error) { return nil, nil }
	for range 3 {
		if _, err := made.make(t.Context(), works); err != nil {
			t.Fatal(err)
		}
	}
	if waits != 2 {
		t.Errorf("%d waits before channels that ended at once", waits)
	}
	made.since = time.Now().Add(-time.Minute)
	if _, err := made.make(t.Context(), works); err != nil || waits != 2 {
		t.Errorf("a wait after a channel that lasted: %d, %v", waits, err)
	}
}

func TestAPermanentFailureAndACancelledWaitEndTheAttempts(t *testing.T) {
	made := newAttempts(Backoff{First: time.Hour, Max: time.Hour})
	tries := 0
	_, err := made.make(t.Context(), func(context.Context) (*Channel, error) {
		tries++
		return nil, fault(StageGrant, "unauthorized", "no")
	})
	if !errors.Is(err, &Error{Code: "unauthorized"}) || tries != 1 {
		t.Errorf("%d tries: %v", tries, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	_, err = made.make(ctx, func(context.Context) (*Channel, error) {
		time.AfterFunc(20*time.Millisecond, stop)
		return nil, fault(StageConnect, "unreachable", "nobody")
	})
	if !errors.Is(err, &Error{Stage: StageConnect, Code: "timeout"}) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
