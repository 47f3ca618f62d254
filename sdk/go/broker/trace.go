package broker

import (
	"context"
	"encoding/hex"
	"strings"
)

// TraceParent is a W3C traceparent: the trace that a call belongs to. The client knows no tracing library.
type TraceParent struct{ text string }

// ParseTraceParent reads 00-TRACE-SPAN-FLAGS in lower-case hexadecimal.
func ParseTraceParent(text string) (TraceParent, bool) {
	parts := strings.Split(text, "-")
	if len(parts) != 4 || parts[0] != "00" {
		return TraceParent{}, false
	}
	for at, length := range []int{2, 32, 16, 2} {
		raw, err := hex.DecodeString(parts[at])
		isZero := strings.Trim(parts[at], "0") == ""
		if err != nil || len(parts[at]) != length || hex.EncodeToString(raw) != parts[at] || isZero && (at == 1 || at == 2) {
			return TraceParent{}, false
		}
	}
	return TraceParent{text}, true
}

// String is its text.
func (t TraceParent) String() string { return t.text }

type traceKey struct{}

// WithTrace makes calls under a context belong to a trace.
func WithTrace(ctx context.Context, parent TraceParent) context.Context {
	return context.WithValue(ctx, traceKey{}, parent)
}

func traceOf(ctx context.Context) (string, bool) {
	parent, is := ctx.Value(traceKey{}).(TraceParent)
	return parent.text, is && parent.text != ""
}
