package sealway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// capture is a base transport that keeps what was sent.
type capture struct {
	base http.RoundTripper
	mu   sync.Mutex
	head http.Header
	body []byte
	url  string
	verb string
}

func (c *capture) RoundTrip(r *http.Request) (*http.Response, error) {
	body := []byte{}
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	c.mu.Lock()
	c.head, c.body, c.url, c.verb = r.Header.Clone(), body, r.URL.String(), r.Method
	c.mu.Unlock()
	again := r.Clone(r.Context())
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return c.base.RoundTrip(again)
}

// send sends what was captured, changed.
func (c *capture) send(t *testing.T, change func(r *http.Request, body *[]byte)) (status int, code string) {
	t.Helper()
	body := bytes.Clone(c.body)
	request, err := http.NewRequest(c.verb, c.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = c.head.Clone()
	if change != nil {
		change(request, &body)
	}
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, _ := io.ReadAll(response.Body)
	var told struct{ Error, Code, Type string }
	json.Unmarshal(data, &told)
	for _, secret := range secrets {
		if bytes.Contains(data, []byte(secret)) {
			t.Fatalf("a secret in the refusal: %s", data)
		}
	}
	if told.Code != "" {
		if told.Type != "urn:sealway:problem:"+told.Code || response.Header.Get("Content-Type") != "application/problem+json" {
			t.Fatalf("no problem: %s", data)
		}
		return response.StatusCode, told.Code
	}
	return response.StatusCode, told.Error
}

func TestAHostileClientsRequestsAreRefusedAsEachWireSays(t *testing.T) {
	s := newService(t, http.HandlerFunc(secretAnswer))
	type change = func(r *http.Request, body *[]byte)
	header := func(name string, values ...string) change {
		return func(r *http.Request, _ *[]byte) { r.Header[http.CanonicalHeaderKey(name)] = values }
	}
	flip := func(_ *http.Request, body *[]byte) { (*body)[len(*body)-1] ^= 1 }
	for _, version := range []wire.Version{1, 2, 3} {
		caught := &capture{base: http.DefaultTransport}
		transport := s.transport(t, func(c *Config) { c.Wire, c.Base = version, caught })
		if _, _, err := do(t, transport, "POST", s.URL+"/buy?x=1", "SECRET-REQUEST"); err != nil {
			t.Fatal(err)
		}
		served := s.served.Load()
		kid := caught.head.Get("X-Kid")
		fresh := fmt.Sprintf("%d.%s", time.Now().UnixMilli(), wire.NonceText(random16(), false))
		type refusal struct {
			name   string
			change change
			old    string
			three  string
		}
		for _, c := range []refusal{
			{"replayed", nil, "400 CRYPTO_ERROR", "409 replayed"},
			{"no kid", header("X-Kid"), "400 CRYPTO_ERROR", "400 unsealable"},
			{"two kids", header("X-Kid", kid, kid), "400 CRYPTO_ERROR", "400 unsealable"},
			{"another session", header("X-Kid", "session:S-"+strings.Repeat("0", 32)), "401 SESSION_EXPIRED", "401 session_expired"},
			{"no session at all", header("X-Kid", "session:x"), "401 SESSION_EXPIRED", "401 session_expired"},
			{"a kid without prefix", header("X-Kid", kid[8:]), "400 CRYPTO_ERROR", "400 unsealable"},
			{"10 MiB", func(_ *http.Request, body *[]byte) { *body = make([]byte, 10<<20) }, "413 PAYLOAD_TOO_LARGE", "413 too_large"},
			{"no body", func(_ *http.Request, body *[]byte) { *body = nil }, "400 CRYPTO_ERROR", "400 unsealable"},
		} {
			want := c.old
			if version == 3 {
				want = c.three
			}
			if status, code := caught.send(t, c.change); fmt.Sprint(status, " ", code) != want {
				t.Errorf("wire %d, %s: %d %s, and not %s", version, c.name, status, code, want)
			}
		}
		if version > 1 {
			code := map[wire.Version]string{2: "400 CRYPTO_ERROR", 3: "400 unsealable"}[version]
			for name, change := range map[string]change{
				"another stamp and nonce": header("X-Idempotency-Key", fresh),
				"a flipped bit under a new nonce": func(r *http.Request, body *[]byte) {
					r.Header.Set("X-Idempotency-Key", fresh)
					flip(r, body)
				},
				"an answer's nonce": header("X-Idempotency-Key", fmt.Sprintf("%d.r-0123456789abcdef", time.Now().UnixMilli())),
			} {
				if status, told := caught.send(t, change); fmt.Sprint(status, " ", told) != code {
					t.Errorf("wire %d, %s: %d %s", version, name, status, told)
				}
			}
		}
		if version == 3 {
			for name, c := range map[string]struct {
				change change
				want   string
			}{
				"a stale stamp":   {header("X-Idempotency-Key", "1.0123456789abcdef0123456789abcdef"), "400 clock_skew"},
				"another method":  {func(r *http.Request, _ *[]byte) { r.Method = "PUT" }, "400 unsealable"},
				"another target":  {func(r *http.Request, _ *[]byte) { r.URL.RawQuery = "x=2" }, "400 unsealable"},
				"another type":    {header("Content-Type", "text/plain"), "400 unsealable"},
				"X-Seal 4":        {header("X-Seal", "4"), "400 unsealable"},
				"a body and more": {header("X-Sealed", "AAAA"), "400 unsealable"},
				"a cut body":      {func(_ *http.Request, body *[]byte) { *body = (*body)[:len(*body)-1] }, "400 unsealable"},
				"a byte behind":   {func(_ *http.Request, body *[]byte) { *body = append(*body, 0) }, "400 unsealable"},
				"without X-Seal":  {header("X-Seal"), "400 CRYPTO_ERROR"},
			} {
				if status, told := caught.send(t, c.change); fmt.Sprint(status, " ", told) != c.want {
					t.Errorf("%s: %d %s, and not %s", name, status, told, c.want)
				}
			}
		}
		if s.served.Load() != served {
			t.Fatalf("wire %d: the handler saw a refused request", version)
		}
	}
	if status, code := (&capture{verb: "GET", url: s.URL + "/", head: http.Header{}}).send(t, nil); status != 405 || code != "METHOD_NOT_ALLOWED" {
		t.Fatal(status, code)
	}
}

func TestOfEqualRequestsAtOneMomentExactlyOneIsServed(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	caught := &capture{base: roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("kept") })}
	transport := s.transport(t, nil)
	transport.Session(t.Context())
	transport.config.Base = caught
	do(t, transport, "POST", s.URL+"/", "pay")
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			request, _ := http.NewRequest(caught.verb, caught.url, bytes.NewReader(caught.body))
			request.Header = caught.head.Clone()
			if response, err := http.DefaultClient.Do(request); err == nil {
				response.Body.Close()
			}
		})
	}
	group.Wait()
	if s.served.Load() != 1 {
		t.Fatal(s.served.Load())
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestNobodyOutsideCanSayWhoAClientIs(t *testing.T) {
	var seen http.Header
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen = r.Header.Clone() }), Route{Path: "/open", Mode: Optional}, Route{Path: "/off", Mode: Off})
	forge := func(r *http.Request) {
		for _, name := range []string{"X-Sealway-Subject", "X_sealway_subject", "X-Sealway-Tenant", "X-Forwarded-For", "Cookie", "X-Other"} {
			r.Header[name] = []string{"forged"}
		}
	}
	for _, path := range []string{"/open/../x", "//open", "/off/.", "/x/..%2foff", "/x/%2e%2e/off"} {
		request, _ := http.NewRequest("GET", s.URL+path, nil)
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		if response, err := client.Do(request); err != nil || response.StatusCode < 300 || s.served.Load() != 0 {
			t.Fatal(path, err)
		}
	}
	for _, path := range []string{"/open", "/off"} {
		request, _ := http.NewRequest("GET", s.URL+path, nil)
		forge(request)
		if response, err := http.DefaultClient.Do(request); err != nil || response.StatusCode != 200 {
			t.Fatal(path, err)
		}
		for name := range seen {
			if session.IsClaimed(name) {
				t.Fatal(path, name)
			}
		}
	}
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		forge(r)
		return http.DefaultTransport.RoundTrip(r)
	})
	for _, version := range []wire.Version{2, 3} {
		transport := s.transport(t, func(c *Config) { c.Base, c.Wire, c.ClientID = base, version, "50% me" })
		if _, _, err := do(t, transport, "POST", s.URL+"/sealed", "x"); err != nil {
			t.Fatal(err)
		}
		if seen.Get("X-Sealway-Client-Id") != "50%25 me" || seen.Get("X-Sealway-Auth") != "none" || seen.Get("X-Sealway-Subject") != "" || seen["X_sealway_subject"] != nil ||
			seen.Get("X-Forwarded-For") != "" || seen.Get("X-Kid") != "" || version == 3 && (seen.Get("Cookie") != "" || seen.Get("X-Other") != "") {
			t.Fatalf("wire %d: %v", version, seen)
		}
	}
	anonymous := s.transport(t, func(c *Config) { c.Wire, c.InitPath = 1, "/session/init/anon" })
	var refused *ProblemError
	if _, _, err := do(t, anonymous, "POST", s.URL+"/sealed", "x"); !errors.As(err, &refused) || refused.Code != "SESSION_FORBIDDEN" {
		t.Fatal(err)
	}
}

