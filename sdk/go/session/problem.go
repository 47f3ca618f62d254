package session

import (
	"encoding/json"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// Problem is a rejection of wire 3 or 4, RFC 9457. Any party on the path can forge one that is not sealed.
type Problem struct {
	// Code is one of the problems of spec/registry.toml, at most 64 bytes of it.
	Code   string
	Status int
	// Sealed says that it came under a seal of wire 4: the server made it, for this very request.
	Sealed bool
	more   wire.Members
}

// ParseProblem reads the body of a rejection, sealed or not; nil if it is no problem of Sealway's.
func ParseProblem(status int, body []byte, sealed bool) *Problem {
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
	return &Problem{code, status, sealed, members}
}

// Suites returns the server's list of suite_required.
func (p *Problem) Suites() []string {
	names, _ := p.more.Names("suites", 1, wire.SuitesMax, wire.ValidSuiteName)
	return names
}

// KeySet returns the key set of key_retired, nil without one.
func (p *Problem) KeySet() []byte { return p.member("key_set") }

// KeyDocument returns the key document of a key_retired of wire 4, nil without one.
func (p *Problem) KeyDocument() []byte { return p.member("key_document") }

func (p *Problem) member(name string) []byte {
	if !p.more.Has(name) {
		return nil
	}
	data, _ := json.Marshal(p.more[name]) // what was parsed marshals
	return data
}

// isSealed says of the problems of wire 4 whether a server seals them. spec/one-shot.md#problems
var isSealed = map[string]bool{"key_retired": false, "unsealable": false, "too_large": false, "wire_disabled": false, "rate_limited": false,
	"clock_skew": true, "policy": true, "replayed": true, "store_unavailable": true, "upstream_unreachable": true, "upstream_timeout": true}

// Misplaced says whether a problem of wire 4 lacks the seal that a server gives it, or has one that no server gives it: it counts as
// unknown.
func (p *Problem) Misplaced() bool {
	sealed, known := isSealed[p.Code]
	return known && sealed != p.Sealed
}

// ServerTimeMs returns the server's clock of clock_skew.
func (p *Problem) ServerTimeMs() (uint64, bool) {
	return wire.Whole(p.more["server_time_ms"], timeMsMax)
}

// Field returns the member at fault of malformed.
func (p *Problem) Field() string {
	field, _ := p.more.Text("field")
	return field
}

// Proven says whether the client may take the time of a clock_skew: its mac is of this very request, or on wire 4 its seal. Nothing
// else proves anything. spec/session-3.md#problems spec/one-shot.md#problems
func (p *Call) Proven(problem *Problem) bool {
	timeMs, ok := problem.ServerTimeMs()
	if !ok || problem.Code != "clock_skew" {
		return false
	}
	if p.version == wire.Wire4 {
		return problem.Sealed
	}
	mac, ok := problem.more.Base64("mac")
	var want []byte
	err := p.keys.use(func(keys *sessionKeys) { want = clockMAC(keys, p.nonce, p.stamp, timeMs) })
	return ok && err == nil && crypto.Equal(mac, want)
}

// Safe says whether a method changes nothing at a service (RFC 9110 section 9.2.1), of those that are sealed.
func Safe(method string) bool { return method == "GET" || method == "HEAD" }

// SendsAgain says whether the request is sent once more after a refusal with this problem; proven is what [Call.Proven] said
// of it, elapsedMs the time since the request was sent, rounded up. One that is not safe is sent again only where it was too old
// for every server before it left: a refusal says nothing of what was before it, and a party in between may show a served
// request to the service until it is refused. spec/session-3.md#problems spec/one-shot.md#problems
func (p *Call) SendsAgain(problem *Problem, proven bool, elapsedMs uint64) bool {
	timeMs, timed := problem.ServerTimeMs()
	stampMs, err := wire.ParseStamp(p.stamp)
	switch problem.Code {
	case "clock_skew":
		// The widest window, and as much again for clocks that differ.
		tooOld := timeMs >= elapsedMs && stampMs+2*wire.NativeWindowMsMax < timeMs-elapsedMs
		return proven && timed && err == nil && (Safe(p.line.Method) || tooOld)
	case "session_expired":
		return p.version == wire.Wire3 && Safe(p.line.Method)
	case "key_retired":
		return p.version == wire.Wire4 && !problem.Sealed && Safe(p.line.Method)
	}
	return false
}
