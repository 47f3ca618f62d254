package sealway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

func TestACallOnEachWireAndSuiteReachesAnOrdinaryHandler(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo), Route{Path: "/anonymous", Anonymous: true})
	for _, suite := range crypto.Suites() {
		transport := s.transport(t, func(c *Config) { c.Suites = []crypto.Suite{suite} })
		response, body, err := do(t, transport, "PUT", s.URL+"/a/b?c=%20d", `{"x":1}`)
		if err != nil {
			t.Fatal(err)
		}
		if body != `{"x":1}` || response.Header.Get("Content-Type") != "text/echo" {
			t.Fatal(body, response.Header)
		}
		if saw := response.Header.Get("X-Saw"); saw != "PUT /a/b?c=%20d yes application/json sealway-go" {
			t.Fatal(saw)
		}
		if transport.Suite() != suite || transport.KeyID() != crypto.KeyID(s.identity.PublicKey()) {
			t.Fatal(transport.Suite())
		}
	}
	for _, c := range []struct {
		wire       wire.Version
		init, path string
	}{{1, "/session/init", "/a?b=1"}, {1, "/session/init/anon", "/anonymous"}, {2, "/session/init", "/a"}, {2, "/v1/session/init", "/a"}} {
		transport := s.transport(t, func(config *Config) { config.Wire, config.InitPath = c.wire, c.init })
		response, body, err := do(t, transport, "POST", s.URL+c.path, `{"x":1}`)
		if err != nil {
			t.Fatalf("wire %d %s: %v", c.wire, c.init, err)
		}
		if body != `{"x":1}` || response.StatusCode != 200 {
			t.Fatal(body)
		}
	}
}

func TestMethodsWithoutBodiesStatusesAndEmptyAnswersGoThrough(t *testing.T) {
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Saw", r.Method)
		var status int
		fmt.Sscanf(r.URL.Path, "/%d", &status)
		w.WriteHeader(status)
		if status == 200 || status == 404 {
			io.WriteString(w, "body")
		}
	}))
	transport := s.transport(t, nil)
	for _, method := range []string{"GET", "HEAD", "DELETE", "POST", "PATCH"} {
		for _, status := range []int{200, 201, 204, 205, 404, 500, 503} {
			response, body, err := do(t, transport, method, fmt.Sprintf("%s/%d", s.URL, status), "")
			if err != nil {
				t.Fatalf("%s %d: %v", method, status, err)
			}
			want := ""
			if (status == 200 || status == 404) && method != "HEAD" {
				want = "body"
			}
			if response.StatusCode != status || response.Header.Get("X-Saw") != method || body != want {
				t.Fatalf("%s %d: %d %q %v", method, status, response.StatusCode, body, response.Header)
			}
		}
	}
}

func TestBodiesOfEveryLengthComeBackWhole(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo), Route{Path: "/", BodyMaxBytes: 8 << 20})
	transport := s.transport(t, nil)
	for _, length := range []int{1, 65_000, 65_536, 65_537, 1 << 20, 1<<20 + 1, 3_000_001} {
		body := strings.Repeat("0123456789abcdef", length/16+1)[:length]
		for _, known := range []bool{true, false} {
			var reader io.Reader = strings.NewReader(body)
			if !known {
				reader = io.MultiReader(reader)
			}
			request, _ := http.NewRequest("POST", s.URL+"/", reader)
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatalf("%d: %v", length, err)
			}
			got, err := io.ReadAll(response.Body)
			if err != nil || string(got) != body {
				t.Fatalf("%d bytes, known %v: %d came back, %v", length, known, len(got), err)
			}
		}
	}
}

func TestOneSessionIsAgreedForAllWhoWaitAndUsedByAllAtOnce(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	transport := s.transport(t, nil)
	var group sync.WaitGroup
	for n := range 40 {
		group.Go(func() {
			want := fmt.Sprint("call ", n)
			for range 5 {
				if _, body, err := do(t, transport, "POST", s.URL+"/", want); err != nil || body != want {
					t.Error(body, err)
				}
			}
		})
	}
	group.Wait()
	if s.inits.Load() != 1 || s.served.Load() != 200 {
		t.Fatalf("%d inits, %d calls", s.inits.Load(), s.served.Load())
	}
}

func TestACancelledCallerLeavesTheAgreementToTheOthers(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	transport := s.transport(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	request, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"/", nil)
	if _, err := transport.RoundTrip(request); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, _, err := do(t, transport, "GET", s.URL+"/", ""); err != nil || s.inits.Load() != 1 {
		t.Fatal(err, s.inits.Load())
	}
}

