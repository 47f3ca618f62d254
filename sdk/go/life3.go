package sealway

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// lifeEvery is how often the session of a request under way is looked at. With what a store keeps of its last answer it is below a second.
const lifeEvery = 250 * time.Millisecond

// life3 cuts a request of wire 3 off that is still under way when its session ends, by time or by revocation: within a second the
// handler's context is over, and nothing passes any more in either direction. A store that does not answer says nothing about the
// session: the request goes on, up to the session's own end. spec/session-3.md#sealed-requests
type life3 struct {
	middleware *Middleware
	under      http.ResponseWriter
	request    *http.Request
	record     *session.Record
	cancel     context.CancelCauseFunc
	mu         sync.Mutex
	timer      *time.Timer
	stopped    bool
	isOver     atomic.Bool
}

// watch gives the life of a request's session, and the request with a context that ends with it.
func (m *Middleware) watch(w http.ResponseWriter, r *http.Request, record *session.Record) (*life3, *http.Request) {
	ctx, cancel := context.WithCancelCause(r.Context())
	life := &life3{middleware: m, under: w, record: record, cancel: cancel}
	life.request = r.WithContext(ctx)
	life.wait()
	return life, life.request
}

func (l *life3) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.timer = time.AfterFunc(lifeEvery, l.look)
	}
}

func (l *life3) over() bool { return l.isOver.Load() }

func (l *life3) look() {
	if !l.ended() {
		l.wait()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	l.isOver.Store(true)
	l.cancel(wire.Refuse(wire.CodeSessionExpired))
	// What a handler waits for at this moment ends as well.
	control, past := http.NewResponseController(l.under), time.Unix(1, 0)
	control.SetReadDeadline(past)
	control.SetWriteDeadline(past)
}

func (l *life3) ended() bool {
	if l.record.Expired(l.middleware.nowMs()) {
		return true
	}
	found, err := l.middleware.session(l.request, l.record.ID)
	return codeOf(err) == wire.CodeSessionUnknown || err == nil && found.Record().Expired(l.middleware.nowMs())
}

// stop ends the looking, before the connection is used for another request.
func (l *life3) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.cancel(nil)
}
