package channel

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
)

// Frames of the wire below streams. spec/rpc.md#streams
const (
	frameHeaderLen = 12
	typeData       = 0
	typeWindow     = 1
	typeGoAway     = 3
	flagSYN        = 1
	flagFIN        = 4
	flagRST        = 8
)

// gate lies between records and the library that multiplexes streams. It makes one record of a frame's header and body, which
// the library writes apart; it holds the peer to its number of streams, and it can reset one, which the library cannot.
type gate struct {
	*link
	isClient bool
	// peersMax is how many streams the peer may have open.
	peersMax int
	// Of the library's reader alone.
	arrived  [][]byte
	bodyLeft uint32
	dropping bool
	head     [frameHeaderLen]byte
	headLen  int
	// Of the library's writer alone.
	waiting []byte
	sending uint32

	resets chan uint32
	// refused are streams beyond the bound, to be reset.
	refused chan uint32

	mu    sync.Mutex
	live  map[uint32]*ends
	peers int
	// freed hears of each stream of this side that is over.
	freed func()
	// wentAway hears of the peer's GO AWAY.
	wentAway func()
}

// ends says which directions of a stream are finished: by a frame that says so, and by nothing else.
type ends struct{ here, there atomic.Bool }

// hasFinished says whether this side's last frame went out; not for a stream that was reset.
func (e *ends) hasFinished() bool { return e != nil && e.here.Load() }

// endsOf are those of a stream; nil once both directions are finished, or it was reset.
func (g *gate) endsOf(id uint32) *ends {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.live[id]
}

func newGate(link *link, isClient bool, freed, wentAway func()) *gate {
	peersMax := v1StreamsMax
	if link.isNative {
		peersMax = streamsMax
	}
	return &gate{
		link: link, isClient: isClient, peersMax: peersMax, live: map[uint32]*ends{}, resets: make(chan uint32, 4*peersMax),
		refused: make(chan uint32, peersMax),
		freed:   freed, wentAway: wentAway,
	}
}

func streamFrame(kind byte, flags uint16, id uint32) []byte {
	out := make([]byte, frameHeaderLen)
	out[1] = kind
	binary.BigEndian.PutUint16(out[2:], flags)
	binary.BigEndian.PutUint32(out[4:], id)
	return out
}

// isOwn says whether this side opens streams of that number: the client's are odd.
func (g *gate) isOwn(id uint32) bool { return id%2 == 1 == g.isClient }

// Read returns the library the peer's frames, and between them the resets that this side has decided.
func (g *gate) Read(into []byte) (int, error) {
	for len(g.arrived) == 0 {
		var resets chan uint32
		if g.bodyLeft == 0 && g.headLen == 0 {
			resets = g.resets
		}
		select {
		case id := <-resets:
			g.pass(streamFrame(typeWindow, flagRST, id))
		case chunk, open := <-g.chunks:
			if !open {
				return 0, net.ErrClosed
			}
			if err := g.admit(chunk); err != nil {
				return 0, err
			}
		}
	}
	read := copy(into, g.arrived[0])
	if g.arrived[0] = g.arrived[0][read:]; len(g.arrived[0]) == 0 {
		g.arrived = g.arrived[1:]
	}
	return read, nil
}

func (g *gate) pass(part []byte) {
	if len(part) > 0 {
		g.arrived = append(g.arrived, part)
	}
}

// admit takes bytes apart into frames; those of streams that are refused are cut out. A run of others passes as it is.
func (g *gate) admit(chunk []byte) error {
	g.arrived = g.arrived[:0:cap(g.arrived)]
	start := 0
	for at := 0; at < len(chunk); {
		if g.bodyLeft > 0 {
			taken := int(min(int64(g.bodyLeft), int64(len(chunk)-at)))
			if g.dropping {
				g.pass(chunk[start:at])
				start = at + taken
			}
			g.bodyLeft -= uint32(taken)
			at += taken
			continue
		}
		if g.headLen == 0 && len(chunk)-at >= frameHeaderLen {
			passes, err := g.judge(chunk[at : at+frameHeaderLen])
			if err != nil {
				return err
			}
			if !passes {
				g.pass(chunk[start:at])
				start = at + frameHeaderLen
			}
			at += frameHeaderLen
			continue
		}
		g.pass(chunk[start:at])
		taken := copy(g.head[g.headLen:], chunk[at:])
		g.headLen += taken
		at += taken
		start = at
		if g.headLen == frameHeaderLen {
			g.headLen = 0
			head := append([]byte(nil), g.head[:]...)
			passes, err := g.judge(head)
			if err != nil {
				return err
			}
			if passes {
				g.pass(head)
			}
		}
	}
	g.pass(chunk[start:])
	return nil
}

