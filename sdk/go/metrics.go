package sealway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"sealway.dev/go/wire"
)

// Exchange is what one call, init or renewal took. [Config.OnMetrics] gets it when the answer's head has opened; of an answer
// that streams, the rest is still to come.
type Exchange struct {
	// Kind is call, init or renew.
	Kind      string
	Wire      wire.Version
	SessionID string
	// Suite is that of the session on wire 3, else empty.
	Suite          string
	Method, Target string
	Status         int
	// RoundTrip is all of it, HTTP what passed between sending and the answer's head (or whole answer, of wires 1 and 2).
	RoundTrip, HTTP time.Duration
	// Steps are the client's cryptographic steps, in order.
	Steps []Step
	// ServerTiming is what the service says of itself; nobody vouches for it. At most 32 entries.
	ServerTiming []Step
	// Attempt counts from 1: a call may be sent again for a session that is over, and for a clock that was off, once for each.
	Attempt int
	// Err is what came of it, nil for an answer.
	Err error
}

// Step is a named duration.
type Step struct {
	Name     string
	Duration time.Duration
}

type laps struct {
	at    time.Time
	steps []Step
}

func (l *laps) begin() { l.at = time.Now() }

// named ends a step, or a further part of it.
func (l *laps) named(name string) {
	now := time.Now()
	took := now.Sub(l.at)
	l.at = now
	for n := range l.steps {
		if l.steps[n].Name == name {
			l.steps[n].Duration += took
			return
		}
	}
	l.steps = append(l.steps, Step{name, took})
}

// serverTiming writes the steps since start as Server-Timing has them.
func (l *laps) serverTiming(start time.Time) string {
	var out strings.Builder
	for _, step := range append(l.steps, Step{"total", time.Since(start)}) {
		if out.Len() > 0 {
			out.WriteString(", ")
		}
		out.WriteString(step.Name + ";dur=" + strconv.FormatFloat(float64(step.Duration.Microseconds())/1000, 'f', 3, 64))
	}
	return out.String()
}

// ParseServerTiming reads Server-Timing as spec/session.md#http writes it; what it does not understand it passes over.
func ParseServerTiming(header http.Header) []Step {
	var steps []Step
	for _, value := range header.Values("Server-Timing") {
		for entry := range strings.SplitSeq(value, ",") {
			name, rest, _ := strings.Cut(strings.TrimSpace(entry), ";")
			dur, found := strings.CutPrefix(strings.TrimSpace(rest), "dur=")
			dur, _, _ = strings.Cut(dur, ";")
			ms, err := strconv.ParseFloat(dur, 64)
			if !found || err != nil || ms < 0 || ms > 1e9 || len(name) > 64 || len(steps) == 32 {
				continue
			}
			steps = append(steps, Step{name, time.Duration(ms * float64(time.Millisecond))})
		}
	}
	return steps
}