func TestTheLifeOfASessionCountsFromWhenItsInitWasSent(t *testing.T) {
	const late = 300 * time.Millisecond
	slow := roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := http.DefaultTransport.RoundTrip(r)
		time.Sleep(late)
		return response, err
	})
	s := newService(t, http.HandlerFunc(echo))
	trust := TrustPins(wire.EncodeBase64(s.identity.PublicKey()))
	for _, version := range []wire.Version{1, 2} {
		transport := s.transport(t, func(c *Config) { c.Wire, c.Base = version, slow })
		if agreed, err := transport.currentCompat(t.Context()); err != nil || agreed.span-agreed.left() < late {
			t.Error(version, agreed, err)
		}
	}
	agreed, err := s.transport(t, func(c *Config) { c.Trust, c.Base = trust, slow }).currentNative(t.Context())
	if err != nil || agreed.span-agreed.left() < late {
		t.Fatal(agreed, err)
	}
	// The server's clock stands still until its answer has arrived.
	if ahead := int64(agreed.stampMs()) - int64(nowMs()); ahead > -late.Milliseconds() {
		t.Errorf("stamps are ahead by %d ms", ahead)
	}
}

func TestASessionIsRenewedBeforeItsEndAndEndedOnDemand(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	s.ttlSec = 300
	transport := s.transport(t, nil)
	first, err := transport.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// As if most of its life were over.
	agreed, _ := transport.native.peek()
	agreed.sent = agreed.sent.Add(-280 * time.Second)
	if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); err != nil {
		t.Fatal(err)
	}
	second := first
	for range 100 {
		if second, err = transport.Session(t.Context()); err != nil {
			t.Fatal(err)
		}
		if second != first {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if second == first || s.renewals.Load() != 1 || s.inits.Load() != 1 {
		t.Fatalf("%s after %s, %d renewals, %d inits", second, first, s.renewals.Load(), s.inits.Load())
	}
	if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); err != nil {
		t.Fatal(err)
	}
	if err := transport.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Session(t.Context(), second); !errors.Is(err, wire.CodeSessionUnknown) {
		t.Fatal("the service still has it")
	}
	if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); err != nil || s.inits.Load() != 2 {
		t.Fatal(err, s.inits.Load())
	}
}

