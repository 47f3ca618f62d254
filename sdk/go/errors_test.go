package sealway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sealway.dev/go/wire"
)

// errorOf makes a call that fails, of its head or its body.
func errorOf(t *testing.T, s *service, method string, change func(*Config)) error {
	t.Helper()
	transport := s.transport(t, change)
	response, err := transport.RoundTrip(must(http.NewRequest(method, s.URL+"/", strings.NewReader("hunter2"))))
	if err == nil {
		_, err = io.ReadAll(response.Body)
		response.Body.Close()
	}
	return err
}

func TestEveryErrorHasStageCodeRetryableHostAndRemedy(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	closed := must(net.Listen("tcp", "127.0.0.1:0"))
	nobody := closed.Addr().String()
	closed.Close()
	release := make(chan struct{})
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.tell(w, "store_unavailable", 503, nil) }))
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-release }))
	moved := httptest.NewServer(http.RedirectHandler("/elsewhere", http.StatusFound))
	t.Cleanup(func() {
		close(release)
		for _, server := range []*httptest.Server{busy, silent, moved} {
			server.Close()
		}
	})
	at := func(url string) func(*Config) { return func(c *Config) { c.AuthorityURL = url } }
	host := func(url string) string { return strings.TrimPrefix(url, "http://") }
	here := host(s.URL)
	tells := func(code string, status int) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { s.tell(w, code, status, nil) }
	}
	hangsUp := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		conn, _, _ := http.NewResponseController(w).Hijack()
		conn.Close()
	}
	for name, c := range map[string]struct {
		method string
		change func(*Config)
		spoil  func(http.ResponseWriter, *http.Request, http.Handler)
		want   Error
	}{
		"wrong request":      {"TRACE", nil, nil, Error{StageConfiguration, "usage", false, "", nil}},
		"too long a request": {"POST", func(c *Config) { c.Wire, c.RequestMaxBytes = 2, 3 }, nil, Error{StageConfiguration, "body_too_large", false, "", nil}},
		"no authority":       {"POST", at("http://" + nobody), nil, Error{StageAgreement, "unreachable", true, nobody, nil}},
		"busy authority":     {"POST", at(busy.URL), nil, Error{StageAgreement, "store_unavailable", true, host(busy.URL), nil}},
		"moved authority":    {"POST", at(moved.URL), nil, Error{StageAgreement, "redirected", false, host(moved.URL), nil}},
		"silent authority": {"POST", func(c *Config) { c.AuthorityURL, c.TotalTimeout = silent.URL, 100*time.Millisecond }, nil,
			Error{StageAgreement, "timeout", true, host(silent.URL), nil}},
		"stranger": {"POST", func(c *Config) { c.Trust = TrustPins(strings.Repeat("0", 32)) }, nil, Error{StageAgreement, "key_retired", false, here, nil}},
		"no token": {"POST", func(c *Config) {
			c.Authorization = func(context.Context) (string, error) { return "", errors.New("the issuer is away") }
		}, nil, Error{StageAgreement, "usage", false, here, nil}},
		"policy":          {"POST", nil, tells("policy", 403), Error{StageCall, "policy", false, here, nil}},
		"unproven 503":    {"POST", nil, tells("store_unavailable", 503), Error{StageCall, "store_unavailable", false, here, nil}},
		"lost session":    {"POST", nil, tells("session_expired", 401), Error{StageCall, "session_expired", false, here, nil}},
		"lost, but a GET": {"GET", nil, tells("session_expired", 401), Error{StageCall, "session_expired", true, here, nil}},
		"broke":           {"POST", nil, hangsUp, Error{StageCall, "network", false, here, nil}},
		"silent service":  {"POST", func(c *Config) { c.HeadTimeout = time.Second }, func(http.ResponseWriter, *http.Request, http.Handler) { <-release }, Error{StageCall, "timeout", false, here, nil}},
		"an answer's end": {"POST", nil, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			made := recorded(r, next)
			send(w, made, 200, made.Body.Bytes()[:60])
		}, Error{StageCall, "stream_truncated", false, here, nil}},
		"too long, wire 2": {"POST", func(c *Config) { c.Wire, c.AnswerMaxBytes = 2, 3 }, nil, Error{StageCall, "body_too_large", false, here, nil}},
		"portal":           {"POST", nil, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { io.WriteString(w, "hello") }, Error{StageCall, "unsealed", false, here, nil}},
	} {
		s.spoil.Store(nil)
		if c.spoil != nil {
			s.spoilWith(c.spoil)
		}
		err := errorOf(t, s, c.method, c.change)
		var got *Error
		if !errors.As(err, &got) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Stage != c.want.Stage || got.Code != c.want.Code || got.Retryable != c.want.Retryable || got.Host != c.want.Host {
			t.Errorf("%s: %+v, and not %+v", name, *got, c.want)
		}
		if got.Remedy() == "" || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), got.Host) || !errors.Is(err, wire.Code(c.want.Code)) {
			t.Errorf("%s: %q, %q", name, err, got.Remedy())
		}
	}
	// Nobody accepts the sealed request: it was not sent.
	s.spoil.Store(nil)
	transport := s.transport(t, nil)
	must(transport.Session(t.Context()))
	transport.config.Base = roundTripper(func(r *http.Request) (*http.Response, error) {
		r.URL.Host = nobody
		return http.DefaultTransport.RoundTrip(r)
	})
	var unreachable *Error
	if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); !errors.As(err, &unreachable) || unreachable.Stage != StageCall || unreachable.Code != "unreachable" || !unreachable.Retryable {
		t.Error(err)
	}
	var configuration *Error
	if _, err := NewTransport("nowhere", Config{}); !errors.As(err, &configuration) || configuration.Stage != StageConfiguration || configuration.Host != "" {
		t.Error(err)
	}
}