func TestAnEscapedSlashOpensNoSealedRoute(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/open/", func(w http.ResponseWriter, r *http.Request) {})
	mux.HandleFunc("/{order}", func(w http.ResponseWriter, r *http.Request) { t.Error("served in plain: ", r.URL.EscapedPath()) })
	middleware := must(NewMiddleware(MiddlewareConfig{Store: NewMemoryStore(1), Routes: []Route{{Path: "/open/", Mode: Off}}}))
	for path, status := range map[string]int{"/open/x": 200, "/open%2Fx": 405, "/open%2fx": 405} {
		recorder := httptest.NewRecorder()
		middleware.Handler(mux).ServeHTTP(recorder, httptest.NewRequest("GET", path, nil))
		if recorder.Code != status {
			t.Fatal(path, recorder.Code)
		}
	}
}

func TestARefusalKeepsWhatLetsAPageReadIt(t *testing.T) {
	middleware := must(NewMiddleware(MiddlewareConfig{Store: NewMemoryStore(1)}))
	for _, seal := range []string{"3", ""} {
		recorder := httptest.NewRecorder()
		recorder.Header().Set("Access-Control-Allow-Origin", "https://page.test")
		recorder.Header().Set("X-Other", "of a handler before")
		request := httptest.NewRequest("POST", "/", nil)
		if seal != "" {
			request.Header.Set(wire.HeaderSeal, seal)
		}
		middleware.Handler(http.NotFoundHandler()).ServeHTTP(recorder, request)
		if recorder.Code != 400 || recorder.Header().Get("Access-Control-Allow-Origin") == "" || recorder.Header().Get("X-Other") != "" {
			t.Fatal(recorder.Code, recorder.Header())
		}
	}
}

