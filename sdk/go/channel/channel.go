package channel

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/hashicorp/yamux"

	"sealway.dev/go/channel/protocol"
	"sealway.dev/go/channel/rpc/frame"
)

const (
	// streamsMax is how many streams each side may have opened at once; v1StreamsMax with a peer of v1, where 200 are usual.
	streamsMax   = 128
	v1StreamsMax = 256
	// backlog is how many streams of the peer may wait to be accepted.
	backlog = 64
	// Windows of streams, in bytes. Peers of v1 send a whole window as one frame.
	windowNative = 1 << 20
	windowV1     = 256 << 10
	// frameMax is the longest body of a frame that this side sends: with its header it fills a native record.
	frameMax = protocol.ContentMax - frameHeaderLen

	prologueTime  = 10 * time.Second
	closeTime     = 5 * time.Second
	lastWordsTime = time.Second
)

// Channel is an end of a channel. It is safe for use by many goroutines.
type Channel struct {
	gate    *gate
	session *yamux.Session
	places  chan struct{}
	// incoming are streams whose prologue was read.
	incoming chan *Stream
	closing  sync.Once
}

func start(socket *socket, sealer *protocol.Sealer, opener *protocol.Opener, isNative, isClient bool, options *Options) (*Channel, error) {
	link := newLink(socket, sealer, opener, isNative)
	config := yamux.DefaultConfig()
	config.EnableKeepAlive = false
	config.ConnectionWriteTimeout = options.WriteTimeout + closeTime
	// Streams are ended by this package: a half that is open may be open for long.
	config.StreamCloseTimeout = 0
	config.MaxStreamWindowSize = windowV1
	places := v1StreamsMax
	if isNative {
		config.MaxStreamWindowSize, places = windowNative, streamsMax
	}
	config.AcceptBacklog = places
	config.LogOutput = io.Discard
	made := &Channel{places: make(chan struct{}, places), incoming: make(chan *Stream, backlog)}
	made.gate = newGate(link, isClient, made.freed, made.wentAway)
	begin := yamux.Server
	if isClient {
		begin = yamux.Client
	}
	go link.readAll()
	session, err := begin(made.gate, config)
	if err != nil {
		_ = socket.ws.CloseNow()
		return nil, caused(err, StageStream, "provider", "streams do not begin")
	}
	made.session = session
	go link.pulse(options.PingEvery, options.SilentMax)
	go made.gate.refuseAll()
	go made.welcomeAll()
	go made.letGo()
	return made, nil
}

func (c *Channel) freed() {
	select {
	case <-c.places:
	// A stream that did not open gave its place back itself.
	default:
	}
}

// letGo frees what the channel holds, when it is over.
func (c *Channel) letGo() {
	<-c.gate.done
	_ = c.gate.socket.ws.CloseNow()
	_ = c.session.Close()
}

// wentAway: a native peer says why in its last record; one of v1 ends the connection.
func (c *Channel) wentAway() {
	time.AfterFunc(lastWordsTime, func() {
		_ = c.gate.end(fault(StageRecord, "closed", "the peer ended its streams"))
	})
}

// Open opens a stream of a kind, in version 1 of that, and says so to the peer. Where 128 of this side are open (256 with a
// peer of v1), it waits.
func (c *Channel) Open(ctx context.Context, kind string) (*Stream, error) {
	return c.OpenVersion(ctx, kind, 1)
}

// OpenVersion is Open for another version of the kind.
func (c *Channel) OpenVersion(ctx context.Context, kind string, version uint32) (*Stream, error) {
	prologue := frame.Prologue{Kind: kind, Version: version}
	hello, err := prologue.Encode()
	if err != nil {
		return nil, caused(err, StageStream, "hello_invalid", "a kind has 1 to 64 visible ASCII characters")
	}
	select {
	case c.places <- struct{}{}:
	case <-ctx.Done():
		return nil, caused(context.Cause(ctx), StageStream, "timeout", "no stream was free in time")
	case <-c.gate.done:
		return nil, c.Err()
	}
	opened, err := c.session.OpenStream()
	if err != nil {
		<-c.places
		return nil, c.over(err)
	}
	made := &Stream{stream: opened, channel: c, prologue: prologue}
	if _, err := made.Write(hello); err != nil {
		made.Reset()
		return nil, err
	}
	return made, nil
}

// Accept waits for the next stream of the peer. The caller checks its kind, and resets a stream that it does not serve.
func (c *Channel) Accept(ctx context.Context) (*Stream, error) {
	select {
	case stream := <-c.incoming:
		return stream, nil
	case <-ctx.Done():
		return nil, caused(context.Cause(ctx), StageStream, "timeout", "no stream came in time")
	case <-c.gate.done:
		return nil, c.Err()
	}
}

