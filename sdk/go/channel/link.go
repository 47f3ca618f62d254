package channel

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"sealway.dev/go/channel/protocol"
)

// pongsMax is how many answers may wait to be sent: pings beyond come faster than the line takes the answers.
const pongsMax = 4

// link is both directions of a channel's records on their WebSocket.
type link struct {
	socket   *socket
	isNative bool
	begun    time.Time

	sendMu sync.Mutex
	sealer *protocol.Sealer
	// gathered and sealed are room that is used again. Of sendMu.
	gathered, sealed []byte

	opener *protocol.Opener
	// chunks are the plaintexts of data records, one at a time; closed when nothing more comes.
	chunks chan []byte
	pongs  chan uint64

	recordsIn, recordsOut atomic.Uint64
	rttNS                 atomic.Int64
	asked                 atomic.Uint64

	endMu   sync.Mutex
	why     *Error
	endOnce sync.Once
	// done is closed when the channel is over.
	done       chan struct{}
	peerClose  *protocol.Content
	answeredMu sync.Mutex
	answered   chan struct{}
}

func newLink(socket *socket, sealer *protocol.Sealer, opener *protocol.Opener, isNative bool) *link {
	return &link{
		socket: socket, isNative: isNative, begun: time.Now(), sealer: sealer, opener: opener,
		chunks: make(chan []byte), pongs: make(chan uint64, pongsMax), done: make(chan struct{}),
		answered: make(chan struct{}),
	}
}

// note says why the channel is over, if nothing was said before, and gives what was said first.
func (l *link) note(why *Error) error {
	l.endMu.Lock()
	defer l.endMu.Unlock()
	if l.why == nil {
		l.why = why
	}
	return l.why
}

// end notes why, and lets go of everything.
func (l *link) end(why *Error) error {
	noted := l.note(why)
	l.endOnce.Do(func() { close(l.done) })
	return noted
}

// err is why the channel is over, nil as long as it is not.
func (l *link) err() error {
	l.endMu.Lock()
	defer l.endMu.Unlock()
	if l.why == nil {
		return nil
	}
	return l.why
}

func (l *link) nowMS() uint64 { return uint64(time.Since(l.begun).Milliseconds()) }

// sendData seals header and body as the bytes of the stream: one record where they fit.
func (l *link) sendData(header, body []byte) error {
	l.sendMu.Lock()
	defer l.sendMu.Unlock()
	whole := header
	if len(body) > 0 {
		l.gathered = append(append(l.gathered[:0], header...), body...)
		whole = l.gathered
	}
	for limit := l.sealer.ContentMax(); ; {
		part := whole[:min(len(whole), limit)]
		if err := l.sendLocked(&protocol.Content{Kind: protocol.Data, Data: part}); err != nil {
			return err
		}
		if whole = whole[len(part):]; len(whole) == 0 {
			return nil
		}
	}
}

func (l *link) send(content *protocol.Content) error {
	l.sendMu.Lock()
	defer l.sendMu.Unlock()
	return l.sendLocked(content)
}

func (l *link) sendLocked(content *protocol.Content) error {
	if err := l.err(); err != nil {
		return err
	}
	return l.sealLocked(content)
}

// sealLocked sends also where the channel is over: its last words.
func (l *link) sealLocked(content *protocol.Content) error {
	sealed, err := l.sealer.Seal(l.sealed[:0], content, l.nowMS())
	l.sealed = sealed
	if err != nil {
		refused := ofProtocol(err)
		if content.Kind == protocol.Close || errors.Is(err, &protocol.Error{Code: protocol.ContentUnsupported}) {
			return refused
		}
		return l.end(refused)
	}
	if err := l.socket.send(websocket.MessageBinary, sealed); err != nil {
		return l.end(ofSocket(StageRecord, err))
	}
	l.recordsOut.Add(1)
	return nil
}

