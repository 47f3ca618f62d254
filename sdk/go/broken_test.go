package sealway

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// stranger sends bytes of HTTP/1 to a service, as any party on the path can.
type stranger struct {
	net.Conn
	answers *bufio.Reader
}

func newStranger(t *testing.T, s *service) *stranger {
	t.Helper()
	conn := must(net.Dial("tcp", strings.TrimPrefix(s.URL, "http://")))
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(soon))
	return &stranger{conn, bufio.NewReader(conn)}
}

// head sends the head of a request but for what frames its body, and the empty line.
func (s *stranger) head(method, target string, headers wire.HeaderList) {
	fmt.Fprintf(s, "%s %s HTTP/1.1\r\nHost: x\r\n", method, target)
	for _, pair := range headers {
		fmt.Fprintf(s, "%s: %s\r\n", pair.Name, pair.Value)
	}
}

// answer reads what comes back, and gives its status and its problem's code or public error.
func (s *stranger) answer(t *testing.T) (int, string) {
	t.Helper()
	response, err := http.ReadResponse(s.answers, nil)
	if err != nil {
		t.Fatal("no answer: ", err)
	}
	var told struct{ Error, Code string }
	json.NewDecoder(response.Body).Decode(&told)
	response.Body.Close()
	return response.StatusCode, told.Error + told.Code
}

// frames seals a request of wire 3 to /pay in so many frames.
func frames(t *testing.T, client *Transport, parts ...string) (wire.HeaderList, [][]byte) {
	t.Helper()
	if _, err := client.Session(t.Context()); err != nil {
		t.Fatal(err)
	}
	agreed, _ := client.native.peek()
	line, contentType := session.Line{Method: "POST", Target: "/pay"}, "application/octet-stream"
	headers, sealer, _, err := agreed.session.Seal(line, contentType, agreed.stampMs(), random16())
	if err != nil {
		t.Fatal(err)
	}
	var sealed [][]byte
	for n, part := range parts {
		plain := [][]byte{[]byte(part)}
		if n == 0 {
			plain = [][]byte{{0, 0}, []byte(part)}
		}
		sealed = append(sealed, must(sealer.Seal(nil, n == len(parts)-1, plain...)))
	}
	return append(headers, wire.Header{Name: "Content-Type", Value: contentType}), sealed
}

// TestAHandlerHasTheLastFrameOnlyWhenTheBodyHasEnded has a handler that knows by itself where what it reads ends.
func TestAHandlerHasTheLastFrameOnlyWhenTheBodyHasEnded(t *testing.T) {
	results := make(chan error, 1)
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var order struct{ Amount int }
		results <- json.NewDecoder(r.Body).Decode(&order)
	}))
	client := s.transport(t, nil)
	for name, behind := range map[string]string{"nothing": "0\r\n\r\n", "a byte": "1\r\nx\r\n0\r\n\r\n", "no end": "", "no chunk": "x"} {
		headers, sealed := frames(t, client, `{"amount":`, `5000}`)
		conn := newStranger(t, s)
		conn.head("POST", "/pay", headers)
		fmt.Fprintf(conn, "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x\r\n%s\r\n%s", len(sealed[0]), sealed[0], len(sealed[1]), sealed[1], behind)
		conn.Conn.(*net.TCPConn).CloseWrite()
		err := within(t, "the handler reads", results)
		if name == "nothing" {
			if status, _ := conn.answer(t); err != nil || status != 200 {
				t.Error(status, err)
			}
			continue
		}
		if !errors.Is(err, wire.CodeFrameInvalid) && !errors.Is(err, wire.CodeStreamTruncated) {
			t.Errorf("%s behind the last frame: the handler saw a whole body: %v", name, err)
		}
		if name == "a byte" {
			if status, code := conn.answer(t); status != 400 || code != "unsealable" {
				t.Error(status, code)
			}
		}
	}
}

