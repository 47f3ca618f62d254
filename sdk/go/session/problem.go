package session

import (
	"encoding/json"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// Problem is a rejection of wire 3, RFC 9457. It is not sealed: any party on the path can forge one.
type Problem struct {
	// Code is one of the problems of spec/registry.toml, at most 64 bytes of it.
	Code   string
	Status int
	more   wire.Members
}

// ParseProblem reads a body; nil if it is no problem of Sealway's.
func ParseProblem(status int, body []byte) *Problem {
	if len(body) > wire.ProblemLenMax {
		return nil
	}
	members, err := wire.ParseObject(body)
	if err != nil {
		return nil
	}
	code, _ := members.Text("code")
	if kind, _ := members.Text("type"); code == "" || len(code) > 64 || kind != "urn:sealway:problem:"+code {
		return nil
	}
	return &Problem{code, status, members}
}

// Suites returns the server's list of suite_required.
func (p *Problem) Suites() []string {
	names, _ := p.more.Names("suites", 1, wire.SuitesMax, wire.ValidSuiteName)
	return names
}

// KeySet returns the key set of key_retired, nil without one.
func (p *Problem) KeySet() []byte {
	if !p.more.Has("key_set") {
		return nil
	}
	data, _ := json.Marshal(p.more["key_set"]) // what was parsed marshals
	return data
}

// ServerTimeMs returns the server's clock of clock_skew.
func (p *Problem) ServerTimeMs() (uint64, bool) { return wire.Whole(p.more["server_time_ms"], 1<<64-1) }

// Field returns the member at fault of malformed.
func (p *Problem) Field() string {
	field, _ := p.more.Text("field")
	return field
}

// Proven says whether the client may take the time of a clock_skew: its mac is of this very request. Nothing else proves anything.
// spec/session-3.md#problems
func (p *Call) Proven(problem *Problem) bool {
	timeMs, ok := problem.ServerTimeMs()
	if !ok || problem.Code != "clock_skew" {
		return false
	}
	mac, ok := problem.more.Base64("mac")
	var want []byte
	err := p.session.use(func(keys *sessionKeys, _ *[32]byte) { want = clockMAC(keys, p.nonce, p.stamp, timeMs) })
	return ok && err == nil && crypto.Equal(mac, want)
}

// Safe says whether a method changes nothing at a service (RFC 9110 section 9.2.1), of those that are sealed.
func Safe(method string) bool { return method == "GET" || method == "HEAD" }

// SendsAgain says whether the request is sent once more after a refusal with this problem; proven is what [Call.Proven] said
// of it, elapsedMs the time since the request was sent, rounded up. One that is not safe is sent again only where it was too old
// for every server before it left: a refusal says nothing of what was before it, and a party in between may show a served
// request to the service until it is refused. spec/session-3.md#problems
func (p *Call) SendsAgain(problem *Problem, proven bool, elapsedMs uint64) bool {
	timeMs, timed := problem.ServerTimeMs()
	stampMs, err := wire.ParseStamp(p.stamp)
	switch problem.Code {
	case "clock_skew":
		// The widest window, and as much again for clocks that differ.
		tooOld := timeMs >= elapsedMs && stampMs+2*wire.NativeWindowMsMax < timeMs-elapsedMs
		return proven && timed && err == nil && (Safe(p.line.Method) || tooOld)
	case "session_expired":
		return Safe(p.line.Method)
	}
	return false
}
