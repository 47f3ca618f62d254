package sealway

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sealway.dev/go/mle"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// mleKeys are the two sides of one key pair, by a name of it.
type mleKeys struct {
	opens *mle.OpeningKey
	seals *mle.SealingKey
}

// drawMLEKeys draws the pairs of a server, its successor, and a client.
var drawMLEKeys = sync.OnceValue(func() map[string]mleKeys {
	keys := map[string]mleKeys{}
	for _, kid := range []string{"server", "next", "client"} {
		private := must(rsa.GenerateKey(rand.Reader, 2048))
		options := mle.KeyOptions{Kid: kid}
		keys[kid] = mleKeys{must(mle.NewOpeningKey(x509.MarshalPKCS1PrivateKey(private), options)),
			must(mle.NewSealingKey(must(x509.MarshalPKIXPublicKey(&private.PublicKey)), options))}
	}
	return keys
})

// mleService is a middleware over real HTTP, and a transport to it.
type mleService struct {
	*httptest.Server
	profile  mle.Profile
	served   atomic.Int64
	mu       sync.Mutex
	refusals []Refusal
	seen     http.Header
}

func newMLEService(t *testing.T, profile mle.Profile, change func(*MLEMiddlewareConfig), handler http.HandlerFunc) *mleService {
	t.Helper()
	s, keys := &mleService{profile: profile}, drawMLEKeys()
	config := MLEMiddlewareConfig{Profile: profile, Open: must(mle.NewOpeningKeys(keys["server"].opens, keys["next"].opens)), Seal: SealTo(keys["client"].seals), Store: NewMemoryStore(100),
		OnRefusal: func(refusal Refusal) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refusals = append(s.refusals, refusal)
		}}
	if change != nil {
		change(&config)
	}
	middleware, err := NewMLEMiddleware(config)
	if err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewServer(middleware.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.served.Add(1)
		s.seen = r.Header.Clone()
		handler(w, r)
	})))
	t.Cleanup(s.Close)
	return s
}

func (s *mleService) transport(t *testing.T, change func(*MLETransportConfig)) *MLETransport {
	t.Helper()
	keys := drawMLEKeys()
	config := MLETransportConfig{Profile: s.profile, Seal: []*mle.SealingKey{keys["server"].seals}, Open: must(mle.NewOpeningKeys(keys["client"].opens))}
	if change != nil {
		change(&config)
	}
	transport, err := NewMLETransport(config)
	if err != nil {
		t.Fatal(err)
	}
	return transport
}

// sealed is a request's body for the service.
func (s *mleService) sealed(text string) []byte {
	return must(mle.Seal([]byte(text), s.profile, mle.Request, drawMLEKeys()["server"].seals, nowMs(), rand.Reader))
}

// post sends a body as it is.
func (s *mleService) post(t *testing.T, body []byte, headers ...string) (int, string) {
	t.Helper()
	request := must(http.NewRequest("POST", s.URL+"/payments", bytes.NewReader(body)))
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode, string(must(io.ReadAll(response.Body)))
}

func (s *mleService) lastClass() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refusals) == 0 {
		return ""
	}
	return s.refusals[len(s.refusals)-1].Class
}

// mleEcho answers a request with its own body.
func mleEcho(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Etag", "digest")
	w.Header().Set("X-Kept", "yes")
	io.Copy(w, r.Body)
}

const mleText = `{"pan":"4111111111111111","amount":12.50,"n":12345678901234567890}`

