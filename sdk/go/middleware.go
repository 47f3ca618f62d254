package sealway

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"sealway.dev/go/internal/exchange"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// Refusal is a request that was not let in: for logs and metrics, finer than what the peer was told.
type Refusal struct {
	// Wire is that of the request, as far as it shows.
	Wire wire.Version
	// Status is what the peer was told.
	Status int
	// Class is a stable name of the reason, for metrics: one of the errors of spec/registry.toml, or a name for what is not of the wire.
	Class string
	// Err is why; errors.As finds a *wire.Error where the bytes were at fault.
	Err error
}

// MiddlewareConfig says how a [Middleware] opens and seals.
type MiddlewareConfig struct {
	// Store has the sessions; it must be there.
	Store SessionStore
	// Routes is the route table, in which the first that names a path counts; empty seals everything.
	Routes []Route
	// Wires are those that are served; empty is all.
	Wires []wire.Version
	// Window is the greatest difference between a stamp and this machine's clock, either way. The default is 5 minutes, which is
	// also the greatest window of wire 3; the greatest of wires 1 and 2 is a day.
	Window time.Duration
	// TrustForwarded passes the origin headers of spec/session-3.md (Forwarded, X-Forwarded-…, X-Real-IP, Client-Cert, X-Client-Cert…
	// and their kin) on from outside a seal, for a proxy in front that writes all of them itself. Without it they are removed, in
	// plain requests too: anybody on the path could have written them. Within a seal they are always removed.
	TrustForwarded bool
	// StoreTimeout bounds a question to the store; 0 is 5 s.
	StoreTimeout time.Duration
	// BodyTimeout bounds the wait for the next frame of a sealed body, of 64 KiB at most, and on wires 1 and 2 for all of a body;
	// 0 is 30 s.
	BodyTimeout time.Duration
	// BufferedMaxBytes bounds the bytes of sealed bodies that have arrived and are not opened yet, of all requests together: whole bodies
	// on wires 1 and 2, frames on wire 3. 0 is 64 MiB, 1 MiB is the least. One remote address (of IPv6 a /64) has a sixteenth of it, or
	// the longest BodyMaxBytes of wires 1 and 2 if that is more; with TrustForwarded all of it, since the proxy's address is everybody's.
	// What is over it is refused with 503 and ErrNoRoom.
	BufferedMaxBytes int64
	// AnswerMax bounds answers on wires 1 and 2, which become one message, in bytes; 0 is 16 MiB.
	AnswerMaxBytes int64
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// OnRefusal is told of every refusal, if it is there. It must not block.
	OnRefusal func(Refusal)
}

// ErrDisguisedPath is a refusal's error: the path may be read as one that must be sealed.
var ErrDisguisedPath error = exchange.DisguisedPath

// Middleware opens sealed requests and seals the answers of ordinary handlers, on all wires. OPTIONS is a browser's question, which
// is never sealed: but for routes that are Off it is 204 and reaches no handler, so what answers for CORS wraps this one. A handler
// sees a plain request, with who its client is in X-Sealway-Client-Id, X-Sealway-Auth, X-Sealway-Subject and X-Sealway-Tenant, which nobody else can set.
type Middleware struct {
	config MiddlewareConfig
	rules  []rule
	policy session.ReplayPolicy
	room   *room
}