func TestAClockThatIsProvenWrongIsSetAndTheCallSentOnceMore(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	var seen []Exchange
	transport := s.transport(t, func(c *Config) { c.OnMetrics = func(e Exchange) { seen = append(seen, e) } })
	if _, err := transport.Session(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.offsetMs.Store(700_000)
	if _, body, err := do(t, transport, "POST", s.URL+"/", "x"); err != nil || body != "x" {
		t.Fatal(err)
	}
	if s.served.Load() != 1 || s.inits.Load() != 1 {
		t.Fatal("served", s.served.Load(), "inits", s.inits.Load())
	}
	if last := seen[len(seen)-1]; last.Attempt != 2 || last.Err != nil || len(last.Steps) != 2 || len(last.ServerTiming) == 0 || last.Suite == "" {
		t.Fatalf("%+v", last)
	}
}

func TestALostSessionIsMadeAnewForSafeMethodsAndForOthersOnlyWithProof(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	lose := func(transport *Transport) {
		id, err := transport.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.store.Delete(t.Context(), id)
	}
	transport := s.transport(t, nil)
	for _, method := range []string{"GET", "HEAD"} {
		lose(transport)
		if _, _, err := do(t, transport, method, s.URL+"/", ""); err != nil {
			t.Fatal(method, err)
		}
	}
	// One that is not safe was perhaps served before its session was lost.
	lose(transport)
	var problem *ProblemError
	if _, _, err := do(t, transport, "POST", s.URL+"/", "x"); !errors.As(err, &problem) || problem.Code != "session_expired" || problem.Proven {
		t.Fatal(err)
	}
	// On old wires the word of the path is all there is.
	old := s.transport(t, func(c *Config) { c.Wire = 2 })
	s.spoil.Store(nil)
	lose(old)
	if _, _, err := do(t, old, "POST", s.URL+"/", "x"); err != nil {
		t.Fatal(err)
	}
}

func TestAServiceMayAskForAnotherSuiteAndTheClientBeginsAnewOnce(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	s.suites = []crypto.Suite{crypto.P256}
	transport := s.transport(t, nil)
	if _, _, err := do(t, transport, "GET", s.URL+"/", ""); err != nil || transport.Suite() != crypto.P256 || s.inits.Load() != 2 {
		t.Fatal(err, transport.Suite(), s.inits.Load())
	}
}

func TestTrustComesFromPinsARootOrTheFirstUse(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	for _, trust := range []Trust{TrustPins(strings.Repeat("0", 32)), TrustPins(wire.EncodeBase64(newIdentity(t).PublicKey())),
		TrustRoot(wire.EncodeBase64(newIdentity(t).PublicKey()), nil)} {
		transport := s.transport(t, func(c *Config) { c.Trust = trust })
		if _, _, err := do(t, transport, "GET", s.URL+"/", ""); err == nil || !errorsAsTrust(err) && !errorsAsRetired(err) {
			t.Fatal(err)
		}
	}
	if s.served.Load() != 0 {
		t.Fatal("a request was sent to a stranger")
	}
	pinned := s.transport(t, func(c *Config) { c.Trust = TrustPins(wire.EncodeBase64(s.identity.PublicKey())) })
	if _, _, err := do(t, pinned, "GET", s.URL+"/", ""); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "known", "services")
	for range 2 {
		transport := s.transport(t, func(c *Config) { c.Trust = TrustFirstUse(NewFileTrustStore(file)) })
		if _, _, err := do(t, transport, "GET", s.URL+"/", ""); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(kept), origin(must(baseURL(s.URL, "")))+" "+crypto.KeyID(s.identity.PublicKey())+":") {
		t.Fatal(string(kept), err)
	}
	// Another key under the same origin is a stranger.
	s.identity = newIdentity(t)
	transport := s.transport(t, func(c *Config) { c.Trust = TrustFirstUse(NewFileTrustStore(file)) })
	if _, _, err := do(t, transport, "GET", s.URL+"/", ""); !errorsAsTrust(err) && !errorsAsRetired(err) {
		t.Fatal(err)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func errorsAsTrust(err error) bool {
	var trust *TrustError
	return errors.As(err, &trust)
}

func errorsAsRetired(err error) bool {
	var problem *ProblemError
	return errors.As(err, &problem) && problem.Code == "key_retired"
}

func TestWhatCannotBeSealedIsTheCallersMistakeAndIsNotSent(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	transport := s.transport(t, nil)
	usage := func(request *http.Request, err error) {
		t.Helper()
		if err == nil {
			_, err = transport.RoundTrip(request)
		}
		var mistake *UsageError
		if !errors.As(err, &mistake) {
			t.Fatal(err)
		}
	}
	usage(http.NewRequest("OPTIONS", s.URL+"/", nil))
	usage(http.NewRequest("TRACE", s.URL+"/", nil))
	usage(http.NewRequest("GET", "http://elsewhere.example/", nil))
	usage(http.NewRequest("GET", strings.Replace(s.URL, "http:", "https:", 1), nil))
	for _, name := range []string{"X-Kid", "X-Seal", "X-Sealway-Subject"} {
		request, err := http.NewRequest("GET", s.URL+"/", nil)
		request.Header.Set(name, "1")
		usage(request, err)
	}
	request, err := http.NewRequest("GET", s.URL+"/", nil)
	request.Header.Set("X-Long", strings.Repeat("x", 20_000))
	usage(request, err)
	long, _ := http.NewRequest("POST", s.URL+"/", bytes.NewReader([]byte("ab")))
	long.ContentLength = 1
	usage(long, nil)
	for _, config := range []Config{{Wire: 4}, {ClientID: "a|b"}, {InitPath: "/x"}, {Wire: 2, InitPath: "/session/init/anon"}, {Suites: []crypto.Suite{"x"}}, {AnswerMaxBytes: -1}} {
		if _, err := NewTransport(s.URL, config); err == nil {
			t.Fatalf("%+v", config)
		}
	}
	for _, url := range []string{"", "ftp://a", "http://a/b", "http://u@a", "localhost:3000"} {
		if _, err := NewTransport(url, Config{}); err == nil {
			t.Fatal(url)
		}
	}
	if s.served.Load() != 0 {
		t.Fatal("something was sent")
	}
}

func TestWhatWasBegunBeforeAnEndIsNotPutInItsPlace(t *testing.T) {
	place, begun, release := newSlot[*compatSession](time.Minute, "agreeing a session"), make(chan struct{}), make(chan struct{})
	made := &compatSession{life: life{time.Now(), time.Hour}}
	got := make(chan *compatSession)
	go func() {
		value, _ := place.get(context.Background(), nil, func(context.Context, *compatSession) (*compatSession, error) {
			close(begun)
			<-release
			return made, nil
		})
		got <- value
	}()
	<-begun
	place.forget()
	close(release)
	if <-got != made {
		t.Fatal("who waited got another")
	}
	if _, there := place.peek(); there {
		t.Fatal("a session is there after the end")
	}
}
