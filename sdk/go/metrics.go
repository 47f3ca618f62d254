package sealway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"sealway.dev/go/wire"
)

// Exchange measures one call, init or renewal. [Config.OnMetrics] receives it when the head of the answer has opened; the rest of an
// answer that streams follows later.
type Exchange struct {
	// Kind is call, init or renew.
	Kind      string
	Wire      wire.Version
	SessionID string
	// Suite is the suite of the session on wire 3, the KEM of the key on wire 4, else empty.
	Suite          string
	Method, Target string
	Status         int
	// RoundTrip is the whole time, HTTP the time from sending to the head of the answer (to its end on wires 1 and 2).
	RoundTrip, HTTP time.Duration
	// Steps are the client's cryptographic steps, in order.
	Steps []Step
	// ServerTiming are the measurements of the service, unauthenticated, at most 32 entries.
	ServerTiming []Step
	// Attempt counts from 1: a call is retried at most once for an ended session and once for a wrong clock.
	Attempt int
	// Err is the error of the exchange, nil for an answer.
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

// ParseServerTiming reads Server-Timing in the form of spec/session.md#http, and ignores other entries.
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