func TestAClientAndAServerOfEveryProfileExchangeOverHTTP(t *testing.T) {
	for _, profile := range []mle.Profile{mle.MastercardJWE(), mle.Visa(), mle.VisaAcceptance(), must(mle.GenericJWE(mle.Generic{})), must(mle.GenericJWE(mle.Generic{RequestMember: "q", AnswerMember: "a", Iat: mle.Seconds}))} {
		s := newMLEService(t, profile, nil, mleEcho)
		caught := &recordedBodies{}
		transport := s.transport(t, func(c *MLETransportConfig) { c.Base = caught })
		for _, text := range []string{mleText, `"\ud83d\ude00"`, strings.Repeat("x", 500_000)} {
			request := must(http.NewRequest("POST", s.URL+"/payments?a=%2f", strings.NewReader(text)))
			request.Header.Set("X-Sealway-Wire", "mle:forged")
			request.Header.Set("X-Forwarded-For", "1.2.3.4")
			request.Header.Set("Content-Md5", "digest")
			request.Header.Set("X-Idempotency-Key", "kept")
			response, err := transport.Client().Do(request)
			if err != nil {
				t.Fatalf("%s: %v", profile.Name(), err)
			}
			body := must(io.ReadAll(response.Body))
			response.Body.Close()
			if string(body) != text || response.StatusCode != 200 || response.ContentLength != int64(len(text)) || response.Header.Get("Content-Type") != "application/json" {
				t.Fatalf("%s: %d %q %v", profile.Name(), response.StatusCode, body, response.Header)
			}
			if response.Header.Get("X-Kept") != "yes" || response.Header.Get("Etag") != "" {
				t.Errorf("%v", response.Header)
			}
			if s.seen.Get("X-Sealway-Wire") != "mle:"+profile.Name() || s.seen.Get("X-Forwarded-For") != "" || s.seen.Get("Content-Md5") != "" || s.seen.Get("X-Idempotency-Key") != "kept" ||
				s.seen.Get("Accept-Encoding") != "identity" || s.seen.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %v", profile.Name(), s.seen)
			}
			for _, sent := range caught.bodies {
				if bytes.Contains(sent, []byte("4111111111111111")) || !profile.IsToken(mle.Request, http.Header{"Content-Type": {profile.MediaType(mle.Request)}}, sent) && !profile.IsToken(mle.Answer, http.Header{"Content-Type": {profile.MediaType(mle.Answer)}}, sent) {
					t.Fatalf("%s: %.80s was sent", profile.Name(), sent)
				}
			}
		}
		// A request without a body has no token, and its answer is sealed all the same.
		for _, method := range []string{"GET", "HEAD", "DELETE"} {
			response, err := transport.Client().Do(must(http.NewRequest(method, s.URL+"/x", nil)))
			if err != nil || response.StatusCode != 200 || s.seen.Get("X-Sealway-Wire") != "" {
				t.Fatalf("%s: %v %v", method, err, s.seen)
			}
			response.Body.Close()
		}
	}
}

// recordedBodies keeps the bodies on the wire.
type recordedBodies struct{ bodies [][]byte }

func (c *recordedBodies) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil && request.Body != http.NoBody {
		sent := must(io.ReadAll(request.Body))
		c.bodies = append(c.bodies, sent)
		request.Body = io.NopCloser(bytes.NewReader(sent))
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err == nil {
		got := must(io.ReadAll(response.Body))
		if len(got) > 0 {
			c.bodies = append(c.bodies, got)
		}
		response.Body = io.NopCloser(bytes.NewReader(got))
	}
	return response, err
}

