package sealway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sealway.dev/go/internal/recent"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// late is a request whose head has arrived and whose body is held back.
type late struct {
	conn net.Conn
	body []byte
}

// sendHead sends the head of a request over a connection of its own.
func sendHead(t *testing.T, s *service, target, contentType string, headers wire.HeaderList, body []byte) *late {
	t.Helper()
	return sendHeadFrom(t, "127.0.0.1", s, target, contentType, headers, body)
}

// sendHeadFrom is sendHead from one of this machine's addresses.
func sendHeadFrom(t *testing.T, address string, s *service, target, contentType string, headers wire.HeaderList, body []byte) *late {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := dialer.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n", target, contentType, len(body))
	for _, pair := range headers {
		fmt.Fprintf(conn, "%s: %s\r\n", pair.Name, pair.Value)
	}
	io.WriteString(conn, "\r\n")
	return &late{conn, body}
}

// finish sends the body, and gives the status of the answer and what it says.
func (l *late) finish(t *testing.T) (int, string) {
	t.Helper()
	l.conn.Write(l.body)
	response, err := http.ReadResponse(bufio.NewReader(l.conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

// lateService counts the checks of sessions, so that a test knows when a head has passed them.
type lateService struct {
	*service
	found chan struct{}
}

func newLateService(t *testing.T) *lateService {
	s := &lateService{newService(t, http.HandlerFunc(echo)), make(chan struct{}, 100)}
	s.middleware.config.BodyTimeout = 20 * time.Second
	s.middleware.config.Store = &tellingStore{SessionStore: s.store, found: s.found}
	return s
}

// tellingStore says when a session was looked up.
type tellingStore struct {
	SessionStore
	found chan struct{}
}

func (s *tellingStore) Session(ctx context.Context, id string) (*session.Session, error) {
	defer func() { s.found <- struct{}{} }()
	return s.SessionStore.Session(ctx, id)
}

// heads are the same sealed request twice, over connections of their own, of each wire.
func (s *lateService) heads(t *testing.T, version wire.Version) (first, second *late, id string) {
	t.Helper()
	transport := s.transport(t, func(c *Config) { c.Wire = version })
	id, err := transport.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var headers wire.HeaderList
	var body []byte
	contentType := "application/octet-stream"
	if version == wire.Wire3 {
		agreed, _ := transport.native.peek()
		var sealer *session.FrameSealer
		headers, sealer, _, _ = agreed.session.Seal(session.Line{Method: "POST", Target: "/pay"}, contentType, agreed.stampMs(), random16())
		body, _ = sealer.Seal(nil, true, []byte{0, 0}, []byte("pay"))
	} else {
		agreed, _ := transport.compat.peek()
		message, _ := agreed.session.Seal("/pay", []byte("pay"), s.nowMs(), session.SealRandoms{Nonce: random16()})
		headers, body, contentType = message.Headers, message.Body, message.ContentType
	}
	first = sendHead(t, s.service, "/pay", contentType, headers, body)
	<-s.found
	second = sendHead(t, s.service, "/pay", contentType, headers, body)
	<-s.found
	return first, second, id
}

var wires = []wire.Version{wire.Wire1, wire.Wire2, wire.Wire3}

func TestARequestWhoseBodyIsHeldBackUntilItsClaimIsForgottenIsNotServedAgain(t *testing.T) {
	for _, version := range wires {
		s := newLateService(t)
		first, second, _ := s.heads(t, version)
		if status, body := first.finish(t); status != 200 || s.served.Load() != 1 {
			t.Fatal(status, body)
		}
		// The store forgets the claim; the session lives on.
		s.offsetMs.Store(11 * 60_000)
		status, body := second.finish(t)
		want := map[wire.Version]string{wire.Wire1: "CRYPTO_ERROR", wire.Wire2: "CRYPTO_ERROR", wire.Wire3: "clock_skew"}[version]
		if status != 400 || !strings.Contains(body, want) || s.served.Load() != 1 {
			t.Errorf("wire %d: %d %q, served %d times", version, status, body, s.served.Load())
		}
	}
}

func TestARequestWhoseSessionEndsBeforeItsBodyIsThereIsNotServed(t *testing.T) {
	for _, version := range wires {
		for _, how := range []string{"revoked", "expired"} {
			s := newLateService(t)
			first, second, id := s.heads(t, version)
			first.conn.Close()
			if how == "revoked" {
				s.store.Delete(t.Context(), id)
			} else {
				s.offsetMs.Store(31 * 60_000)
			}
			status, body := second.finish(t)
			if status != 401 || !strings.Contains(strings.ToLower(body), "session_expired") {
				// A stamp that is too old as well allows either reason.
				if how != "expired" || status != 400 || version == wire.Wire3 {
					t.Errorf("wire %d, %s: %d %q", version, how, status, body)
				}
			}
			if s.served.Load() != 0 {
				t.Errorf("wire %d, %s: served %d times", version, how, s.served.Load())
			}
		}
	}
}

func TestAMemoryStoreGrantsNoClaimThatItMayHaveForgotten(t *testing.T) {
	store, now := NewMemoryStore(10), uint64(1_000_000)
	store.now = func() uint64 { return now }
	claim := session.Claim{Key: [16]byte{1}, Sealed: true, StampMs: now, ExpiresMs: now + 2_001, KeptMs: 2_001}
	if _, err := store.Reserve(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	for _, later := range []uint64{1, 1_000, 1_001, 2_001, 20_000, 1 << 40} {
		now = 1_000_000 + later
		again := claim
		again.ExpiresMs = now + 2_001
		_, err := store.Reserve(t.Context(), again)
		if !errors.Is(err, wire.CodeReplayed) && !errors.Is(err, wire.CodeTimestampOutsideWindow) {
			t.Fatalf("after %d ms: %v", later, err)
		}
	}
}

func TestAStreamIsCutWithinASecondOfItsSessionsEnd(t *testing.T) {
	for _, how := range []string{"revoked", "expired"} {
		for _, direction := range []string{"request", "answer"} {
			ended := make(chan error, 1)
			s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if direction == "request" {
					_, err := io.Copy(io.Discard, r.Body)
					ended <- err
					return
				}
				for r.Context().Err() == nil {
					if _, err := io.WriteString(w, "tick "); err != nil {
						break
					}
					http.NewResponseController(w).Flush()
					time.Sleep(5 * time.Millisecond)
				}
				ended <- context.Cause(r.Context())
			}))
			s.middleware.config.BodyTimeout = 20 * time.Second
			transport := s.transport(t, func(c *Config) { c.IdleTimeout = 20 * time.Second })
			id, err := transport.Session(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			reader, writer := io.Pipe()
			t.Cleanup(func() { writer.Close() })
			var body io.Reader = reader
			if direction == "answer" {
				body = strings.NewReader("x")
			} else {
				go writer.Write([]byte("first part"))
			}
			failed := make(chan error, 1)
			go func() {
				request, _ := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/", body)
				response, err := transport.RoundTrip(request)
				if err == nil {
					_, err = io.Copy(io.Discard, response.Body)
					response.Body.Close()
				}
				failed <- err
			}()
			for deadline := time.Now().Add(20 * time.Second); s.served.Load() == 0; {
				if time.Now().After(deadline) {
					t.Fatal("the handler was not reached")
				}
				time.Sleep(time.Millisecond)
			}
			// For longer than one look, a session that lives is left alone.
			select {
			case err := <-ended:
				t.Fatalf("cut before its end: %v", err)
			case <-time.After(2 * lookInterval):
			}
			start := time.Now()
			if how == "revoked" {
				s.store.Delete(t.Context(), id)
			} else {
				s.offsetMs.Store(31 * 60_000)
			}
			sees := func(who string, result chan error) {
				select {
				case err := <-result:
					if err == nil {
						t.Errorf("%s, %s: the %s saw a clean end", how, direction, who)
					}
				case <-time.After(15 * time.Second):
					t.Fatalf("%s, %s: the %s goes on", how, direction, who)
				}
			}
			sees("handler", ended)
			// A busy machine adds some time.
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("%s, %s: cut after %v", how, direction, took)
			}
			// The library waits for the body of a request before it tells that its connection broke.
			writer.CloseWithError(errors.New("over"))
			sees("client", failed)
		}
	}
}

func TestAStoreAsksAnewWithinTheSecondThatAStreamMayOutliveItsSession(t *testing.T) {
	if recent.UseMax+lookInterval >= time.Second {
		t.Fatal(recent.UseMax, lookInterval)
	}
}

func TestABodyThatBreaksBehindItsLastFrameBurnsNoNonce(t *testing.T) {
	s := newLateService(t)
	first, second, _ := s.heads(t, wire.Wire3)
	first.conn.Close()
	if status, body := second.finish(t); status != 200 {
		t.Fatal(status, body)
	}
}