// welcomeAll takes up streams, which answers them at once, and has their prologues read.
func (c *Channel) welcomeAll() {
	for {
		stream, err := c.session.AcceptStream()
		if err != nil {
			return
		}
		go c.welcome(&Stream{stream: stream, channel: c})
	}
}

func (c *Channel) welcome(stream *Stream) {
	_ = stream.SetReadDeadline(time.Now().Add(prologueTime))
	text, err := frame.Read(stream, nil, frame.PrologueMax)
	if err == nil {
		stream.prologue, err = frame.ParsePrologue(text)
	}
	if err != nil {
		stream.Reset()
		return
	}
	_ = stream.SetReadDeadline(time.Time{})
	select {
	case c.incoming <- stream:
	case <-c.gate.done:
	}
}

// over is why nothing can be done any more, or what the library says.
func (c *Channel) over(err error) error {
	if why := c.gate.err(); why != nil {
		return why
	}
	return fault(StageStream, "streams_malformed", "streams broke: %v", err)
}

// Done is closed when the channel is over.
func (c *Channel) Done() <-chan struct{} { return c.gate.done }

// Err is why the channel is over: an *Error; nil as long as it is not. The code ended is an orderly end, by either side.
func (c *Channel) Err() error { return c.gate.err() }

// PeerClose is what the peer said when it closed the channel: authenticated, of the native profile alone.
func (c *Channel) PeerClose() (code uint16, reason string, said bool) {
	c.gate.endMu.Lock()
	defer c.gate.endMu.Unlock()
	if c.gate.peerClose == nil {
		return 0, "", false
	}
	return c.gate.peerClose.Code, c.gate.peerClose.Reason, true
}

// Close ends the channel in order.
func (c *Channel) Close() error { return c.CloseWith(0, "") }

// CloseWith ends the channel and says why: 0 is an orderly end, other codes and the text, of at most 123 bytes, are the
// application's. In the native profile the peer knows that this side said it. It takes at most 5 s.
func (c *Channel) CloseWith(code uint16, reason string) error {
	if len(reason) > protocol.CloseReasonMax {
		return ofProtocol(&protocol.Error{Code: protocol.ContentTooLarge})
	}
	c.closing.Do(func() {
		said := make(chan struct{})
		go func() {
			defer close(said)
			c.sayGoodbye(code, reason)
		}()
		select {
		case <-said:
		case <-time.After(closeTime):
		case <-c.gate.done:
		}
		_ = c.gate.end(fault(StageRecord, "ended", "this side ended the channel"))
	})
	return nil
}

func (c *Channel) sayGoodbye(code uint16, reason string) {
	_ = c.session.GoAway()
	_ = c.gate.note(fault(StageRecord, "ended", "this side ended the channel"))
	if c.gate.isNative {
		c.gate.sendMu.Lock()
		_ = c.gate.sealLocked(&protocol.Content{Kind: protocol.Close, Code: code, Reason: reason})
		c.gate.sendMu.Unlock()
		// A record carries the reason, so the relay does not receive it.
		reason = ""
	}
	_ = c.gate.socket.ws.Close(websocket.StatusNormalClosure, reason)
}

// Ping asks the peer for a sign of life and gives the time of a round trip. A peer of v1 has no answer: the relay gives it.
func (c *Channel) Ping(ctx context.Context) (time.Duration, error) {
	answered := c.gate.nextAnswer()
	if err := c.gate.ask(); err != nil {
		return 0, c.over(err)
	}
	select {
	case <-answered:
		return time.Duration(c.gate.rttNS.Load()), nil
	case <-ctx.Done():
		return 0, caused(context.Cause(ctx), StageRecord, "timeout", "no answer to a ping in time")
	case <-c.gate.done:
		return 0, c.Err()
	}
}

// RTT is the time of the last round trip that was measured; 0 before the first.
func (c *Channel) RTT() time.Duration { return time.Duration(c.gate.rttNS.Load()) }

// Rekey changes the key of this direction now. Native channels do so by themselves when it is due.
func (c *Channel) Rekey() error {
	if err := c.gate.send(&protocol.Content{Kind: protocol.Rekey}); err != nil {
		return err
	}
	return nil
}

// Records says how many records came and went.
func (c *Channel) Records() (in, out uint64) {
	return c.gate.recordsIn.Load(), c.gate.recordsOut.Load()
}

// IsNative says whether the profile is the native one, else flowersec-v1.
func (c *Channel) IsNative() bool { return c.gate.isNative }