func TestEveryWrongTokenHasOneAnswerAndReachesNoHandler(t *testing.T) {
	s := newMLEService(t, mle.Visa(), nil, mleEcho)
	good := s.sealed(mleText)
	var wrapper map[string]string
	if err := json.Unmarshal(good, &wrapper); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(wrapper["encData"], ".")
	of := func(change func([]string)) []byte {
		changed := append([]string(nil), parts...)
		change(changed)
		return []byte(`{"encData":"` + strings.Join(changed, ".") + `"}`)
	}
	header := func(json string) []byte { return of(func(p []string) { p[0] = base64URL(json) }) }
	for _, c := range []struct {
		body  []byte
		class string
	}{{[]byte(mleText), "json"}, {nil, "json"}, {[]byte(`{"encData":"a.b.c"}`), "shape"}, {of(func(p []string) { p[4] += "=" }), "base64"}, {header("{}"), "alg"},
		{header(`{"alg":"RSA1_5","enc":"A128GCM"}`), "alg"}, {header(`{"alg":"RSA-OAEP-256","enc":"A192GCM","kid":"server","iat":1}`), "enc"}, {header(`{"alg":"RSA-OAEP-256","enc":"A128GCM","kid":"no"}`), "kid"},
		{header(`{"alg":"RSA-OAEP-256","enc":"A128GCM","kid":"server"}`), "iat"}, {header(`{"zip":"DEF"}`), "zip"}, {header(`{"crit":[]}`), "crit"}, {header(`{"jwk":{}}`), "param"}, {header("["), "header"},
		{of(func(p []string) { p[1] = strings.Repeat("A", 342) }), "unwrap"}, {of(func(p []string) { p[2] = "AAAA" }), "iv"}, {of(func(p []string) { p[4] = strings.Repeat("A", 22) }), "tag"}} {
		status, answer := s.post(t, c.body)
		if status != 400 || answer != `{"error":"CRYPTO_ERROR"}` || s.lastClass() != c.class {
			t.Errorf("%s: %d %s, class %s", c.class, status, answer, s.lastClass())
		}
	}
	if status, answer := s.post(t, good, "keyId", "other"); status != 400 || answer != `{"error":"CRYPTO_ERROR"}` || s.lastClass() != "kid" {
		t.Errorf("keyId: %d %s %s", status, answer, s.lastClass())
	}
	if s.served.Load() != 0 {
		t.Fatal("a handler was reached")
	}
	if status, _ := s.post(t, good, "keyId", "server"); status != 200 {
		t.Fatalf("the good token: %d", status)
	}
	if status, answer := s.post(t, good); status != 400 || answer != `{"error":"CRYPTO_ERROR"}` || s.lastClass() != "replayed" || s.served.Load() != 1 {
		t.Errorf("a replay: %d %s %s", status, answer, s.lastClass())
	}
	// What is decided before the private operation may be told apart.
	for _, c := range []struct {
		body    []byte
		headers []string
		status  int
		answer  string
	}{{s.sealed(mleText), []string{"Content-Encoding", "gzip"}, 415, `{"error":"CRYPTO_ERROR"}`}, {bytes.Repeat([]byte("x"), wire.SealedBodyMax+1), nil, 413, `{"error":"PAYLOAD_TOO_LARGE"}`}} {
		if status, answer := s.post(t, c.body, c.headers...); status != c.status || answer != c.answer {
			t.Errorf("%d %s", status, answer)
		}
	}
	for _, refusal := range s.refusals {
		if refusal.Wire != 0 || strings.Contains(refusal.Err.Error(), "4111111111111111") {
			t.Error(refusal)
		}
	}
}

func base64URL(text string) string {
	return strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(wire.EncodeBase64([]byte(text)))
}

func TestATokenWithoutTimeIsAReplayToo(t *testing.T) {
	s := newMLEService(t, mle.MastercardJWE(), nil, mleEcho)
	body := s.sealed("{}")
	first, _ := s.post(t, body)
	second, _ := s.post(t, body)
	// Another spelling of it: white space, an escape, the letters of standard base64.
	third, _ := s.post(t, []byte(strings.NewReplacer("-", "+", "_", `\/`, ".", `\u002e`).Replace(string(body))+"\n"))
	if first != 200 || second != 400 || third != 400 || s.lastClass() != "replayed" {
		t.Fatal(first, second, third, s.lastClass())
	}
	allowed := newMLEService(t, mle.MastercardJWE(), func(c *MLEMiddlewareConfig) { c.Store, c.AllowReplays = nil, true }, mleEcho)
	for range 2 {
		if status, _ := allowed.post(t, body); status != 200 {
			t.Fatal(status)
		}
	}
}

