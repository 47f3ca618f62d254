package redisstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	sealway "sealway.dev/go"
	"sealway.dev/go/redisstore"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

const (
	kek1 = "kek-1 AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=\n"
	kek2 = "kek-2 ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n"
)

// capture is a base transport that keeps what was sent last.
type capture struct {
	mu      sync.Mutex
	request *http.Request
	body    []byte
	hold    bool // keep it, and do not send it
}

func (c *capture) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Kid") == "" {
		return http.DefaultTransport.RoundTrip(r)
	}
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	c.request, c.body = r.Clone(context.Background()), body
	hold := c.hold
	c.mu.Unlock()
	if hold {
		return nil, errors.New("held back")
	}
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	return http.DefaultTransport.RoundTrip(again)
}

// replay sends what was kept to a service, byte for byte, and gives the status and code of what it says.
func (c *capture) replay(t *testing.T, base string) (int, string) {
	t.Helper()
	request := must(http.NewRequest(c.request.Method, base+c.request.URL.RequestURI(), bytes.NewReader(c.body)))
	request.Header = c.request.Header.Clone()
	response, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var told struct{ Code, Error string }
	json.NewDecoder(response.Body).Decode(&told)
	return response.StatusCode, told.Code + told.Error
}

// world is Redis, a gateway over it, and a middleware over it in this process.
type world struct {
	redis   *server
	gateway *gateway
	store   *redisstore.Store
	service *httptest.Server
	served  atomic.Int32
	admin   *redis.Client
}

func newWorld(t *testing.T, change func(*redisstore.Options)) *world {
	w := &world{redis: startRedis(t)}
	w.gateway = startGateway(t, w.redis.gatewayURL(), kek1)
	w.admin = redis.NewClient(must(redis.ParseURL(w.redis.gatewayURL())))
	t.Cleanup(func() { w.admin.Close() })
	w.store, w.service = w.side(t, change)
	return w
}

// side is one more middleware, as another process would be.
func (w *world) side(t *testing.T, change func(*redisstore.Options)) (*redisstore.Store, *httptest.Server) {
	options := redisstore.Options{URL: w.redis.ourURL(), KeyFile: w.gateway.kekFile}
	if change != nil {
		change(&options)
	}
	store := must(redisstore.Open(options))
	t.Cleanup(func() { store.Close() })
	middleware := must(sealway.NewMiddleware(sealway.MiddlewareConfig{Store: store, OnRefusal: func(r sealway.Refusal) { t.Log("refused: ", r.Status, " ", r.Err) }}))
	service := httptest.NewServer(middleware.Handler(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.served.Add(1)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(rw, "%s says %s", r.Header.Get("X-Sealway-Client-Id"), body)
	})))
	t.Cleanup(service.Close)
	return store, service
}

func (w *world) transport(t *testing.T, base http.RoundTripper, version wire.Version, server string) *sealway.Transport {
	config := sealway.Config{AuthorityURL: w.gateway.url, Wire: version, ClientID: "who am i", Base: base, Trust: sealway.TrustFirstUse(nil)}
	return must(sealway.NewTransport(server, config))
}

const purchase = `{"schemeCode":"AEF","amount":5000}`

