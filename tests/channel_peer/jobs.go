package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
)

// An endpoint whose handshake is done.
type peer struct {
	secure  *secure
	session *yamux.Session
	o       *options

	released    chan struct{}
	releaseOnce sync.Once

	calls, notices, skipped, streams atomic.Int64
	reports                          sync.Mutex
}

// Takes up streams of the other side, for as long as there is a session.
func (p *peer) serve() {
	for {
		stream, err := p.session.Accept()
		if err != nil {
			return
		}
		p.streams.Add(1)
		go func() {
			defer stream.Close()
			if kind, err := readKind(stream); err == nil {
				_ = p.serveKind(kind, stream)
			}
		}()
	}
}

func (p *peer) serveKind(kind string, stream net.Conn) error {
	switch kind {
	case "rpc":
		return p.serveRPC(stream)
	case "echo":
		_, err := io.Copy(stream, stream)
		return err
	case "slow":
		// Reads nothing until a call says so.
		<-p.released
		return answerCount(stream)
	case "sink":
		return answerCount(stream)
	case "source":
		var asked struct {
			Bytes int64 `json:"bytes"`
		}
		body, err := readFrame(stream, helloMax)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(body, &asked); err != nil {
			return err
		}
		_, err = pour(stream, asked.Bytes, p.o.part)
		return err
	case "reset":
		// With a short close timeout, what was closed and is not closed by the other side is reset.
		return nil
	}
	return fmt.Errorf("nothing is served as %q", kind)
}

func answerCount(stream net.Conn) error {
	got, err := drain(stream)
	if err != nil {
		return err
	}
	return writeFrame(stream, got)
}

// Does what was asked for, and says what it saw.
func (p *peer) do(job string) (map[string]any, error) {
	switch job {
	case "serve", "deaf":
		<-p.session.CloseChan()
		return nil, nil
	case "rpc":
		return p.doRPC()
	case "echo":
		return nil, p.atOnce(p.doEcho)
	case "bulk":
		return p.doBulk()
	case "rekey":
		return nil, p.doRekey()
	case "idle":
		return nil, p.doIdle()
	case "mute":
		return p.doMute()
	case "stall":
		return p.doStall()
	case "reset":
		return p.doReset()
	}
	return nil, fmt.Errorf("no job is called %s", job)
}

func (p *peer) doRPC() (map[string]any, error) {
	stream, err := openKind(p.session, "rpc")
	if err != nil {
		return nil, err
	}
	caller := caller{stream: stream}
	began := time.Now()
	for at := range p.o.calls {
		payload := fmt.Sprintf(`{"call":%d}`, at)
		got, err := caller.call(callEcho, payload)
		if err != nil {
			return nil, err
		}
		if got.Error != nil || !sameJSON(got.Payload, []byte(payload)) {
			return nil, fmt.Errorf("call %d got %s, error %v", at, got.Payload, got.Error)
		}
	}
	took := time.Since(began)
	got, err := caller.call(4_000_000_000, `{}`)
	if err != nil {
		return nil, err
	}
	if got.Error == nil {
		return nil, fmt.Errorf("a call of no type got %s", got.Payload)
	}
	return map[string]any{
		"notices": caller.notices, "unknown_code": got.Error.Code, "unknown_message": got.Error.Message,
		"unknown_payload": string(got.Payload), "us_each": took.Microseconds() / int64(max(p.o.calls, 1)),
	}, nil
}

func sameJSON(one, other []byte) bool {
	var a, b bytes.Buffer
	return json.Compact(&a, one) == nil && json.Compact(&b, other) == nil && a.String() == b.String()
}

// As many as asked for, each on a stream of its own, all open before the first goes on.
func (p *peer) atOnce(each func(net.Conn, int) error) error {
	var all []net.Conn
	for range p.o.streams {
		stream, err := openKind(p.session, "echo")
		if err != nil {
			return err
		}
		all = append(all, stream)
	}
	failures := make(chan error, len(all))
	for at, stream := range all {
		go func() { failures <- each(stream, at) }()
	}
	var failed error
	for range all {
		failed = errors.Join(failed, <-failures)
	}
	return failed
}

// Sends all, finishes its own side, and expects the same and the other side's end.
func (p *peer) doEcho(stream net.Conn, at int) error {
	sent := make(chan error, 1)
	var want count
	go func() {
		var err error
		want, err = pour(stream, p.o.bytes+int64(at), p.o.part)
		sent <- errors.Join(err, stream.Close())
	}()
	got, err := drain(stream)
	if err = errors.Join(err, <-sent); err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%d bytes came back of %d, or others", got.Bytes, want.Bytes)
	}
	return nil
}

