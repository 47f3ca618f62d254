package broker

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A real broker exports its span of the call as a child of the caller's.
func TestTheTraceOfACallArrivesAtARealBroker(t *testing.T) {
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7"
	spans := make(chan []byte, 64)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		sent, _ := io.ReadAll(request.Body)
		if request.URL.Path == "/v1/traces" {
			spans <- sent
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_TRACES_EXPORTER", "otlphttp")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	socket, _ := serve(t)
	parent, is := ParseTraceParent("00-" + trace + "-" + span + "-01")
	if !is {
		t.Fatal("the traceparent is none")
	}
	asks := client(t, Options{Socket: socket, Deadline: 30 * time.Second})
	if _, err := asks.Hash(WithTrace(context.Background(), parent), "Sha256", []byte("abc")); err != nil {
		t.Fatal(err)
	}
	// Spans go out each five seconds.
	late := time.After(20 * time.Second)
	for {
		select {
		case sent := <-spans:
			ids := [2][]byte{}
			ids[0], _ = hex.DecodeString(trace)
			ids[1], _ = hex.DecodeString(span)
			if bytes.Contains(sent, ids[0]) && bytes.Contains(sent, ids[1]) {
				return
			}
		case <-late:
			t.Fatal("no span of the broker's names the trace and its caller")
		}
	}
}