func TestBothKeysOfARotationOpen(t *testing.T) {
	s, keys := newMLEService(t, mle.MastercardJWE(), nil, mleEcho), drawMLEKeys()
	for _, kid := range []string{"server", "next"} {
		transport := s.transport(t, func(c *MLETransportConfig) { c.Seal = []*mle.SealingKey{keys[kid].seals} })
		response, err := transport.Client().Post(s.URL, "application/json", strings.NewReader(mleText))
		if err != nil || string(must(io.ReadAll(response.Body))) != mleText {
			t.Fatalf("%s: %v", kid, err)
		}
	}
	transport := s.transport(t, func(c *MLETransportConfig) { c.Seal = []*mle.SealingKey{keys["client"].seals} })
	_, err := transport.Client().Post(s.URL, "application/json", strings.NewReader(mleText))
	var problem *ProblemError
	if !errors.As(err, &problem) || problem.Status != 400 || !errors.Is(err, wire.CodeUnsealed) {
		t.Fatal(err)
	}
}

// brokenStore grants nothing.
type brokenStore struct{ err error }

func (s brokenStore) Reserve(context.Context, session.Claim) (session.Fresh, error) {
	return session.Fresh{}, s.err
}

func TestAServerThatCannotServeATokenSaysSo(t *testing.T) {
	keys := drawMLEKeys()
	for name, c := range map[string]struct {
		change  func(*MLEMiddlewareConfig)
		handler http.HandlerFunc
		status  int
		answer  string
		served  int64
	}{
		"a caller without a key":   {func(c *MLEMiddlewareConfig) { c.Seal = SealTo() }, mleEcho, 403, "SESSION_FORBIDDEN", 0},
		"a store that is away":     {func(c *MLEMiddlewareConfig) { c.Store = brokenStore{ErrStoreUnavailable} }, mleEcho, 503, "SERVICE_UNAVAILABLE", 0},
		"a store that is full":     {func(c *MLEMiddlewareConfig) { c.Store = brokenStore{ErrStoreFull} }, mleEcho, 400, "CRYPTO_ERROR", 0},
		"a claim of another token": {func(c *MLEMiddlewareConfig) { c.Store = brokenStore{} }, mleEcho, 503, "SERVICE_UNAVAILABLE", 0},
		"a key of other algorithms": {func(c *MLEMiddlewareConfig) {
			c.Seal = SealTo(must(mle.NewSealingKey(publicOf(t, keys["client"]), mle.KeyOptions{Kid: "client", Alg: mle.RSAOAEP})))
		}, mleEcho, 502, "SERVICE_UNAVAILABLE", 1},
		"an answer that is too long": {func(c *MLEMiddlewareConfig) { c.AnswerMaxBytes = 10 }, mleEcho, 502, "SERVICE_UNAVAILABLE", 1},
		"an answer that is compressed": {nil, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write([]byte("x"))
		}, 502, "SERVICE_UNAVAILABLE", 1},
	} {
		s := newMLEService(t, mle.MastercardJWE(), c.change, c.handler)
		status, answer := s.post(t, s.sealed(mleText))
		if status != c.status || answer != `{"error":"`+c.answer+`"}` || s.served.Load() != c.served || strings.Contains(answer, "4111111111111111") {
			t.Errorf("%s: %d %s, served %d", name, status, answer, s.served.Load())
		}
	}
}

func TestErrorsStayInClearWhereThatIsAllowed(t *testing.T) {
	fails := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(422)
		io.WriteString(w, "wrong amount")
	}
	for _, isPlain := range []bool{false, true} {
		s := newMLEService(t, mle.Visa(), func(c *MLEMiddlewareConfig) { c.PlainErrors = isPlain }, fails)
		for _, takesPlain := range []bool{false, true} {
			transport := s.transport(t, func(c *MLETransportConfig) { c.PlainErrors = takesPlain })
			response, err := transport.Client().Post(s.URL, "application/json", strings.NewReader("{}"))
			if isPlain && !takesPlain {
				var problem *ProblemError
				if !errors.As(err, &problem) || problem.Status != 422 || !errors.Is(err, wire.CodeUnsealed) {
					t.Fatal(err)
				}
				continue
			}
			if err != nil || response.StatusCode != 422 || string(must(io.ReadAll(response.Body))) != "wrong amount" {
				t.Fatal(isPlain, takesPlain, err)
			}
		}
	}
}

