package main

import (
	"strings"
	"testing"
	"time"
)

const second = int64(time.Second)

func op(process int, op, input, output string, call, end int64) record {
	return record{Process: process, Op: op, Key: "k", Input: input, Output: output, CallNs: call, ReturnNs: end}
}

func unknown(r record) record {
	r.Unknown = true
	return r
}

func strict(r record) record {
	r.Strict = true
	return r
}

func manyUnknown(name string, count int64) []record {
	var all []record
	for n := int64(0); n < count; n++ {
		all = append(all, unknown(op(int(n)%3, name, "", "", 2+n, 3+n)))
	}
	return all
}

func isRight(history []record) bool {
	for _, p := range split(history, time.Second) {
		if p.check(time.Minute) != "" {
			return false
		}
	}
	return true
}

func TestHistoriesThatAnOrderExplains(t *testing.T) {
	for name, history := range map[string][]record{
		"a put is seen by all who ask later": {
			op(0, "put", "v", "ok", 0, 5), op(0, "get", "", "v", 6, 7), op(1, "get", "", "v", 6, 7),
		},
		"a get beside a put may see it or not": {
			op(0, "put", "v", "ok", 0, 5), op(1, "get", "", "", 1, 2), op(2, "get", "", "v", 1, 2),
		},
		"a put that failed may have happened": {
			unknown(op(0, "put", "v", "", 0, 5)), op(1, "get", "", "", 6, 7), op(1, "get", "", "v", 8, 9),
		},
		"a delete may take a second to reach others": {
			op(0, "put", "v", "ok", 0, 1), op(0, "delete", "", "true", 2, 3), op(0, "get", "", "", 4, 5),
			op(1, "get", "", "v", second/2, second/2+1), op(2, "get", "", "", second/3, second/3+1),
			op(1, "get", "", "", second*2, second*2+1),
		},
		"of two deletes one finds it": {
			op(0, "put", "v", "ok", 0, 1), op(0, "delete", "", "false", 2, 9), op(1, "delete", "", "true", 2, 9),
		},
		"one fresh, the rest refused": {
			op(0, "reserve", "", "replayed", 0, 9), op(1, "reserve", "", "fresh", 0, 9), op(2, "reserve", "", "replayed", 10, 11),
		},
		"a reserve that failed may be what a refusal is for": {
			unknown(op(0, "reserve", "", "", 0, 1)), strict(op(1, "reserve", "", "replayed", 5, 6)),
		},
		"a reserve that failed may never have happened": {
			unknown(op(0, "reserve", "", "", 0, 1)), op(1, "reserve", "", "fresh", 5, 6),
		},
		"many that failed, and one that was granted": append(
			manyUnknown("reserve", 40), op(0, "reserve", "", "fresh", 50, 51), op(1, "reserve", "", "replayed", 52, 53)),
		"many deletes that failed": append(
			append(manyUnknown("delete", 40), op(0, "put", "v", "ok", 0, 1), op(1, "get", "", "v", 60, 61)),
			op(1, "get", "", "", 62, 63), op(1, "delete", "", "false", 64, 65)),
		"after a loss anything may be refused, and granted once by who can be sure": {
			op(0, "reserve", "", "replayed", 0, 1), op(1, "reserve", "", "fresh", 2, 3), op(2, "reserve", "", "replayed", 4, 5),
		},
	} {
		if !isRight(history) {
			t.Errorf("found wrong: %s", name)
		}
	}
}

func TestHistoriesThatNothingExplainsAreFound(t *testing.T) {
	for name, history := range map[string][]record{
		"two fresh": {
			op(0, "reserve", "", "fresh", 0, 9), op(1, "reserve", "", "fresh", 0, 9),
		},
		"fresh, and fresh again much later": {
			op(0, "reserve", "", "fresh", 0, 1), op(0, "reserve", "", "replayed", 2, 3), op(2, "reserve", "", "fresh", second*9, second*9+1),
		},
		"refused for nothing, and then fresh": {
			strict(op(0, "reserve", "", "replayed", 0, 1)), strict(op(1, "reserve", "", "fresh", 2, 3)),
		},
		"refused for nothing": {strict(op(0, "reserve", "", "replayed", 0, 1))},
		"an acknowledged session is lost": {
			op(0, "put", "v", "ok", 0, 1), op(1, "get", "", "", 2, 3),
		},
		"a session is lost for one process and a while": {
			op(0, "put", "v", "ok", 0, 1), op(1, "get", "", "v", 2, 3), op(1, "get", "", "", 4, 5), op(1, "get", "", "v", 6, 7),
		},
		"another's record": {
			op(0, "put", "v", "ok", 0, 1), op(1, "get", "", "w", 2, 3),
		},
		"a session from nowhere": {op(0, "get", "", "v", 0, 1)},
		"a deleted session at the process that deleted it": {
			op(0, "put", "v", "ok", 0, 1), op(0, "delete", "", "true", 2, 3), op(0, "get", "", "v", 4, 5),
		},
		"a deleted session at another process after more than a second": {
			op(0, "put", "v", "ok", 0, 1), op(0, "delete", "", "true", 2, 3), op(1, "get", "", "v", second+4, second+5),
		},
		"a deleted session that comes back": {
			op(0, "put", "v", "ok", 0, 1), op(0, "delete", "", "true", 2, 3), op(1, "get", "", "", 4, 5), op(1, "get", "", "v", 6, 7),
		},
		"two deletes find it": {
			op(0, "put", "v", "ok", 0, 1), op(0, "delete", "", "true", 2, 9), op(1, "delete", "", "true", 2, 9),
		},
		"many that failed, and two granted": append(
			manyUnknown("reserve", 40), op(0, "reserve", "", "fresh", 50, 51), op(1, "reserve", "", "fresh", 52, 53)),
		"many deletes that failed, and it comes back": append(
			append(manyUnknown("delete", 40), op(0, "put", "v", "ok", 0, 1), op(1, "get", "", "", 60, 61)),
			op(1, "get", "", "v", 62, 63)),
		"gone before any delete, though one fails later": {
			op(0, "put", "v", "ok", 0, 1), op(1, "get", "", "", 2, 3), unknown(op(1, "delete", "", "", 4, 5)),
		},
		"no delete finds it": {
			op(0, "put", "v", "ok", 0, 1), op(0, "delete", "", "false", 2, 9),
		},
	} {
		if isRight(history) {
			t.Errorf("not found: %s", name)
		}
	}
}

func TestAHistoryThatCannotBeReadIsAnError(t *testing.T) {
	good := `{"process":0,"op":"reserve","key":"n","output":"fresh","call_ns":1,"return_ns":2}`
	if history, err := read(strings.NewReader(good + "\n" + good)); err != nil || len(history) != 2 {
		t.Fatal(history, err)
	}
	for _, bad := range []string{
		"{",
		strings.Replace(good, "reserve", "take", 1),
		strings.Replace(good, "fresh", "ok", 1),
		strings.Replace(good, `"n"`, `""`, 1),
		strings.Replace(good, `"return_ns":2`, `"return_ns":0`, 1),
	} {
		if _, err := read(strings.NewReader(good + "\n" + bad)); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
