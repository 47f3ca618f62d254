package sealway

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sealway.dev/go/wire"
)

func TestAWiderWindowIsCappedAtFiveMinutesByTheNativeProtocolAlone(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	wide := must(NewMiddleware(MiddlewareConfig{Store: s.store, Window: time.Hour, Now: s.now}))
	*s.middleware = *wide
	for _, offset := range []int64{610_000, -610_000} {
		for _, version := range []wire.Version{1, 2, 3} {
			s.offsetMs.Store(0)
			transport := s.transport(t, func(c *Config) { c.Wire = version })
			if _, err := transport.Session(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.offsetMs.Store(offset)
			caught := &capture{base: http.DefaultTransport}
			transport.config.Base = caught
			served := s.served.Load()
			_, _, err := do(t, transport, "POST", s.URL+"/", "x")
			var problem *ProblemError
			switch {
			case version < 3 && s.served.Load() != served+1:
				t.Fatalf("wire %d, %d ms off: %v", version, offset, err)
			case version == 3 && offset > 0 && (err != nil || s.served.Load() != served+1):
				// Refused, set right, and sent again.
				t.Fatal(err)
			case version == 3 && offset < 0 && (!errors.As(err, &problem) || problem.Code != "clock_skew" || s.served.Load() != served):
				t.Fatal(err)
			}
		}
	}
}

func TestOptionsReachNoHandlerWhereRequestsMayBeSealed(t *testing.T) {
	var saw []string
	middleware := must(NewMiddleware(MiddlewareConfig{Store: NewMemoryStore(1), Routes: []Route{{Path: "/off", Mode: Off}, {Path: "/optional", Mode: Optional}}}))
	handler := middleware.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		saw = append(saw, r.Method+" "+r.URL.Path)
		w.WriteHeader(299)
	}))
	for _, c := range []struct {
		path, seal string
		status     int
	}{{"/", "", 204}, {"/x", "3", 204}, {"/optional", "3", 204}, {"/off/..", "", 204}, {"/optional", "", 204}, {"/off", "", 299}} {
		recorder := httptest.NewRecorder()
		request := httptest.NewRequest("OPTIONS", c.path, strings.NewReader("body"))
		if c.seal != "" {
			request.Header.Set(wire.HeaderSeal, c.seal)
		}
		handler.ServeHTTP(recorder, request)
		if recorder.Code != c.status || c.status == 204 && (recorder.Header().Get("Allow") == "" || recorder.Body.Len() != 0) {
			t.Errorf("%s: %d %v", c.path, recorder.Code, recorder.Header())
		}
	}
	if len(saw) != 1 {
		t.Fatal(saw)
	}
}

func TestAPathThatNoRouteNamesIsSealed(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo), Route{Path: "/plain", Mode: Off})
	for path, status := range map[string]int{"/plain": 200, "/plain2": 400, "/": 400, "/other/plain": 400} {
		response, err := http.Post(s.URL+path, "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != status {
			t.Errorf("%s: %d", path, response.StatusCode)
		}
	}
	if s.served.Load() != 1 {
		t.Fatal(s.served.Load())
	}
}

func TestWhereARequestCameFromIsSaidOutsideTheSealByATrustedOneAlone(t *testing.T) {
	names := []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Real-Ip", "Client-Cert", "Client-Cert-Chain", "X-Client-Cert"}
	// A proxy in front takes its own spelling away alone, so that no other spelling is ever believed.
	disguised := []string{"X_forwarded_host", "X_client_cert", "Client_cert", "X-Client_cert", "X_real-Ip"}
	var seen http.Header
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen = r.Header.Clone() }),
		Route{Path: "/off", Mode: Off}, Route{Path: "/optional", Mode: Optional})
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		for _, name := range append(disguised, names...) {
			r.Header[name] = []string{"outside"}
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	for _, trusted := range []bool{false, true} {
		s.middleware.config.TrustForwarded = trusted
		want := ""
		if trusted {
			want = "outside"
		}
		check := func(where string) {
			t.Helper()
			for _, name := range names {
				if got := strings.Join(seen[name], ","); got != want {
					t.Errorf("trusted %v, %s: %s is %q", trusted, where, name, got)
				}
			}
			for _, name := range disguised {
				if got := seen[name]; len(got) > 0 {
					t.Errorf("trusted %v, %s: %s is %q", trusted, where, name, got)
				}
			}
		}
		for _, path := range []string{"/off", "/optional"} {
			request, _ := http.NewRequest("GET", s.URL+path, nil)
			if _, err := base(request); err != nil {
				t.Fatal(err)
			}
			check(path)
		}
		for _, version := range []wire.Version{1, 2, 3} {
			transport := s.transport(t, func(c *Config) { c.Wire, c.Base = version, base })
			request, _ := http.NewRequest("POST", s.URL+"/sealed", strings.NewReader("x"))
			for _, name := range append(disguised, names...) {
				// Nobody is believed within a seal; on wire 3 the outer one replaces what the client forwards of its own.
				request.Header[name] = []string{"inside"}
			}
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			check("wire " + string(rune('0'+version)))
		}
	}
}
