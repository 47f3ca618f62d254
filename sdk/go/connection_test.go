package sealway

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// told makes a call with secrets around it, and gives what its error says.
func told(t *testing.T, s *service, url string, change func(*Config)) (string, error) {
	t.Helper()
	config := s.config(t)
	config.Authorization = nil
	if change != nil {
		change(&config)
	}
	transport := must(NewTransport(url, config))
	defer transport.CloseIdleConnections()
	request := must(http.NewRequest("POST", url+"/pay?card=hunter2", strings.NewReader("hunter2")))
	request.Header.Set("Authorization", "Bearer hunter2")
	response, err := transport.RoundTrip(request)
	if err == nil {
		_, err = io.ReadAll(response.Body)
		response.Body.Close()
	}
	if err == nil {
		t.Fatal("it was answered")
	}
	if host := strings.SplitN(url, "://", 2)[1]; !strings.Contains(err.Error(), host) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v names not %s, or a secret", err, host)
	}
	return err.Error(), err
}

func TestAnErrorSaysWhatHappenedOfWhichHostAndWhatToDo(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	closed := must(net.Listen("tcp", "127.0.0.1:0"))
	address := closed.Addr().String()
	closed.Close()
	encrypted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(encrypted.Close)
	mutual := httptest.NewUnstartedServer(http.NotFoundHandler())
	mutual.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	mutual.StartTLS()
	t.Cleanup(mutual.Close)
	silent := must(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { silent.Close() })
	hangsUp := must(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { hangsUp.Close() })
	go func() {
		for {
			connection, err := hangsUp.Accept()
			if err != nil {
				return
			}
			connection.Close()
		}
	}()
	for _, version := range wires {
		of := func(c *Config) { c.Wire = version }
		for name, test := range map[string]struct {
			url    string
			change func(*Config)
			wants  []string
		}{
			"refused":     {"http://" + address, nil, []string{"the connection was refused", "check the address and port"}},
			"certificate": {encrypted.URL, nil, []string{"TLS failed", "unknown authority", "check that the certificate"}},
			"no TLS":      {"https" + strings.TrimPrefix(s.URL, "http"), nil, []string{"TLS failed", "no TLS is spoken there"}},
			"client certificate": {mutual.URL, func(c *Config) { c.Base = mutual.Client().Transport },
				nil},
			"silent":   {"http://" + silent.Addr().String(), func(c *Config) { c.HeadTimeout = 100 * time.Millisecond }, []string{"the answer to an init", "Config.HeadTimeout"}},
			"hangs up": {"http://" + hangsUp.Addr().String(), nil, []string{"the connection broke"}},
			"dial": {s.URL, func(c *Config) {
				c.Base = &http.Transport{DialContext: (&net.Dialer{Timeout: 1}).DialContext}
			}, []string{"it took too long to connect", "firewalls"}},
		} {
			text, err := told(t, s, test.url, func(c *Config) {
				of(c)
				if test.change != nil {
					test.change(c)
				}
			})
			for _, want := range test.wants {
				if !strings.Contains(text, want) {
					t.Errorf("wire %d, %s: %q is not in %v", version, name, want, err)
				}
			}
			// Its alert may come behind the end of the connection.
			if name == "client certificate" && !strings.Contains(text, "asks for a client certificate") && !strings.Contains(text, "the connection broke") {
				t.Errorf("wire %d, %s: %v", version, name, err)
			}
			var timed net.Error
			if isLate := errors.As(err, &timed) && timed.Timeout(); isLate != (name == "silent" || name == "dial") {
				t.Errorf("wire %d, %s: timeout %t", version, name, isLate)
			}
			if name == "refused" && !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("it does not unwrap: %v", err)
			}
		}
		release := make(chan struct{})
		s.spoilWith(func(w http.ResponseWriter, r *http.Request, next http.Handler) { <-release })
		if text, _ := told(t, s, s.URL, func(c *Config) { of(c); c.HeadTimeout = 100 * time.Millisecond }); !strings.Contains(text, "Config.HeadTimeout") {
			t.Error(text)
		}
		close(release)
		s.spoil.Store(nil)
	}
	text, err := told(t, s, s.URL, func(c *Config) { c.Trust = TrustPins(wire.EncodeBase64(newIdentity(t).PublicKey())) })
	if !errorsAsTrust(err) || !strings.Contains(text, "another service or an impostor") || !strings.Contains(text, "and pin th") {
		t.Error(text)
	}
	// Its clock is wrong for good: a proven skew heals one call, and this one is refused again.
	s.spoilWith(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		s.tell(w, "clock_skew", 400, s.clockProof(t, r, s.nowMs()))
	})
	if text, _ := told(t, s, s.URL, nil); !strings.Contains(text, "clock_skew (400); the outcome of this request is unknown") {
		t.Error(text)
	}
	s.spoilWith(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { s.tell(w, "session_expired", 401, nil) })
	if text, _ := told(t, s, s.URL, nil); !strings.Contains(text, "session_expired (401); the outcome of this request is unknown") {
		t.Error(text)
	}
	s.spoilWith(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { s.tell(w, "policy", 403, nil) })
	if text, _ := told(t, s, s.URL, func(c *Config) { c.Suites = []crypto.Suite{crypto.P256} }); !strings.Contains(text, "Ask the operator") {
		t.Error(text)
	}
}

func TestTheErrorOfARequestsOwnBodyStaysItsOwn(t *testing.T) {
	own := errors.New("the disk is gone")
	eachHTTP(t, func(t *testing.T, two bool) {
		s := newService(t, http.HandlerFunc(echo))
		var base http.RoundTripper
		if two {
			base = s.overHTTP2(t)
		}
		for _, length := range []int64{-1, 1 << 20} {
			body := io.MultiReader(strings.NewReader("a part"), iotest.ErrReader(own))
			request := must(http.NewRequest("POST", s.URL+"/", body))
			request.ContentLength = length
			_, err := s.transport(t, func(c *Config) { c.Base = base }).RoundTrip(request)
			var unreachable *ConnectionError
			if err == nil || errors.As(err, &unreachable) || length < 0 && !errors.Is(err, own) {
				t.Error(length, err)
			}
		}
	})
}