func TestASlowBodyIsGivenUpAndABrokenStreamIsNeverAWholeBody(t *testing.T) {
	results := make(chan error, 10)
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		results <- err
	}))
	s.middleware.config.BodyTimeout = 300 * time.Millisecond
	transport := s.transport(t, nil)
	transport.Session(t.Context())
	agreed, _ := transport.native.peek()
	line := session.Line{Method: "POST", Target: "/"}
	dial := func() (net.Conn, []byte) {
		headers, sealer, _, _ := agreed.session.Seal(line, "application/octet-stream", agreed.stampMs(), random16())
		stream, _ := sealer.Seal(nil, false, []byte{0, 0}, []byte("part"))
		stream, _ = sealer.Seal(stream, true, []byte("the rest"))
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n", len(stream))
		for _, pair := range headers {
			fmt.Fprintf(conn, "%s: %s\r\n", pair.Name, pair.Value)
		}
		io.WriteString(conn, "\r\n")
		return conn, stream
	}
	for _, spoil := range []func(conn net.Conn, stream []byte){
		func(conn net.Conn, stream []byte) { conn.Write(stream[:len(stream)-5]) }, // and then nothing
		func(conn net.Conn, stream []byte) {
			stream[len(stream)-1] ^= 1
			conn.Write(stream)
		},
	} {
		conn, stream := dial()
		spoil(conn, stream)
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		answer, err := io.ReadAll(io.LimitReader(conn, 12))
		if err != nil || string(answer) != "HTTP/1.1 400" {
			t.Fatalf("%q %v", answer, err)
		}
		if err := <-results; !errors.Is(err, wire.CodeStreamTruncated) && !errors.Is(err, wire.CodeUnsealable) {
			t.Fatal("the handler saw a whole body: ", err)
		}
	}
	// A byte now and then does not make a frame's time longer.
	drip, dripped := dial()
	go func() {
		for _, b := range dripped[:60] {
			if _, err := drip.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	start := time.Now()
	drip.SetReadDeadline(start.Add(5 * time.Second))
	if answer, _ := io.ReadAll(io.LimitReader(drip, 12)); string(answer) != "HTTP/1.1 400" || time.Since(start) > 4*time.Second || len(results) != 0 {
		t.Fatalf("%q after %v", answer, time.Since(start))
	}
	// Nor is a body of the old wires waited for.
	caught := &capture{base: http.DefaultTransport}
	old := s.transport(t, func(c *Config) { c.Wire, c.Base = 2, caught })
	if _, _, err := do(t, old, "POST", s.URL+"/", "x"); err != nil {
		t.Fatal(err)
	}
	<-results
	half := must(net.Dial("tcp", strings.TrimPrefix(s.URL, "http://")))
	defer half.Close()
	fmt.Fprintf(half, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nX-Kid: %s\r\nX-ClientId: %s\r\nX-Idempotency-Key: %d.%s\r\n\r\npart",
		caught.head.Get("X-Kid"), caught.head.Get("X-ClientId"), time.Now().UnixMilli(), wire.NonceText(random16(), false))
	half.SetReadDeadline(time.Now().Add(5 * time.Second))
	if answer, err := io.ReadAll(io.LimitReader(half, 12)); string(answer) != "HTTP/1.1 400" || len(results) != 0 {
		t.Fatalf("%q %v", answer, err)
	}
	// Before the first frame is there, the handler hears of nothing.
	conn, stream := dial()
	conn.Write(stream[:10])
	conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	if answer, _ := io.ReadAll(io.LimitReader(conn, 12)); string(answer) != "HTTP/1.1 400" || len(results) != 0 {
		t.Fatalf("%q", answer)
	}
}

func TestTheHandlersStatusBecomesTheStatusOfTheCompatWires(t *testing.T) {
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var status int
		fmt.Sscanf(r.URL.Path, "/%d", &status)
		w.WriteHeader(status)
		io.WriteString(w, "body")
	}))
	transport := s.transport(t, func(c *Config) { c.Wire = 2 })
	for from, to := range map[int]int{201: 200, 299: 200, 404: 404, 500: 500} {
		response, body, err := do(t, transport, "POST", fmt.Sprintf("%s/%d", s.URL, from), "x")
		if err != nil || response.StatusCode != to || body != "body" {
			t.Fatal(from, err)
		}
	}
	for from, told := range map[int]string{400: "400 CRYPTO_ERROR", 422: "400 CRYPTO_ERROR", 304: "502 SERVICE_UNAVAILABLE"} {
		var refused *ProblemError
		if _, _, err := do(t, transport, "POST", fmt.Sprintf("%s/%d", s.URL, from), "x"); !errors.As(err, &refused) || fmt.Sprint(refused.Status, " ", refused.Code) != told {
			t.Fatal(from, err)
		}
	}
}

