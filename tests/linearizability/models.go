package main

import (
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// part is a stretch of the history that is linearizable or not by itself.
type part struct {
	name       string
	model      porcupine.Model
	operations []porcupine.Operation
}

// session is one session as one process sees it: a register that a put fills and a delete empties.
var session = porcupine.Model{
	Init: func() interface{} { return "" },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		r := input.(record)
		switch r.Op {
		case "put":
			return true, r.Input
		case "delete":
			return true, ""
		default:
			return state.(string) == r.Output, state
		}
	},
	DescribeOperation: describe,
}

// deletion is what deletes say, over all processes: of any number exactly one finds the session.
var deletion = porcupine.Model{
	Init: func() interface{} { return false },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		r := input.(record)
		if r.Op == "put" {
			return true, true
		}
		return r.Unknown || (r.Output == "true") == state.(bool), false
	},
	DescribeOperation: describe,
}

// nonce is one nonce over all processes: fresh at most once. A refusal needs a cause, that it was taken, until a fault
// begins: from then on a process refuses what it cannot be sure of, such as what it failed to reserve before, and another
// that can be sure may still grant it.
var nonce = porcupine.Model{
	Init: func() interface{} { return false },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		r, taken := input.(record), state.(bool)
		switch {
		case r.Unknown:
			return true, true
		case r.Output == "fresh":
			return !taken, true
		default:
			return taken || !r.Strict, taken
		}
	},
	DescribeOperation: describe,
}

func describe(input, output interface{}) string {
	r := input.(record)
	said := r.Output
	if r.Unknown {
		said = "unknown"
	}
	return fmt.Sprintf("process %d: %s(%s) = %q, from %v to %v",
		r.Process, r.Op, r.Input, said, time.Duration(r.CallNs), time.Duration(r.ReturnNs))
}

// operation leaves what is unknown open to the end of time, and lets it take `spread` longer.
func operation(r record, spread time.Duration) porcupine.Operation {
	end := r.ReturnNs + spread.Nanoseconds()
	if r.Unknown {
		end = math.MaxInt64
	}
	return porcupine.Operation{ClientId: r.Process, Input: r, Call: r.CallNs, Output: r.Output, Return: end}
}

// split takes a history apart. A delete has `spread` to reach processes other than the one that was asked.
func split(history []record, spread time.Duration) []part {
	byKey := map[string][]record{}
	processes := map[int]bool{}
	for _, r := range history {
		byKey[r.Key] = append(byKey[r.Key], r)
		processes[r.Process] = true
	}
	var parts []part
	for key, all := range byKey {
		records := enough(all)
		if records[0].Op == "reserve" {
			parts = append(parts, part{"nonce " + key, nonce, operations(records, func(r record) (time.Duration, bool) {
				return 0, true
			})})
			continue
		}
		for process := range processes {
			parts = append(parts, part{
				fmt.Sprintf("session %s at process %d", key, process),
				session,
				operations(records, func(r record) (time.Duration, bool) {
					switch {
					case r.Op == "delete" && r.Process != process:
						return spread, true
					case r.Op == "get":
						// A get that failed says nothing and changes nothing.
						return 0, r.Process == process && !r.Unknown
					default:
						return 0, true
					}
				}),
			})
		}
		parts = append(parts, part{"deletes of " + key, deletion, operations(records, func(r record) (time.Duration, bool) {
			return 0, r.Op != "get"
		})})
	}
	sort.Slice(parts, func(i, j int) bool { return parts[i].name < parts[j].name })
	return parts
}

// enough leaves out what failed without need. Nothing that is unknown has to have happened, and whatever of one kind may
// have happened, the first that was called may have done at the same moment: a session is put once, so that it can go
// but once, and a nonce can be taken but once. A nonce that was granted was taken by nobody else at all. Without this
// the search has every subset of them to think about.
func enough(records []record) []record {
	first := map[string]int64{}
	granted := false
	for _, r := range records {
		granted = granted || (r.Op == "reserve" && !r.Unknown && r.Output == "fresh")
		if call, known := first[r.Op]; r.Unknown && (!known || r.CallNs < call) {
			first[r.Op] = r.CallNs
		}
	}
	var kept []record
	for _, r := range records {
		if !r.Unknown || (r.CallNs == first[r.Op] && !(r.Op == "reserve" && granted)) {
			kept = append(kept, r)
		}
	}
	return kept
}

func operations(records []record, choose func(record) (time.Duration, bool)) []porcupine.Operation {
	var chosen []porcupine.Operation
	for _, r := range records {
		if spread, ok := choose(r); ok {
			chosen = append(chosen, operation(r, spread))
		}
	}
	return chosen
}

// check returns a part's story when it is not linearizable, or when that cannot be told within the time.
func (p *part) check(time time.Duration) string {
	verdict := porcupine.CheckOperationsTimeout(p.model, p.operations, time)
	if verdict == porcupine.Ok {
		return ""
	}
	story := fmt.Sprintf("%s: %s\n", p.name, verdict)
	for _, op := range p.operations {
		story += "  " + describe(op.Input, op.Output) + "\n"
	}
	return story
}