func (p *peer) doBulk() (map[string]any, error) {
	seen := map[string]any{}
	began := time.Now()
	stream, err := openKind(p.session, "sink")
	if err != nil {
		return nil, err
	}
	want, err := pour(stream, p.o.bytes, p.o.part)
	if err = errors.Join(err, stream.Close()); err != nil {
		return nil, err
	}
	body, err := readFrame(stream, helloMax)
	if err != nil {
		return nil, err
	}
	var got count
	if err := json.Unmarshal(body, &got); err != nil {
		return nil, err
	}
	if got != want {
		return nil, fmt.Errorf("sent %v, and the other side got %v", want, got)
	}
	seen["up_ms"] = time.Since(began).Milliseconds()
	began = time.Now()
	if stream, err = openKind(p.session, "source"); err != nil {
		return nil, err
	}
	if err := writeFrame(stream, map[string]int64{"bytes": p.o.bytes}); err != nil {
		return nil, err
	}
	if got, err = drain(stream); err != nil {
		return nil, err
	}
	if got != want {
		return nil, fmt.Errorf("wanted %v, and got %v", want, got)
	}
	seen["down_ms"] = time.Since(began).Milliseconds()
	return seen, stream.Close()
}

// There and back once.
func exchange(stream net.Conn, text string) error {
	if _, err := stream.Write([]byte(text)); err != nil {
		return err
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(stream, got); err != nil {
		return err
	}
	if string(got) != text {
		return fmt.Errorf("%q came back as %q", text, got)
	}
	return nil
}

func (p *peer) doRekey() error {
	stream, err := openKind(p.session, "echo")
	if err != nil {
		return err
	}
	for at := range p.o.calls {
		if err := exchange(stream, fmt.Sprintf("before %d", at)); err != nil {
			return err
		}
		if err := p.secure.record(flagRekey, nil); err != nil {
			return err
		}
		if err := exchange(stream, fmt.Sprintf("after %d", at)); err != nil {
			return err
		}
	}
	return stream.Close()
}

// A stream on which nothing happens for a while.
func (p *peer) doIdle() error {
	stream, err := openKind(p.session, "echo")
	if err != nil {
		return err
	}
	if err := exchange(stream, "before"); err != nil {
		return err
	}
	time.Sleep(p.o.pause)
	return errors.Join(exchange(stream, "after"), stream.Close())
}

// A stream that the other side accepts and never writes to.
func (p *peer) doMute() (map[string]any, error) {
	stream, err := openKind(p.session, "mute")
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	time.Sleep(p.o.pause)
	if p.session.IsClosed() {
		return nil, errors.New("the session is over: " + p.secure.why())
	}
	trip, err := p.session.Ping()
	return map[string]any{"ping_us": trip.Microseconds()}, err
}

// Writes to somebody who reads only when he is told that nothing goes on.
func (p *peer) doStall() (map[string]any, error) {
	stream, err := openKind(p.session, "slow")
	if err != nil {
		return nil, err
	}
	var written atomic.Int64
	done := make(chan error, 1)
	var want count
	go func() {
		var err error
		want, err = pour(counting{stream, &written}, p.o.bytes, p.o.part)
		done <- err
	}()
	for at, since := int64(-1), time.Now(); time.Since(since) < p.o.pause; time.Sleep(10 * time.Millisecond) {
		if now := written.Load(); now != at {
			at, since = now, time.Now()
		}
		select {
		case err := <-done:
			return nil, errors.Join(errors.New("it did not stall"), err)
		default:
		}
	}
	stalled := written.Load()
	// The test reads this line, and then the stream.
	say(map[string]any{"stalled_at": stalled})
	if err := <-done; err != nil {
		return nil, err
	}
	if err := stream.Close(); err != nil {
		return nil, err
	}
	var got count
	body, err := readFrame(stream, helloMax)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &got); err != nil {
		return nil, err
	}
	if got != want {
		return nil, fmt.Errorf("sent %v, and the other side got %v", want, got)
	}
	return map[string]any{"stalled_at": stalled}, nil
}

type counting struct {
	to   io.Writer
	seen *atomic.Int64
}

// In small parts, so that what got through is known well.
func (c counting) Write(from []byte) (int, error) {
	done := 0
	for done < len(from) {
		sent, err := c.to.Write(from[done:min(done+4096, len(from))])
		done += sent
		c.seen.Add(int64(sent))
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// Reads a stream that the other side resets.
func (p *peer) doReset() (map[string]any, error) {
	stream, err := openKind(p.session, "reset")
	if err != nil {
		return nil, err
	}
	_, err = drain(stream)
	if err == nil {
		return nil, errors.New("the stream ended in order")
	}
	trip, pinged := p.session.Ping()
	return map[string]any{"stream_error": err.Error(), "ping_us": trip.Microseconds()}, pinged
}