// NewMiddleware makes one of a configuration.
func NewMiddleware(config MiddlewareConfig) (*Middleware, error) {
	if config.Store == nil {
		return nil, &UsageError{"MiddlewareConfig.Store is missing: NewAuthorityStore or redisstore.Open make one"}
	}
	if config.Window < 0 || config.Window > wire.WindowMsMax*time.Millisecond {
		return nil, &UsageError{fmt.Sprintf("MiddlewareConfig.Window is %v: it is 0 to 24h, and 0 is the default", config.Window)}
	}
	rules, err := rulesOf(config.Routes)
	if err != nil {
		return nil, err
	}
	for _, version := range config.Wires {
		if version < wire.Wire1 || version > wire.Wire3 {
			return nil, &UsageError{fmt.Sprintf("MiddlewareConfig.Wires has %d: wires are 1, 2 and 3", version)}
		}
	}
	if config.StoreTimeout < 0 || config.BodyTimeout < 0 || config.AnswerMaxBytes < 0 {
		return nil, &UsageError{fmt.Sprintf("MiddlewareConfig.StoreTimeout, BodyTimeout and AnswerMaxBytes are %v, %v and %d: none is negative, and 0 is the default",
			config.StoreTimeout, config.BodyTimeout, config.AnswerMaxBytes)}
	}
	if len(config.Wires) == 0 {
		config.Wires = []wire.Version{wire.Wire1, wire.Wire2, wire.Wire3}
	}
	if config.BufferedMaxBytes == 0 {
		config.BufferedMaxBytes = bufferedBytesMax
	}
	if config.BufferedMaxBytes < bufferedBytesMin {
		return nil, &UsageError{fmt.Sprintf("MiddlewareConfig.BufferedMaxBytes is %d: it is %d at least, 1 MiB, or 0 for 64 MiB", config.BufferedMaxBytes, bufferedBytesMin)}
	}
	config.StoreTimeout = orDefault(config.StoreTimeout, 5*time.Second)
	config.BodyTimeout = orDefault(config.BodyTimeout, 30*time.Second)
	if config.AnswerMaxBytes == 0 {
		config.AnswerMaxBytes = 16 << 20
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Middleware{config, rules, session.ReplayPolicy{WindowMs: uint64(config.Window.Milliseconds())}, newRoom(config.BufferedMaxBytes, longestHeld(config))}, nil
}

// longestHeld is the longest body that is held whole: none on wire 3.
func longestHeld(config MiddlewareConfig) int64 {
	if slices.Equal(config.Wires, []wire.Version{wire.Wire3}) {
		return 0
	}
	longest := int64(wire.SealedBodyMax)
	for _, route := range config.Routes {
		longest = max(longest, route.BodyMaxBytes)
	}
	return longest
}

// holding is the room that a request's body takes.
func (m *Middleware) holding(r *http.Request) *holding {
	if m.config.TrustForwarded {
		return m.room.holding("")
	}
	return m.room.holding(r.RemoteAddr)
}

func (m *Middleware) nowMs() uint64 { return uint64(max(0, m.config.Now().UnixMilli())) }

// Handler wraps a handler.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route, ok := m.route(r.URL.EscapedPath())
		isPlain := r.Method != http.MethodOptions && !exchange.LooksSealed(r.Header)
		if ok && (route.Mode == Off || route.Mode == Optional && isPlain) {
			plain := r.Clone(r.Context())
			maps.DeleteFunc(plain.Header, func(name string, _ []string) bool { return !exchange.Crosses(name, m.config.TrustForwarded) })
			next.ServeHTTP(w, plain)
			return
		}
		boundBody(w, r, m.config.BodyTimeout)
		switch {
		case !ok:
			m.reject(w, wire.VersionOf(r.Header), exchange.Reject(ErrDisguisedPath))
		case r.Method == http.MethodOptions:
			w.Header().Set("Allow", "POST, OPTIONS")
			w.WriteHeader(http.StatusNoContent)
		default:
			m.serve(w, r, route, next)
		}
	})
}

func (m *Middleware) session(r *http.Request, id string) (*session.Session, error) {
	ctx, cancel := context.WithTimeout(r.Context(), m.config.StoreTimeout)
	defer cancel()
	return m.config.Store.Session(ctx, id)
}

func (m *Middleware) reserve(r *http.Request, claim session.Claim) (session.Fresh, error) {
	ctx, cancel := context.WithTimeout(r.Context(), m.config.StoreTimeout)
	defer cancel()
	return m.config.Store.Reserve(ctx, claim)
}

// boundBody bounds what is still to come of a request's body, whoever reads it: net/http does before it sends an answer. Not
// every server has deadlines. A request without a body has none to bound, and its connection is watched by a read of the server's.
func boundBody(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	if r.ContentLength != 0 {
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(wait))
	}
}

func freeBody(w http.ResponseWriter) { http.NewResponseController(w).SetReadDeadline(time.Time{}) }

// sentTarget is path and query as sent.
func sentTarget(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		return r.RequestURI
	}
	return r.URL.RequestURI()
}

// reject answers with what the client of a wire is told of a rejection. Of what was set before it stays what lets a page read it.
func (m *Middleware) reject(w http.ResponseWriter, version wire.Version, rejection *exchange.Rejection) {
	status, headers, body := rejection.Answer(exchange.FormOf(version))
	maps.DeleteFunc(w.Header(), func(name string, _ []string) bool {
		return !strings.EqualFold(name, "vary") && !strings.HasPrefix(strings.ToLower(name), "access-control-")
	})
	putHeaders(w.Header(), headers)
	w.WriteHeader(status)
	w.Write(body)
	if m.config.OnRefusal != nil {
		m.config.OnRefusal(Refusal{version, status, string(rejection.Refusal), rejection.Err})
	}
}

// headerList is a header as the core reads it.
func headerList(header http.Header) wire.HeaderList {
	list := make(wire.HeaderList, 0, len(header))
	for name, values := range header {
		for _, value := range values {
			list = append(list, wire.Header{Name: name, Value: value})
		}
	}
	return list
}

// putHeaders puts a list in the place of what a header has under its names.
func putHeaders(header http.Header, list wire.HeaderList) {
	for _, pair := range list {
		header.Del(pair.Name)
	}
	for _, pair := range list {
		header.Add(pair.Name, pair.Value)
	}
}
