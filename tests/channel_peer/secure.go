package main

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	plainMax  = recordMax - recordHeaderLen - tagLen
	unreadMax = 4 << 20
)

// Bytes both ways in records; what yamux runs on.
type secure struct {
	w *wire

	writing    sync.Mutex
	out        *direction
	rekeyEvery uint64

	in       *direction
	reading  sync.Mutex
	arrived  *sync.Cond
	unread   []byte
	over     error
	pings    atomic.Int64
	recordsI atomic.Int64
	recordsO atomic.Int64
	rekeysI  atomic.Int64
	rekeysO  atomic.Int64
}

func newSecure(w *wire, out, in *direction, rekeyEvery uint64) *secure {
	c := &secure{w: w, out: out, in: in, rekeyEvery: rekeyEvery}
	c.arrived = sync.NewCond(&c.reading)
	c.recordsI.Store(int64(in.seq))
	go c.readAll()
	return c
}

// Reads as fast as records come: what is not taken is kept, up to a bound that ends the connection.
func (c *secure) readAll() {
	for {
		err := c.readOne()
		if err == nil {
			continue
		}
		c.reading.Lock()
		c.over = err
		c.arrived.Broadcast()
		c.reading.Unlock()
		_ = c.w.ws.CloseNow()
		return
	}
}

func (c *secure) readOne() error {
	message, err := c.w.receive(context.Background())
	if err != nil {
		return err
	}
	flags, plain, err := c.in.open(message)
	if err != nil {
		return err
	}
	c.recordsI.Add(1)
	switch flags {
	case flagPing:
		c.pings.Add(1)
	case flagRekey:
		c.rekeysI.Add(1)
	default:
		c.reading.Lock()
		defer c.reading.Unlock()
		if len(c.unread)+len(plain) > unreadMax {
			return errors.New("recv buffer exceeded")
		}
		c.unread = append(c.unread, plain...)
		c.arrived.Signal()
	}
	return nil
}

func (c *secure) Read(into []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for len(c.unread) == 0 && c.over == nil {
		c.arrived.Wait()
	}
	if len(c.unread) == 0 {
		return 0, io.EOF
	}
	taken := copy(into, c.unread)
	c.unread = c.unread[taken:]
	return taken, nil
}

// One record a write, where it fits.
func (c *secure) Write(from []byte) (int, error) {
	done := 0
	for done < len(from) {
		part := from[done:min(done+plainMax, len(from))]
		if err := c.record(flagApp, part); err != nil {
			return done, err
		}
		done += len(part)
	}
	return done, nil
}

func (c *secure) record(flags byte, plain []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.sealed(flags, plain); err != nil {
		return err
	}
	if c.rekeyEvery > 0 && flags != flagRekey && c.out.seq%c.rekeyEvery == 0 {
		return c.sealed(flagRekey, nil)
	}
	return nil
}

func (c *secure) sealed(flags byte, plain []byte) error {
	record, err := c.out.seal(flags, plain)
	if err != nil {
		return err
	}
	c.recordsO.Add(1)
	if flags == flagRekey {
		c.rekeysO.Add(1)
	}
	return c.w.send(record)
}

// Pings until the connection is over.
func (c *secure) pingEvery(every time.Duration) {
	for range time.Tick(every) {
		if c.record(flagPing, nil) != nil {
			return
		}
	}
}

func (c *secure) Close() error { return c.w.ws.CloseNow() }

// Why it is over; empty as long as it is not.
func (c *secure) why() string {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.over == nil {
		return ""
	}
	return c.over.Error()
}