func TestAClaimIsAskedForOnceAndAnAuthorityThatIsAwayMeans503(t *testing.T) {
	record := &session.Record{ID: "S-" + strings.Repeat("a", 32), Wire: 2, ClientID: "c", ExpiresMs: nowMs() + 1e6}
	rand.Read(record.Key[:])
	asked, mode := map[string]int{}, "honest"
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked[r.Method]++
		body, _ := io.ReadAll(r.Body)
		var claim struct{ Key string }
		json.Unmarshal(body, &claim)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case mode == "away":
			panic(http.ErrAbortHandler)
		case mode == "html":
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(404)
		case mode == "other id":
			w.WriteHeader(404)
			io.WriteString(w, `{"error":"SESSION_NOT_FOUND","id":"S-`+strings.Repeat("b", 32)+`"}`)
		case mode == "long":
			w.Write(make([]byte, 70<<10))
		case mode == "redirect":
			http.Redirect(w, r, "/elsewhere", 307)
		case r.Method == "GET":
			w.Write(record.Encode())
		case mode == "replayed":
			w.WriteHeader(409)
			fmt.Fprintf(w, `{"error":"REPLAYED","key":%q}`, claim.Key)
		case mode == "full":
			w.WriteHeader(507)
			io.WriteString(w, `{"error":"NONCES_FULL"}`)
		default:
			w.WriteHeader(201)
			fmt.Fprintf(w, `{"key":%q}`, claim.Key)
		}
	}))
	defer server.Close()
	authority := must(NewAuthorityStore(server.URL, "0123456789abcdef", nil))
	claim := session.Claim{Key: [16]byte{1}, Sealed: true, StampMs: nowMs()}
	count := func(method string) int {
		mu.Lock()
		defer mu.Unlock()
		return asked[method]
	}
	reserve := func(how string) error {
		mu.Lock()
		mode = how
		mu.Unlock()
		_, err := authority.Reserve(context.Background(), claim)
		return err
	}
	if err := reserve("honest"); err != nil {
		t.Fatal(err)
	}
	for how, want := range map[string]error{"replayed": wire.CodeReplayed, "full": ErrStoreFull, "away": ErrStoreUnavailable, "html": ErrStoreUnavailable, "long": ErrStoreUnavailable, "redirect": ErrStoreUnavailable} {
		before := count("POST")
		if err := reserve(how); !errors.Is(err, want) || count("POST") != before+1 {
			t.Fatalf("%s: %v, asked %d times", how, err, count("POST")-before)
		}
	}
	for _, how := range []string{"away", "html", "other id", "long"} {
		mu.Lock()
		mode = how
		mu.Unlock()
		if _, err := authority.Session(context.Background(), record.ID); !errors.Is(err, ErrStoreUnavailable) {
			t.Fatal(how, err)
		}
	}
	if err := reserve("honest"); err != nil {
		t.Fatal(err)
	}
	gets := count("GET")
	for range 5 {
		if _, err := authority.Session(context.Background(), record.ID); err != nil {
			t.Fatal(err)
		}
	}
	if count("GET") != gets+1 {
		t.Fatal("a session is used for a second without asking")
	}
	if text := fmt.Sprintf("%v %+v %#v", authority, authority, authority); strings.Contains(text, "0123456789abcdef") {
		t.Fatal(text)
	}
	for _, url := range []string{"http://authority.example", "ftp://localhost", "http://10.0.0.1"} {
		if _, err := NewAuthorityStore(url, "0123456789abcdef", nil); err == nil {
			t.Fatal(url)
		}
	}
}