func TestAClientRejectsWhatIsNoAnswerOfItsProfile(t *testing.T) {
	keys := drawMLEKeys()
	toClient := func(message mle.Message, kid string) []byte {
		return must(mle.Seal([]byte(mleText), mle.Visa(), message, must(mle.NewSealingKey(publicOf(t, keys[kid]), mle.KeyOptions{Kid: "client"})), nowMs(), rand.Reader))
	}
	var status int
	var answer []byte
	header := http.Header{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, values := range header {
			w.Header()[name] = values
		}
		w.WriteHeader(status)
		w.Write(answer)
	}))
	defer server.Close()
	s := &mleService{Server: server, profile: mle.Visa()}
	transport := s.transport(t, func(c *MLETransportConfig) { c.PlainErrors, c.AnswerMaxBytes = true, 100_000 })
	for _, c := range []struct {
		name   string
		status int
		header http.Header
		answer string
		want   error
	}{
		{"a plain answer", 200, nil, mleText, wire.CodeUnsealed},
		{"a page", 200, http.Header{"Content-Type": {"text/html"}}, "<html>", wire.CodeUnsealed},
		{"a token beside another member", 200, nil, strings.Replace(string(toClient(mle.Answer, "client")), "}", `,"pan":"4"}`, 1), wire.CodeUnsealed},
		{"a token to another key", 200, nil, string(toClient(mle.Answer, "server")), wire.CodeUnsealable},
		{"a token to another key with an error", 500, nil, string(toClient(mle.Answer, "server")), wire.CodeUnsealable},
		{"a changed token", 200, nil, strings.Replace(string(toClient(mle.Answer, "client")), `"}`, `A"}`, 1), wire.CodeUnsealable},
		{"a compressed token", 200, http.Header{"Content-Encoding": {"gzip"}}, string(toClient(mle.Answer, "client")), wire.CodeUnsealed},
		{"an answer that is too long", 200, nil, strings.Repeat("x", 100_001), wire.CodeBodyTooLarge},
		{"a redirect", 307, http.Header{"Location": {"/other"}}, "", errRedirected},
		{"the answer", 200, nil, string(toClient(mle.Answer, "client")), nil},
		{"an error in clear", 401, nil, `{"responseStatus":{}}`, nil},
		{"an empty answer", 204, nil, "", nil},
	} {
		status, header, answer = c.status, c.header, []byte(c.answer)
		response, err := transport.Client().Post(server.URL, "application/json", strings.NewReader(mleText))
		if c.want == nil && err == nil {
			response.Body.Close()
			continue
		}
		var failed *Error
		if c.want == nil || !errors.As(err, &failed) || failed.Retryable || failed.Stage != StageCall || failed.Remedy() == "" || strings.Contains(err.Error(), "4111111111111111") ||
			c.want != errRedirected && !errors.Is(err, c.want) || c.want == errRedirected && failed.Code != codeRedirected {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// Nothing is sent of a body over its bound, or to a key that is over.
	small := s.transport(t, func(c *MLETransportConfig) { c.RequestMaxBytes = 10 })
	_, err := small.Client().Post(server.URL, "application/json", strings.NewReader(mleText))
	var failed *Error
	if !errors.As(err, &failed) || failed.Stage != StageConfiguration {
		t.Error(err)
	}
}

var errRedirected = errors.New("redirected")

// publicOf is the public half of a pair: it seals to it under a name of its own.
func publicOf(t *testing.T, keys mleKeys) []byte {
	t.Helper()
	return must(x509.MarshalPKIXPublicKey(keys.seals.Public()))
}

func TestACallEndsInTime(t *testing.T) {
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-gone }))
	defer server.Close()
	defer close(gone)
	s := &mleService{Server: server, profile: mle.MastercardJWE()}
	transport := s.transport(t, func(c *MLETransportConfig) { c.TotalTimeout = 50 * time.Millisecond })
	_, err := transport.Client().Post(server.URL, "application/json", strings.NewReader("{}"))
	var late *TimeoutError
	if !errors.As(err, &late) || late.Option != "MLETransportConfig.TotalTimeout" {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	mine := errors.New("mine")
	time.AfterFunc(10*time.Millisecond, func() { cancel(mine) })
	patient := s.transport(t, nil)
	if _, err := patient.Client().Do(must(http.NewRequestWithContext(ctx, "POST", server.URL, strings.NewReader("{}")))); !errors.Is(err, mine) && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// A body is bounded as it arrives, in time and in room.
func TestABodyThatDoesNotArriveHoldsNothing(t *testing.T) {
	s := newMLEService(t, mle.MastercardJWE(), func(c *MLEMiddlewareConfig) { c.BodyTimeout = 100 * time.Millisecond }, mleEcho)
	connection, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	fmt.Fprintf(connection, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
	answer := make([]byte, 12)
	connection.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.ReadFull(connection, answer); err != nil || string(answer) != "HTTP/1.1 400" || s.served.Load() != 0 {
		t.Fatalf("%v %s", err, answer)
	}
}

func TestAnMLEOptionThatIsMissingOrOutOfBoundsIsNamed(t *testing.T) {
	keys := drawMLEKeys()
	open := must(mle.NewOpeningKeys(keys["client"].opens))
	middleware := func(change func(*MLEMiddlewareConfig)) error {
		config := MLEMiddlewareConfig{Profile: mle.Visa(), Open: open, Seal: SealTo(keys["client"].seals), Store: NewMemoryStore(1)}
		change(&config)
		_, err := NewMLEMiddleware(config)
		return err
	}
	transport := func(change func(*MLETransportConfig)) error {
		config := MLETransportConfig{Profile: mle.Visa(), Open: open, Seal: []*mle.SealingKey{keys["client"].seals}}
		change(&config)
		_, err := NewMLETransport(config)
		return err
	}
	for name, err := range map[string]error{
		"MLEMiddlewareConfig.Profile":          middleware(func(c *MLEMiddlewareConfig) { c.Profile = mle.Profile{} }),
		"MLEMiddlewareConfig.Open":             middleware(func(c *MLEMiddlewareConfig) { c.Open = nil }),
		"MLEMiddlewareConfig.Seal":             middleware(func(c *MLEMiddlewareConfig) { c.Seal = nil }),
		"MLEMiddlewareConfig.Store":            middleware(func(c *MLEMiddlewareConfig) { c.Store = nil }),
		"MLEMiddlewareConfig.Window":           middleware(func(c *MLEMiddlewareConfig) { c.Window = 1 << 60 }),
		"MLEMiddlewareConfig.StoreTimeout":     middleware(func(c *MLEMiddlewareConfig) { c.OpeningsMax = -1 }),
		"MLEMiddlewareConfig.BufferedMaxBytes": middleware(func(c *MLEMiddlewareConfig) { c.BufferedMaxBytes = 5 }),
		"MLETransportConfig.Profile":           transport(func(c *MLETransportConfig) { c.Profile = mle.Profile{} }),
		"MLETransportConfig.Open":              transport(func(c *MLETransportConfig) { c.Open = nil }),
		"MLETransportConfig.Seal":              transport(func(c *MLETransportConfig) { c.Seal = nil }),
		"MLETransportConfig.Window":            transport(func(c *MLETransportConfig) { c.Window = -1 }),
		"MLETransportConfig.RequestMaxBytes":   transport(func(c *MLETransportConfig) { c.AnswerMaxBytes = -1 }),
	} {
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