// judge looks at a frame of the peer, and says whether the library sees it.
func (g *gate) judge(head []byte) (passes bool, err error) {
	kind, flags := head[1], binary.BigEndian.Uint16(head[2:])
	id, length := binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:])
	g.bodyLeft, g.dropping = 0, false
	switch kind {
	case typeGoAway:
		g.wentAway()
		return true, nil
	case typeData:
		g.bodyLeft = length
	case typeWindow:
	default:
		return true, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if flags&flagSYN != 0 {
		if id == 0 || g.isOwn(id) || g.live[id] != nil {
			return false, g.end(fault(StageStream, "streams_malformed", "the peer opens a stream with a number that is not free"))
		}
		if g.peers >= g.peersMax {
			g.dropping = true
			select {
			case g.refused <- id:
				return false, nil
			default:
				return false, g.end(fault(StageStream, "streams_malformed", "the peer opens streams faster than it takes refusals"))
			}
		}
		g.live[id] = &ends{}
		g.peers++
	}
	if stream := g.live[id]; stream != nil {
		if flags&flagFIN != 0 {
			stream.there.Store(true)
		}
		g.settle(id, stream, flags)
	}
	return true, nil
}

// refuseAll resets streams that the library never saw. It is not the reader who does: two ends that wait for each other to read
// would wait for ever.
func (g *gate) refuseAll() {
	for {
		select {
		case id := <-g.refused:
			_ = g.sendData(streamFrame(typeWindow, flagRST, id), nil)
		case <-g.done:
			return
		}
	}
}

// settle forgets a stream whose directions are both finished, or that was reset. The lock is held.
func (g *gate) settle(id uint32, stream *ends, flags uint16) {
	if flags&flagRST == 0 && (!stream.here.Load() || !stream.there.Load()) {
		return
	}
	delete(g.live, id)
	if g.isOwn(id) {
		g.freed()
	} else {
		g.peers--
	}
}

// Write takes the library's frames: a header, or the body of the header before.
func (g *gate) Write(part []byte) (int, error) {
	if g.sending > 0 {
		head := g.waiting
		g.sending, g.waiting = 0, nil
		return len(part), g.sendData(head, part)
	}
	if len(part) != frameHeaderLen {
		return len(part), g.sendData(part, nil)
	}
	flags, id := binary.BigEndian.Uint16(part[2:]), binary.BigEndian.Uint32(part[4:])
	if part[1] == typeData || part[1] == typeWindow {
		g.mu.Lock()
		if flags&flagSYN != 0 && g.isOwn(id) {
			g.live[id] = &ends{}
		}
		if stream := g.live[id]; stream != nil {
			if flags&flagFIN != 0 {
				stream.here.Store(true)
			}
			g.settle(id, stream, flags)
		}
		g.mu.Unlock()
	}
	if length := binary.BigEndian.Uint32(part[8:]); part[1] == typeData && length > 0 {
		// The library uses the room of its header again.
		g.sending, g.waiting = length, append([]byte(nil), part...)
		return len(part), nil
	}
	return len(part), g.sendData(part, nil)
}

// reset ends a stream on both sides at once.
func (g *gate) reset(id uint32) {
	g.mu.Lock()
	stream := g.live[id]
	if stream != nil {
		g.settle(id, stream, flagRST)
	}
	g.mu.Unlock()
	if stream == nil {
		return
	}
	_ = g.sendData(streamFrame(typeWindow, flagRST, id), nil)
	select {
	case g.resets <- id:
	case <-g.done:
	}
}

// Close is the library's word that it is over.
func (g *gate) Close() error {
	_ = g.end(fault(StageStream, "streams_malformed", "the frames of streams break their rules"))
	return nil
}

type address struct{}

func (address) Network() string { return "sealway" }
func (address) String() string  { return "channel" }

// LocalAddr is for the library.
func (*gate) LocalAddr() net.Addr { return address{} }

// RemoteAddr is for the library.
func (*gate) RemoteAddr() net.Addr { return address{} }
