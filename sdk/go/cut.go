package sealway

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"sealway.dev/go/internal/exchange"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// lookInterval is the interval of checks of the session of a running request. With the time for which a store keeps its last answer,
// the sum is below a second.
const lookInterval = 250 * time.Millisecond

// cut ends a request that is still under way when its session ends, by time or by revocation: within a second the handler's
// context is over, and nothing passes any more in either direction. A store that does not answer says nothing about the session: the
// request goes on, up to the session's own end. spec/session-3.md#sealed-requests
type cut struct {
	middleware *Middleware
	under      http.ResponseWriter
	request    *http.Request
	record     *session.Record
	cancel     context.CancelCauseFunc
	mu         sync.Mutex
	timer      *time.Timer
	stopped    bool
	isOver     bool
	sent       bool // the answer has begun
}

// watch looks at the session of a request from now on, and gives the request with a context that ends with it. One whose
// answer is sealed as a whole is not looked at.
func (m *Middleware) watch(w http.ResponseWriter, r *http.Request, reply *exchange.Reply) (*cut, *http.Request) {
	ctx, cancel := context.WithCancelCause(r.Context())
	c := &cut{middleware: m, under: w, request: r.WithContext(ctx), record: reply.Session().Record(), cancel: cancel}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer = time.AfterFunc(lookInterval, c.look); reply.Whole() {
		c.timer.Stop()
	}
	return c, c.request
}

func (c *cut) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isOver
}

// passes says whether the answer may go on, and that it has begun.
func (c *cut) passes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = c.sent || !c.isOver
	return !c.isOver
}

func (c *cut) look() {
	isOver := c.ended()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.stopped:
		return
	case !isOver:
		c.timer.Reset(lookInterval)
		return
	}
	c.isOver = true
	c.cancel(wire.Refuse(wire.CodeSessionExpired))
	// Reads and writes of the handler end as well. An answer that has not begun can still carry the reason.
	control, past := http.NewResponseController(c.under), time.Unix(1, 0)
	control.SetReadDeadline(past)
	if c.sent {
		control.SetWriteDeadline(past)
	}
}

func (c *cut) ended() bool {
	if c.record.Expired(c.middleware.nowMs()) {
		return true
	}
	found, err := c.middleware.session(c.request, c.record.ID)
	return errors.Is(err, wire.CodeSessionUnknown) || err == nil && found.Record().Expired(c.middleware.nowMs())
}

// stop ends the looking, before the connection is used for another request.
func (c *cut) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.timer.Stop()
	c.cancel(nil)
}
