package sealway

import (
	"net/netip"
	"sync"

	"sealway.dev/go/internal/exchange"
)

// ErrNoRoom says that sealed bodies which are still arriving fill MiddlewareConfig.BufferedMaxBytes, or one address's share of it. A
// request is refused with 503.
var ErrNoRoom error = exchange.BodyNoRoom

const (
	bufferedBytesMax = 64 << 20
	bufferedBytesMin = 1 << 20
	addressPart      = 16
	// frameRoom is for one frame of wire 3 and what was read behind it.
	frameRoom = 128 << 10
)

// room bounds the bytes of sealed bodies that have arrived and are not opened yet: in all, and by address.
type room struct {
	max, share int64
	mu         sync.Mutex
	taken      int64
	by         map[netip.Addr]int64
}

// newRoom has shares of a sixteenth, or of the longest body that is held whole.
func newRoom(total, longest int64) *room {
	return &room{max: total, share: min(total, max(total/addressPart, longest, frameRoom)), by: map[netip.Addr]int64{}}
}

// holding begins a part of the room that holds nothing yet. An address that is no IP address (a Unix socket's) has no bound of its own.
func (r *room) holding(remote string) *holding {
	address, _ := netip.ParseAddrPort(remote)
	return &holding{room: r, from: network(address.Addr())}
}

// network is what one client has: an IPv4 address, or an IPv6 /64.
func network(address netip.Addr) netip.Addr {
	if address = address.Unmap().WithZone(""); address.Is6() {
		prefix, _ := address.Prefix(64) // cannot fail
		return prefix.Addr()
	}
	return address
}

// holding is a part of a room. It is for one goroutine.
type holding struct {
	room *room
	from netip.Addr
	held int64
}

// grow takes n bytes, or none and ErrNoRoom.
func (h *holding) grow(n int) error {
	more := int64(n)
	if more == 0 {
		return nil
	}
	h.room.mu.Lock()
	defer h.room.mu.Unlock()
	if h.room.taken+more > h.room.max || h.from.IsValid() && h.room.by[h.from]+more > h.room.share {
		return ErrNoRoom
	}
	h.room.taken += more
	h.held += more
	if h.from.IsValid() {
		h.room.by[h.from] += more
	}
	return nil
}

// keep gives back all but n bytes.
func (h *holding) keep(n int) {
	less := h.held - int64(n)
	if less <= 0 {
		return
	}
	h.held -= less
	h.room.mu.Lock()
	defer h.room.mu.Unlock()
	h.room.taken -= less
	if !h.from.IsValid() {
		return
	}
	if h.room.by[h.from] -= less; h.room.by[h.from] == 0 {
		delete(h.room.by, h.from)
	}
}