func TestARejectionIsSentBeforeTheRestOfTheBodyArrives(t *testing.T) {
	s := newService(t, http.HandlerFunc(secretAnswer), Route{Path: "/pay"}, Route{Path: "/", Mode: Off})
	s.middleware.config.BodyTimeout = 300 * time.Millisecond
	headers, sealed := frames(t, s.transport(t, nil), "one", "two")
	for _, c := range []struct {
		what, method, target, told string
		headers                    wire.HeaderList
		body                       []byte
	}{
		{"served", "POST", "/pay", "200 ", headers, append(sealed[0], sealed[1]...)},
		{"replayed", "POST", "/pay", "409 replayed", headers, sealed[0]},
		{"disguised", "POST", "/PAY", "400 CRYPTO_ERROR", nil, []byte("x")},
		{"preflight", "OPTIONS", "/pay", "204 ", nil, []byte("x")},
	} {
		conn := newStranger(t, s)
		conn.head(c.method, c.target, c.headers)
		fmt.Fprintf(conn, "Content-Length: %d\r\n\r\n%s", len(sealed[0])+len(sealed[1]), c.body)
		if status, code := conn.answer(t); fmt.Sprint(status, " ", code) != c.told {
			t.Errorf("%s: %d %s", c.what, status, code)
		}
	}
}

func TestAStreamInAHeaderHasNoBodyNotEvenOneThatBreaks(t *testing.T) {
	s := newService(t, http.HandlerFunc(secretAnswer))
	s.middleware.config.BodyTimeout = 300 * time.Millisecond
	caught := &capture{base: http.DefaultTransport}
	client := s.transport(t, func(c *Config) { c.Base = caught })
	for body, want := range map[string]string{"0\r\n\r\n": "200 ", "1\r\nx\r\n0\r\n\r\n": "400 unsealable", "": "400 unsealable", "x\r\n": "400 unsealable"} {
		if _, _, err := do(t, client, "GET", s.URL+"/", ""); err != nil {
			t.Fatal(err)
		}
		agreed, _ := client.native.peek()
		headers, sealer, _, _ := agreed.session.Seal(session.Line{Method: "GET", Target: "/"}, "", agreed.stampMs(), random16())
		stream := must(sealer.Seal(nil, true, []byte{0, 0}))
		conn := newStranger(t, s)
		conn.head("GET", "/", append(headers, wire.Header{Name: "X-Sealed", Value: wire.EncodeBase64(stream)}))
		io.WriteString(conn, "Transfer-Encoding: chunked\r\n\r\n"+body)
		if status, code := conn.answer(t); fmt.Sprint(status, " ", code) != want {
			t.Errorf("%q: %d %s, and not %s", body, status, code, want)
		}
	}
}

func TestAStreamInAHeaderIsOneFrameOrIsRefusedBeforeItsClaim(t *testing.T) {
	s := newService(t, http.HandlerFunc(secretAnswer))
	client := s.transport(t, nil)
	if _, _, err := do(t, client, "GET", s.URL+"/", ""); err != nil {
		t.Fatal(err)
	}
	served := s.served.Load()
	for _, more := range []bool{false, true} {
		agreed, _ := client.native.peek()
		headers, sealer, _, _ := agreed.session.Seal(session.Line{Method: "GET", Target: "/"}, "", agreed.stampMs(), random16())
		stream := must(sealer.Seal(nil, false, []byte{0, 0}))
		if more {
			stream = must(sealer.Seal(stream, true, []byte("x")))
		}
		// A claimed one would be a replay the second time.
		for range 2 {
			conn := newStranger(t, s)
			conn.head("GET", "/", append(headers, wire.Header{Name: "X-Sealed", Value: wire.EncodeBase64(stream)}))
			io.WriteString(conn, "\r\n")
			if status, code := conn.answer(t); status != 400 || code != "unsealable" {
				t.Errorf("%d bytes: %d %s", len(stream), status, code)
			}
		}
	}
	if s.served.Load() != served {
		t.Error("the handler saw a refused request")
	}
}

func TestARequestWhoseSessionEndsBeforeItsAnswerGetsSessionExpired(t *testing.T) {
	eachHTTP(t, endsBeforeItsAnswer)
}

func endsBeforeItsAnswer(t *testing.T, two bool) {
	begun := make(chan struct{}, 1)
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-r.Context().Done()
		// Too late: nothing was sent when the session ended.
		io.WriteString(w, "SECRET-ANSWER")
	}))
	client := s.transport(t, func(c *Config) {
		if two {
			c.Base = s.overHTTP2(t)
		}
	})
	id, err := client.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, _, err := do(t, client, "POST", s.URL+"/", "pay")
		result <- err
	}()
	within(t, "the handler begins", begun)
	s.store.Delete(t.Context(), id)
	var problem *ProblemError
	if err := within(t, "an answer", result); !errors.As(err, &problem) || problem.Code != "session_expired" || problem.Status != 401 {
		t.Fatal(err)
	}
}