func call(transport *sealway.Transport, url string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "POST", url+"/transaction/purchase", strings.NewReader(purchase))
	if err != nil {
		return "", err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 100 {
		if is() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("it does not happen: ", what)
}

func TestSessionsOfAGatewayAreServedAndNoNonceIsGrantedTwiceAmongThem(t *testing.T) {
	w := newWorld(t, nil)
	for _, version := range []wire.Version{1, 2, 3} {
		caught := &capture{}
		transport := w.transport(t, caught, version, w.service.URL)
		client := "who am i"
		if version == 1 {
			client = ""
		}
		for range 3 {
			if body, err := call(transport, w.service.URL); err != nil || body != client+" says "+purchase {
				t.Fatalf("wire %d: %q %v", version, body, err)
			}
		}
		replayed := "400 CRYPTO_ERROR"
		if version == 3 {
			replayed = "409 replayed"
		}
		served := w.served.Load()
		check := func(where, base string) {
			t.Helper()
			if status, code := caught.replay(t, base); fmt.Sprint(status, " ", code) != replayed {
				t.Errorf("wire %d, %s: %d %s", version, where, status, code)
			}
		}
		check("again at the middleware", w.service.URL)
		check("again at the gateway", w.gateway.url)
		// The other way round: what the gateway has granted is nobody's any more.
		transport = w.transport(t, caught, version, w.gateway.url)
		if body, err := call(transport, w.gateway.url); err != nil || !strings.Contains(body, "SUCCESS") {
			t.Fatal(body, err)
		}
		check("at the middleware after the gateway", w.service.URL)
		_, other := w.side(t, nil)
		check("at another middleware", other.URL)
		if w.served.Load() != served {
			t.Fatal("a replay was served")
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", w.store, w.store, w.store); strings.Contains(text, ourPassword) || strings.Contains(text, "AQIDBAU") {
		t.Fatal(text)
	}
}

func TestOfEqualRequestsAtTwoMiddlewaresAtOnceOneIsServed(t *testing.T) {
	w := newWorld(t, nil)
	_, other := w.side(t, nil)
	caught := &capture{hold: true}
	transport := w.transport(t, caught, 3, w.service.URL)
	if _, err := call(transport, w.service.URL); err == nil {
		t.Fatal("it was sent")
	}
	var group sync.WaitGroup
	var won atomic.Int32
	for n := range 16 {
		group.Go(func() {
			if status, _ := caught.replay(t, []string{w.service.URL, other.URL}[n%2]); status == 200 {
				won.Add(1)
			}
		})
	}
	group.Wait()
	if won.Load() != 1 || w.served.Load() != 1 {
		t.Fatal(won.Load(), w.served.Load())
	}
}

func TestARevokedSessionIsOverWithinASecond(t *testing.T) {
	w := newWorld(t, nil)
	transport := w.transport(t, nil, 3, w.service.URL)
	if _, err := call(transport, w.service.URL); err != nil {
		t.Fatal(err)
	}
	id := must(transport.Session(t.Context()))
	if err := must(sealway.NewAuthorityStore(w.gateway.url, peersSecret, nil)).Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond)
	var problem *sealway.ProblemError
	if _, err := call(transport, w.service.URL); !errors.As(err, &problem) || problem.Code != "session_expired" {
		t.Fatal(err)
	}
	if _, err := w.store.Session(t.Context(), id); !errors.Is(err, wire.CodeSessionUnknown) {
		t.Fatal(err)
	}
	if _, err := w.store.Session(t.Context(), "S-"+strings.Repeat("0", 32)); !errors.Is(err, wire.CodeSessionUnknown) {
		t.Fatal(err)
	}
	// The next call begins with another session.
	if _, err := call(transport, w.service.URL); err != nil {
		t.Fatal(err)
	}
}

func TestWhenRedisForgetsEverythingNothingIsServedUntilAGatewayBeginsAnewAndNoReplayEver(t *testing.T) {
	w := newWorld(t, nil)
	_, behind := w.side(t, func(o *redisstore.Options) { o.PostgresBehind = true })
	caught := &capture{}
	transport := w.transport(t, caught, 3, w.service.URL)
	if _, err := call(transport, w.service.URL); err != nil {
		t.Fatal(err)
	}
	before := w.admin.HGet(t.Context(), "{sealway:0}:epoch", "gen").Val()
	id := must(transport.Session(t.Context()))
	stored := must(w.admin.Get(t.Context(), "sealway:s:"+id).Bytes())
	for _, service := range []string{behind.URL, w.service.URL} {
		// Both know the session, and have joined the epoch.
		if status, _ := caught.replay(t, service); status != 409 {
			t.Fatal(status)
		}
	}
	served := w.served.Load()
	if err := w.admin.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	w.admin.ScriptFlush(t.Context())
	// The session itself comes back, as it would from a snapshot or from PostgreSQL.
	put := func() {
		if err := w.admin.Set(t.Context(), "sealway:s:"+id, stored, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	put()
	for range 5 {
		if status, code := caught.replay(t, w.service.URL); status != 503 || code != "store_unavailable" {
			t.Fatal(status, code)
		}
		if status, code := caught.replay(t, behind.URL); status != 503 {
			t.Fatal(status, code)
		}
	}
	// A gateway that is asked for something begins an epoch.
	eventually(t, "a gateway begins an epoch", func() bool {
		call(w.transport(t, nil, 3, w.gateway.url), w.gateway.url)
		now := w.admin.HGet(t.Context(), "{sealway:0}:epoch", "gen").Val()
		return now != before && len(now) == 32
	})
	put()
	time.Sleep(2100 * time.Millisecond)
	// With Redis alone the floor of an epoch behind a loss lies a window ahead.
	_, fresh := w.side(t, nil)
	for _, url := range []string{w.service.URL, behind.URL, fresh.URL} {
		if status, code := caught.replay(t, url); status != 503 {
			t.Fatal("what was granted before the loss: ", status, code)
		}
	}
	if w.served.Load() != served {
		t.Fatal("a replay was served")
	}
	// As if the gateway that began the epoch did not know of the loss. A store that was there before rejects, unless PostgreSQL has the data.
	w.admin.HSet(t.Context(), "{sealway:0}:epoch", "floor", "1")
	if status, code := caught.replay(t, w.service.URL); status != 503 {
		t.Fatal(status, code)
	}
	for url, good := range map[string]bool{behind.URL: true, fresh.URL: true, w.service.URL: false} {
		other := w.transport(t, nil, 3, url)
		if _, err := call(other, url); good != (err == nil) {
			t.Errorf("good %v: %v", good, err)
		}
	}
}

func TestAnotherServerInRedissPlaceIsNotBelieved(t *testing.T) {
	w := newWorld(t, nil)
	caught := &capture{}
	transport := w.transport(t, caught, 3, w.service.URL)
	if _, err := call(transport, w.service.URL); err != nil {
		t.Fatal(err)
	}
	id := must(transport.Session(t.Context()))
	stored := must(w.admin.Get(t.Context(), "sealway:s:"+id).Bytes())
	epoch := w.admin.HGetAll(t.Context(), "{sealway:0}:epoch").Val()
	// The gateway may not begin a new epoch meanwhile.
	w.gateway.stop()
	w.redis.stop()
	start := time.Now()
	var problem *sealway.ProblemError
	if _, err := call(transport, w.service.URL); !errors.As(err, &problem) || problem.Code != "store_unavailable" || time.Since(start) > 2*time.Second {
		t.Fatal("while it is away: ", err, time.Since(start))
	}
	if status, _ := caught.replay(t, w.service.URL); status != 503 {
		t.Fatal(status)
	}
	// It comes back with an old snapshot: epoch and session are there, the nonces are not.
	w.redis.again(t)
	w.admin.HSet(t.Context(), "{sealway:0}:epoch", epoch)
	w.admin.Set(t.Context(), "{sealway:0}:canary", "1", time.Minute)
	w.admin.Set(t.Context(), "sealway:s:"+id, stored, time.Hour)
	served := w.served.Load()
	for range 3 {
		if status, code := caught.replay(t, w.service.URL); status != 503 {
			t.Fatal(status, code)
		}
		time.Sleep(400 * time.Millisecond)
	}
	if w.served.Load() != served {
		t.Fatal("a replay was served")
	}
	if _, err := w.store.Session(t.Context(), id); !errors.Is(err, sealway.ErrStoreUnavailable) || strings.Contains(err.Error(), ourPassword) {
		t.Fatal(err)
	}
}

func TestASilentRedisIs503WithinTheDeadline(t *testing.T) {
	w := newWorld(t, func(o *redisstore.Options) { o.Deadline = 300 * time.Millisecond })
	transport := w.transport(t, nil, 3, w.service.URL)
	if _, err := call(transport, w.service.URL); err != nil {
		t.Fatal(err)
	}
	// It takes connections, and answers nobody.
	go w.admin.Do(context.Background(), "DEBUG", "SLEEP", "2")
	w.admin.ClientPause(t.Context(), 2*time.Second)
	start := time.Now()
	var problem *sealway.ProblemError
	if _, err := call(transport, w.service.URL); !errors.As(err, &problem) || problem.Code != "store_unavailable" || time.Since(start) > 1500*time.Millisecond {
		t.Fatal(err, time.Since(start))
	}
	eventually(t, "it serves again", func() bool {
		_, err := call(transport, w.service.URL)
		return err == nil
	})
}

func TestAStampThatIsAheadIsServedOnceRedissClockHasComeToIt(t *testing.T) {
	w := newWorld(t, nil)
	if _, err := call(w.transport(t, nil, 3, w.service.URL), w.service.URL); err != nil {
		t.Fatal(err)
	}
	reserve := func(aheadMs int64) (time.Duration, error) {
		start := time.Now()
		claim := session.Claim{Sealed: true, StampMs: uint64(start.UnixMilli() + aheadMs), KeptMs: 600_001}
		claim.Key[0] = byte(aheadMs / 100)
		_, err := w.store.Reserve(t.Context(), claim)
		return time.Since(start), err
	}
	if took, err := reserve(300); err != nil || took > time.Second {
		t.Fatal(took, err)
	}
	if took, err := reserve(1500); err != nil || took < 700*time.Millisecond || took > 4*time.Second {
		t.Fatal(took, err)
	}
	if took, err := reserve(4000); !errors.Is(err, sealway.ErrStoreUnavailable) || took > time.Second {
		t.Fatal(took, err)
	}
	// Nobody waits for longer than its caller does.
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := w.store.Reserve(ctx, session.Claim{Key: [16]byte{99}, StampMs: uint64(time.Now().UnixMilli() + 2000), KeptMs: 600_001}); !errors.Is(err, sealway.ErrStoreUnavailable) {
		t.Fatal(err)
	}
	// And where memory is lost while it waits, what it holds may be forgotten.
	result := make(chan error, 1)
	go func() {
		_, err := w.store.Reserve(context.Background(), session.Claim{Key: [16]byte{98}, StampMs: uint64(time.Now().UnixMilli() + 1500), KeptMs: 600_001})
		result <- err
	}()
	time.Sleep(300 * time.Millisecond)
	w.admin.HSet(t.Context(), "{sealway:0}:epoch", "gen", strings.Repeat("0", 32))
	if err := <-result; !errors.Is(err, sealway.ErrStoreUnavailable) {
		t.Fatal(err)
	}
	if _, err := w.store.Reserve(t.Context(), session.Claim{Key: [16]byte{97}, StampMs: 1000, KeptMs: 600_001}); err == nil {
		t.Fatal("an old stamp")
	}
}

func TestAKeyThatComesLaterIsReadAndOneThatIsUnknownEndsNoSession(t *testing.T) {
	w := newWorld(t, func(o *redisstore.Options) { o.KeyFile, o.Keys = "", kek2 })
	transport := w.transport(t, nil, 3, w.service.URL)
	var problem *sealway.ProblemError
	if _, err := call(transport, w.service.URL); !errors.As(err, &problem) || problem.Code != "store_unavailable" || w.served.Load() != 0 {
		t.Fatal(err)
	}
	file := t.TempDir() + "/keys"
	if err := os.WriteFile(file, []byte(kek2), 0o600); err != nil {
		t.Fatal(err)
	}
	_, later := w.side(t, func(o *redisstore.Options) { o.KeyFile = file })
	other := w.transport(t, nil, 3, later.URL)
	if _, err := call(other, later.URL); !errors.As(err, &problem) || problem.Code != "store_unavailable" {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("# both\n"+kek2+"\n"+kek1), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond)
	if _, err := call(other, later.URL); err != nil {
		t.Fatal(err)
	}
	id := must(other.Session(t.Context()))
	key := "sealway:s:" + id
	value := must(w.admin.Get(t.Context(), key).Bytes())
	time.Sleep(1100 * time.Millisecond)
	for at := range value {
		// Any changed byte: never the end of a session, and never another session.
		changed := bytes.Clone(value)
		changed[at] ^= 0x40
		w.admin.Set(t.Context(), key, changed, time.Hour)
		store := must(redisstore.Open(redisstore.Options{URL: w.redis.ourURL(), Keys: kek1}))
		found, err := store.Session(t.Context(), id)
		store.Close()
		if errors.Is(err, wire.CodeSessionUnknown) {
			t.Fatalf("byte %d: %v", at, err)
		}
		if err != nil && !errors.Is(err, sealway.ErrStoreUnavailable) || err == nil && found == nil {
			t.Fatalf("byte %d: %v", at, err)
		}
	}
	// A value is good under its own id alone.
	another := "S-" + strings.Repeat("7", 32)
	w.admin.Set(t.Context(), "sealway:s:"+another, value, time.Hour)
	if _, err := w.store.Session(t.Context(), another); !errors.Is(err, sealway.ErrStoreUnavailable) {
		t.Fatal(err)
	}
	for _, wrong := range [][]byte{{}, []byte("y"), value[:len(value)-1], append(bytes.Clone(value), 0), make([]byte, 10_000)} {
		w.admin.Set(t.Context(), key, wrong, time.Hour)
		store := must(redisstore.Open(redisstore.Options{URL: w.redis.ourURL(), Keys: kek1}))
		if _, err := store.Session(t.Context(), id); !errors.Is(err, sealway.ErrStoreUnavailable) {
			t.Fatalf("%d bytes: %v", len(wrong), err)
		}
		store.Close()
	}
}
