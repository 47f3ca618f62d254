package sealway

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// stampOf is the stamp of a sealed request, in milliseconds.
func stampOf(t testing.TB, r *http.Request) uint64 {
	text, _, _ := strings.Cut(r.Header.Get("X-Idempotency-Key"), ".")
	stamp, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Error(err)
	}
	return stamp
}

// TestAGenuineClockSkewThatWasHeldBackBuysNothingTwice has a party in between deliver a purchase and hold its answer until the
// service refuses its copy: what the refusal proves is younger than the request.
func TestAGenuineClockSkewThatWasHeldBackBuysNothingTwice(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	transport := s.transport(t, nil)
	var sent atomic.Int32
	var stamps [2]uint64
	s.spoilWith(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		stamp := stampOf(t, r)
		stamps[min(1, sent.Add(1)-1)] = stamp
		time.Sleep(60 * time.Millisecond)
		// Too old for a service by now, and not when it left.
		s.tell(w, "clock_skew", 400, s.clockProof(t, r, stamp+600_000+30))
	})
	for method, want := range map[string]int32{"POST": 1, "PUT": 1, "DELETE": 1, "GET": 2} {
		sent.Store(0)
		var problem *ProblemError
		if _, _, err := do(t, transport, method, s.URL+"/", ""); !errors.As(err, &problem) || problem.Code != "clock_skew" || !problem.Proven || sent.Load() != want {
			t.Fatalf("%s: sent %d times, %v", method, sent.Load(), err)
		}
		if want == 2 && stamps[1] < stamps[0]+600_000 {
			t.Fatal("sent again by the old time")
		}
		// The time is taken all the same.
		if agreed, _ := transport.native.peek(); agreed.stampMs() < stamps[0]+600_000 {
			t.Fatal("the proven time was not taken")
		}
	}
	if s.inits.Load() != 1 {
		t.Fatal(s.inits.Load())
	}
}

// TestAnUnsafeRequestIsServedOnceThoughItsSessionIsLostEarly has a party in between deliver a request, hold its answer until the
// session is gone, and give the client the genuine refusal of the same bytes.
func TestAnUnsafeRequestIsServedOnceThoughItsSessionIsLostEarly(t *testing.T) {
	for method, want := range map[string]int32{"POST": 1, "PUT": 1, "DELETE": 1, "PATCH": 1, "GET": 2} {
		for _, signed := range []bool{false, true} {
			s := newService(t, http.HandlerFunc(echo))
			transport := s.transport(t, nil)
			var shown atomic.Int32
			s.spoilWith(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if shown.Add(1) > 1 {
					next.ServeHTTP(w, r)
					return
				}
				body, _ := io.ReadAll(r.Body)
				again := r.Clone(r.Context())
				r.Body, again.Body = io.NopCloser(bytes.NewReader(body)), io.NopCloser(bytes.NewReader(body))
				if held := recorded(r, next); held.Code != 200 {
					t.Error(held.Code)
				}
				// The service loses its memory, or its operator revokes the session.
				_, id, _ := strings.Cut(r.Header.Get("X-Kid"), ":")
				s.store.Delete(r.Context(), id)
				refused := recorded(again, next)
				if refused.Code != 401 {
					t.Error(refused.Code)
				}
				if signed {
					s.tell(w, "session_expired", 401, s.expiryProof(t, again))
					return
				}
				send(w, refused, refused.Code, refused.Body.Bytes())
			})
			_, _, err := do(t, transport, method, s.URL+"/buy", "")
			if s.served.Load() != want {
				t.Errorf("%s, signed %v: served %d times", method, signed, s.served.Load())
			}
			var problem *ProblemError
			if want == 1 && (!errors.As(err, &problem) || problem.Code != "session_expired" || problem.Proven || !strings.Contains(err.Error(), "unknown")) {
				t.Errorf("%s, signed %v: %v", method, signed, err)
			}
			// The next call works, in a new session.
			if _, _, err := do(t, transport, method, s.URL+"/buy", ""); err != nil || s.inits.Load() != 2 {
				t.Errorf("%s, signed %v: %v, %d inits", method, signed, err, s.inits.Load())
			}
		}
	}
}

func TestNobodysAnswerHasNothingSentAgain(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	transport := s.transport(t, nil)
	var sent atomic.Int32
	for _, status := range []int{400, 401, 403, 409, 425, 429, 500, 503} {
		s.spoilWith(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			sent.Add(1)
			w.WriteHeader(status)
		})
		for _, method := range []string{"POST", "GET"} {
			sent.Store(0)
			var refused *ProblemError
			if _, _, err := do(t, transport, method, s.URL+"/", ""); !errors.As(err, &refused) || sent.Load() != 1 {
				t.Fatal(method, status, sent.Load(), err)
			}
		}
	}
	if s.inits.Load() != 1 {
		t.Fatal(s.inits.Load())
	}
}

