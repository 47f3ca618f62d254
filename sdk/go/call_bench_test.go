package sealway

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkCallOfAMiddleware is a whole call: sealed, sent over a socket, opened, answered, sealed and opened.
func BenchmarkCallOfAMiddleware(b *testing.B) {
	s := newService(b, http.HandlerFunc(echo))
	transport := s.transport(b, nil)
	s.store.max = 1 << 30
	b.ReportAllocs()
	for b.Loop() {
		request, _ := http.NewRequest("POST", s.URL+"/", strings.NewReader(`{"schemeCode":"AEF","amount":5000}`))
		response, err := transport.RoundTrip(request)
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
}
