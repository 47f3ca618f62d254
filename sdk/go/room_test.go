package sealway

import (
	"errors"
	"net/http"
	"runtime"
	"testing"
	"time"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// slowBody are sealed requests of one session of a wire, whose bodies stop before their last byte.
type slowBody struct {
	*service
	version wire.Version
	length  int
	client  *Transport
}

func newHeldBack(t *testing.T, version wire.Version, length int) *slowBody {
	s := newService(t, http.HandlerFunc(echo))
	s.middleware.config.BodyTimeout = 25 * time.Second
	client := s.transport(t, func(c *Config) { c.Wire = version })
	if _, err := client.Session(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &slowBody{s, version, length, client}
}

// message is one more request.
func (h *slowBody) message(t *testing.T) (wire.HeaderList, string, []byte) {
	t.Helper()
	if h.version == wire.Wire3 {
		agreed, _ := h.client.native.peek()
		headers, sealer, _, _ := agreed.session.Seal(session.Line{Method: "POST", Target: "/pay"}, "application/octet-stream", agreed.stampMs(), random16())
		body, err := sealer.Seal(nil, true, []byte{0, 0}, make([]byte, h.length))
		if err != nil {
			t.Fatal(err)
		}
		return headers, "application/octet-stream", body
	}
	agreed, _ := h.client.compat.peek()
	message, _ := agreed.session.Seal("/pay", make([]byte, h.length), h.nowMs(), session.SealRandoms{Nonce: random16()})
	return message.Headers, message.ContentType, message.Body
}

// head sends the head of one more request.
func (h *slowBody) head(t *testing.T, address string) *late {
	t.Helper()
	headers, contentType, body := h.message(t)
	return sendHeadFrom(t, address, h.service, "/pay", contentType, headers, body)
}

// bound sets the room and an address's share of it, in requests.
func (h *slowBody) bound(t *testing.T, all, share int64) {
	t.Helper()
	_, _, body := h.message(t)
	h.middleware.room = newRoom(all*int64(len(body)), share*int64(len(body)))
}

// allButTheLastByte sends so much, and waits until the service holds it.
func (h *slowBody) allButTheLastByte(t *testing.T, request *late) {
	t.Helper()
	before := h.taken()
	if _, err := request.conn.Write(request.body[:len(request.body)-1]); err != nil {
		t.Fatal(err)
	}
	h.await(t, before+int64(len(request.body))-1)
	request.body = request.body[len(request.body)-1:]
}

func (h *slowBody) taken() int64 {
	h.middleware.room.mu.Lock()
	defer h.middleware.room.mu.Unlock()
	return h.middleware.room.taken
}

func (h *slowBody) await(t *testing.T, want int64) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); h.taken() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d bytes are held, not %d", h.taken(), want)
		}
	}
}

func (h *slowBody) isRefused(t *testing.T, request *late) {
	t.Helper()
	want := `{"error":"SERVICE_UNAVAILABLE"}`
	if h.version == wire.Wire3 {
		want = `{"code":"store_unavailable","status":503,"title":"Try again later.","type":"urn:sealway:problem:store_unavailable"}`
	}
	if status, body := request.finish(t); status != 503 || body != want {
		t.Fatalf("wire %v: %d %.100s", h.version, status, body)
	}
	if refusal := <-h.refusals; refusal.Status != 503 || !errors.Is(refusal.Err, ErrNoRoom) {
		t.Fatal(h.version, refusal)
	}
}

func (h *slowBody) isServed(t *testing.T, request *late) {
	t.Helper()
	if status, body := request.finish(t); status != 200 {
		t.Fatalf("wire %v: %d %.100s", h.version, status, body)
	}
}

func TestBodiesThatAreHeldBackTakeNoMoreThanTheRoomAndOfItAShare(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8")
	}
	for _, version := range wires {
		// Two such bodies are a share, four the room.
		length := map[wire.Version]int{wire.Wire1: 280 << 10, wire.Wire2: 280 << 10, wire.Wire3: 60_000}[version]
		h := newHeldBack(t, version, length)
		h.bound(t, 4, 2)
		// An announced body takes no room.
		for range 20 {
			h.head(t, "127.0.0.1")
		}
		h.isServed(t, h.head(t, "127.0.0.1"))
		var slow []*late
		for _, address := range []string{"127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3"} {
			request := h.head(t, address)
			h.allButTheLastByte(t, request)
			slow = append(slow, request)
			if len(slow) == 2 {
				h.isRefused(t, h.head(t, "127.0.0.2"))
				h.isServed(t, h.head(t, "127.0.0.3"))
			}
		}
		h.isRefused(t, h.head(t, "127.0.0.4"))
		// The first request is served, and a request that ends or is rejected returns its room.
		h.isServed(t, slow[0])
		h.isServed(t, h.head(t, "127.0.0.4"))
		for _, request := range slow[1:] {
			request.conn.Close()
		}
		h.await(t, 0)
		h.isServed(t, h.head(t, "127.0.0.2"))
		h.middleware.room.mu.Lock()
		if left := len(h.middleware.room.by); left != 0 {
			t.Error(version, left, "addresses hold room that came back")
		}
		h.middleware.room.mu.Unlock()
	}
}

func TestBehindATrustedProxyAllOfTheRoomIsOfOneAddress(t *testing.T) {
	h := newHeldBack(t, wire.Wire2, 100<<10)
	h.bound(t, 2, 1)
	h.middleware.config.TrustForwarded = true
	first := h.head(t, "127.0.0.1")
	h.allButTheLastByte(t, first)
	h.isServed(t, h.head(t, "127.0.0.1"))
	h.isServed(t, first)
}

func TestTheShareOfAnAddressIsASixteenthOrTheLongestBodyHeldWhole(t *testing.T) {
	for _, test := range []struct {
		config MiddlewareConfig
		share  int64
	}{
		{MiddlewareConfig{}, 4 << 20},
		{MiddlewareConfig{BufferedMaxBytes: 1 << 20}, 1 << 20},
		{MiddlewareConfig{BufferedMaxBytes: 1 << 20, Wires: []wire.Version{wire.Wire3}}, 128 << 10},
		{MiddlewareConfig{Routes: []Route{{Path: "/", BodyMaxBytes: 9 << 20}}}, 9 << 20},
		{MiddlewareConfig{Routes: []Route{{Path: "/", BodyMaxBytes: 9 << 20}}, Wires: []wire.Version{wire.Wire3}}, 4 << 20},
		{MiddlewareConfig{Routes: []Route{{Path: "/", BodyMaxBytes: 1 << 40}}}, 64 << 20},
	} {
		test.config.Store = NewMemoryStore(1)
		if made := must(NewMiddleware(test.config)); made.room.share != test.share {
			t.Error(test.config, made.room.share)
		}
	}
	for _, wrong := range []int64{-1, 1, 1<<20 - 1} {
		if _, err := NewMiddleware(MiddlewareConfig{Store: NewMemoryStore(1), BufferedMaxBytes: wrong}); err == nil {
			t.Error(wrong, "is taken")
		}
	}
	// An address of IPv6 is its customer's /64, a mapped one that of IPv4.
	shared := newRoom(4<<20, 0)
	if one, other := shared.holding("[2001:db8::1]:1").from, shared.holding("[2001:db8::ffff:2]:2").from; one != other || one == shared.holding("[2001:db8:0:1::1]:1").from {
		t.Error(one, other)
	}
	if shared.holding("[::ffff:192.0.2.1]:1").from != shared.holding("192.0.2.1:9").from || shared.holding("@").from.IsValid() {
		t.Error("a mapped address, or one of a Unix socket")
	}
}