func TestAPurchaseStampedTooEarlyIsRetriedAndOneStampedAheadIsNot(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	transport := s.transport(t, nil)
	if _, err := transport.Session(t.Context()); err != nil {
		t.Fatal(err)
	}
	// As if the machine had slept: its stamps are older than the window, by more than clocks differ.
	s.offsetMs.Store(610_000)
	if _, body, err := do(t, transport, "POST", s.URL+"/", "pay"); err != nil || body != "pay" || s.served.Load() != 1 {
		t.Fatal(err, s.served.Load())
	}
	// Its stamps are ahead: a kept copy of the request becomes valid later.
	s.offsetMs.Store(-1_000)
	var problem *ProblemError
	if _, _, err := do(t, transport, "POST", s.URL+"/", "pay"); !errors.As(err, &problem) || problem.Code != "clock_skew" || !problem.Proven || s.served.Load() != 1 {
		t.Fatal(err, s.served.Load())
	}
	if _, _, err := do(t, transport, "POST", s.URL+"/", "pay"); err != nil || s.served.Load() != 2 {
		t.Fatal("the time was not taken: ", err)
	}
	s.offsetMs.Store(-400_000)
	if _, _, err := do(t, transport, "GET", s.URL+"/", ""); err != nil || s.served.Load() != 3 {
		t.Fatal("a question may be asked again: ", err)
	}
	if s.inits.Load() != 1 {
		t.Fatal(s.inits.Load())
	}
}

func TestWhatPassedIsTheLongerOfTwoClocksAndElapsedTimeIsRoundedUp(t *testing.T) {
	for _, c := range []struct{ steady, day, want time.Duration }{{0, 0, 0}, {1, 0, 1}, {0, 1, 1}, {time.Second, time.Hour, time.Hour},
		{time.Second, -time.Hour, time.Second}, {-1, -1, 0}} {
		if got := longer(c.steady, c.day); got != c.want {
			t.Errorf("%v and %v are %v, not %v", c.steady, c.day, got, c.want)
		}
	}
	if got := elapsedMs(time.Now().Add(-1001 * time.Microsecond)); got < 2 || got > 10_000 {
		t.Error(got)
	}
	// Without a reading of the steady clock, the clock of the day counts.
	over := life{time.Now().Round(0).Add(-time.Hour), time.Hour}
	if !over.over() || over.fresh() {
		t.Error("a session that is over is not")
	}
}

// TestASessionThatIsSaidToBeOverIsGivenUpByAllAtOnceAndALateWordOfItEndsNoNewerOne speaks with a service that has no identity key at
// hand, so that nothing is proven.
func TestASessionThatIsSaidToBeOverIsGivenUpByAllAtOnceAndALateWordOfItEndsNoNewerOne(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	transport := s.transport(t, nil)
	id, err := transport.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const callers = 16
	var arrived atomic.Int32
	all, late := make(chan struct{}), make(chan struct{})
	s.spoilWith(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasSuffix(r.Header.Get("X-Kid"), id) {
			next.ServeHTTP(w, r)
			return
		}
		if arrived.Add(1) == callers {
			close(all)
		}
		<-all
		if r.URL.Path == "/late" {
			<-late
		}
		s.tell(w, "session_expired", 401, nil)
	})
	var early, group sync.WaitGroup
	post := func(path string) {
		var problem *ProblemError
		if _, _, err := do(t, transport, "POST", s.URL+path, "pay"); !errors.As(err, &problem) || problem.Code != "session_expired" || problem.Proven {
			t.Error(err)
		}
	}
	for range callers - 1 {
		early.Go(func() { post("/") })
	}
	group.Go(func() { post("/late") })
	early.Wait()
	// All of them go on in one new session.
	for range callers {
		early.Go(func() {
			if _, body, err := do(t, transport, "POST", s.URL+"/", "pay"); err != nil || body != "pay" {
				t.Error(err)
			}
		})
	}
	early.Wait()
	if s.inits.Load() != 2 {
		t.Fatalf("%d inits", s.inits.Load())
	}
	close(late)
	group.Wait()
	if _, _, err := do(t, transport, "POST", s.URL+"/", "pay"); err != nil || s.inits.Load() != 2 {
		t.Fatalf("a late word ended a newer session: %d inits, %v", s.inits.Load(), err)
	}
}