func TestTheErrorOfACancelledContextStaysAsItIs(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	own := errors.New("the user left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(own)
	_, err := s.transport(t, nil).RoundTrip(must(http.NewRequestWithContext(ctx, "GET", s.URL+"/", nil)))
	var wrapped *Error
	if !errors.Is(err, own) || errors.As(err, &wrapped) {
		t.Fatal(err)
	}
	late, end := context.WithTimeout(t.Context(), time.Nanosecond)
	defer end()
	_, err = s.transport(t, nil).RoundTrip(must(http.NewRequestWithContext(late, "GET", s.URL+"/", nil)))
	if !errors.As(err, &wrapped) || wrapped.Code != "timeout" || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

// TestTotalTimeoutBoundsTheBodyOfAnAnswerAndCanBeSwitchedOff has a service that sends a part every 75 ms for 1.8 s.
func TestTotalTimeoutBoundsTheBodyOfAnAnswerAndCanBeSwitchedOff(t *testing.T) {
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 24 {
			io.WriteString(w, "part")
			w.(http.Flusher).Flush()
			time.Sleep(75 * time.Millisecond)
		}
	}))
	for _, total := range []time.Duration{800 * time.Millisecond, -1} {
		transport := s.transport(t, func(c *Config) { c.TotalTimeout = total })
		must(transport.Session(t.Context()))
		start := time.Now()
		response := must(transport.RoundTrip(must(http.NewRequest("GET", s.URL+"/", nil))))
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		var late *TimeoutError
		if total < 0 && (err != nil || len(body) != 96) ||
			total > 0 && (!errors.As(err, &late) || late.Option != "Config.TotalTimeout" || time.Since(start) > 1600*time.Millisecond) {
			t.Errorf("%v: %d bytes, %v, after %v", total, len(body), err, time.Since(start))
		}
	}
}

// TestHeadTimeoutBeginsWithTheLastSentPart sends for longer than HeadTimeout to a service that answers at once.
func TestHeadTimeoutBeginsWithTheLastSentPart(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	slow := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &slowConn{Conn: conn}, err
	}}
	defer slow.CloseIdleConnections()
	transport := s.transport(t, func(c *Config) { c.Base, c.HeadTimeout = slow, 1500*time.Millisecond })
	body := strings.Repeat("x", 512<<10)
	if _, got, err := do(t, transport, "POST", s.URL+"/", body); err != nil || got != body {
		t.Fatal(len(got), err)
	}
}

// slowConn takes 200 ms to send up to 64 KiB.
type slowConn struct{ net.Conn }

func (c *slowConn) Write(data []byte) (sent int, err error) {
	for len(data) > 0 && err == nil {
		part := data[:min(len(data), 64<<10)]
		time.Sleep(200 * time.Millisecond)
		n, failed := c.Conn.Write(part)
		data, sent, err = data[n:], sent+n, failed
	}
	return sent, err
}