// readAll opens what the peer sends, until there is no more. It fills one of two buffers while the reader of chunks has the other.
// The reader asks for a chunk once it has done with the one before: only then, after a chunk was handed over, do the two change
// places. A record without data leaves them as they are.
func (l *link) readAll() {
	defer close(l.chunks)
	var filled, lent []byte
	for {
		message, err := l.socket.receive(context.Background(), StageRecord, filled)
		if err != nil {
			var why *Error
			if !errors.As(err, &why) {
				why = fault(StageRecord, "connection_lost", "the connection broke")
			}
			_ = l.end(why)
			return
		}
		filled = message[:0:cap(message)]
		content, err := l.opener.Open(message)
		if err != nil {
			_ = l.end(ofProtocol(err))
			return
		}
		l.recordsIn.Add(1)
		if content.Kind == protocol.Close {
			l.heardClose(content)
			return
		}
		if l.take(content) {
			filled, lent = lent, filled
		}
	}
}

func (l *link) heardClose(content protocol.Content) {
	l.endMu.Lock()
	content.Data = nil
	l.peerClose = &content
	l.endMu.Unlock()
	_ = l.end(fault(StageRecord, "ended", "the peer ended the channel with the code %d: %s", content.Code, content.Reason))
}

// take acts on a record, and reports whether the reader of chunks has its data now.
func (l *link) take(content protocol.Content) (isLent bool) {
	switch content.Kind {
	case protocol.Data:
		if len(content.Data) == 0 {
			return false
		}
		select {
		case l.chunks <- content.Data:
			return true
		case <-l.done:
		}
	case protocol.Ping:
		if l.isNative {
			select {
			case l.pongs <- content.Number:
			default:
			}
		}
	case protocol.Pong:
		l.ponged(content.Number)
	}
	return false
}

// ask sends a ping. Where the profile has no answer, the next hop of the WebSocket gives one.
func (l *link) ask() error {
	if !l.isNative {
		if err := l.send(&protocol.Content{Kind: protocol.Ping}); err != nil {
			return err
		}
		number := l.asked.Add(1)
		begun := time.Now()
		ctx, stop := context.WithTimeout(context.Background(), l.socket.writeTimeout)
		defer stop()
		if err := l.socket.ws.Ping(ctx); err != nil {
			return err
		}
		l.measured(number, time.Since(begun))
		return nil
	}
	// A number tells when it was asked; only the answer to the last one tells a time.
	number := uint64(time.Since(l.begun))
	l.asked.Store(number)
	return l.send(&protocol.Content{Kind: protocol.Ping, Number: number})
}

func (l *link) ponged(number uint64) {
	if number != 0 && number == l.asked.Load() {
		l.measured(number, time.Since(l.begun)-time.Duration(number))
	}
}

func (l *link) measured(number uint64, rtt time.Duration) {
	if l.asked.CompareAndSwap(number, 0) || !l.isNative {
		l.rttNS.Store(int64(rtt))
		l.answeredMu.Lock()
		close(l.answered)
		l.answered = make(chan struct{})
		l.answeredMu.Unlock()
	}
}

// nextAnswer is closed at the next answer to a ping.
func (l *link) nextAnswer() <-chan struct{} {
	l.answeredMu.Lock()
	defer l.answeredMu.Unlock()
	return l.answered
}

// pulse sends signs of life and answers, and notices a peer that is gone.
func (l *link) pulse(every, silentMax time.Duration) {
	ticks := time.NewTicker(min(every, silentMax/2+1))
	defer ticks.Stop()
	last := time.Now()
	for {
		select {
		case <-l.done:
			return
		case number := <-l.pongs:
			_ = l.send(&protocol.Content{Kind: protocol.Pong, Number: number})
		case <-ticks.C:
			if silent := l.socket.silentFor(); silent > silentMax {
				_ = l.end(fault(StageRecord, "peer_silent", "nothing came for %v", silent.Round(time.Millisecond)))
				return
			}
			if time.Since(last) >= every-every/16 {
				last = time.Now()
				if l.isNative {
					_ = l.ask()
				} else {
					go func() { _ = l.ask() }()
				}
			}
		}
	}
}
