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

// Refusal describes a rejected request for logs and metrics, in more detail than the peer receives.
type Refusal struct {
	// Wire is the wire of the request, as far as its headers show; 0 for a message of a card scheme.
	Wire wire.Version
	// Status is the status of the answer.
	Status int
	// Class is a stable name of the reason, for metrics: one of the errors of spec/registry.toml, a class of spec/mle.md, or a name for
	// what is not of the wire.
	Class string
	// Err is the reason; errors.As finds a *wire.Error if the bytes were at fault.
	Err error
}

// MiddlewareConfig configures a [Middleware]. A zero field means its default; Store has none.
type MiddlewareConfig struct {
	// Store has the sessions and claims the nonces.
	Store SessionStore
	// Routes is the route table; the first route that names a path counts. The default seals all paths.
	Routes []Route
	// Wires are the wires to serve. The default is all.
	Wires []wire.Version
	// Window is the greatest difference between a stamp and this machine's clock, either way. The default is 5 minutes, which is
	// also the greatest window of wire 3; the greatest of wires 1 and 2 is a day.
	Window time.Duration
	// TrustForwarded accepts the origin headers of spec/session-3.md (Forwarded, X-Forwarded-…, X-Real-IP, Client-Cert, X-Client-Cert…
	// and their kin) from outside a seal, for a trusted proxy that writes all of them itself. By default they are removed, from
	// plain requests too, since any party on the path can write them. Within a seal they are always removed.
	TrustForwarded bool
	// StoreTimeout bounds a question to the store. The default is 5 s.
	StoreTimeout time.Duration
	// BodyTimeout bounds the wait for the next frame of a sealed body, and on wires 1 and 2 for the whole body. The default is 30 s.
	BodyTimeout time.Duration
	// BufferedMaxBytes bounds the sealed bytes in memory that are not opened yet, of all requests together: whole bodies on wires 1 and
	// 2, frames on wire 3. The default is 64 MiB, the minimum 1 MiB. One remote address (of IPv6 a /64) may use a sixteenth of it, or
	// the longest BodyMaxBytes of wires 1 and 2 if that is more. With TrustForwarded the address of the proxy may use all of it. A
	// request beyond is rejected with 503 and ErrNoRoom.
	BufferedMaxBytes int64
	// AnswerMaxBytes bounds answers on wires 1 and 2, which are sealed whole. The default is 16 MiB.
	AnswerMaxBytes int64
	// Now is the clock. The default is time.Now.
	Now func() time.Time
	// OnRefusal receives every rejected request. It must not block.
	OnRefusal func(Refusal)
}

// ErrDisguisedPath rejects a path that a service may read as one that must be sealed.
var ErrDisguisedPath error = exchange.DisguisedPath

// Middleware opens sealed requests and seals the answers of ordinary handlers, on all wires. A preflight (OPTIONS)
// is never sealed: except on routes that are Off the answer is 204 and no handler sees it, so a handler for CORS has to wrap this one.
// A handler receives a plain request with X-Sealway-Client-Id, X-Sealway-Auth, X-Sealway-Subject and X-Sealway-Tenant, which only the
// middleware can set.
type Middleware struct {
	config MiddlewareConfig
	rules  []rule
	policy session.ReplayPolicy
	room   *room
}

// NewMiddleware returns a middleware. A wrong option is a [*UsageError].
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

// longestHeld returns the longest body that is kept whole: none on wire 3.
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

// Handler returns a handler that opens requests for next and seals its answers.
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

// boundBody bounds the rest of a request's body, for reads of net/http before an answer too. Not every server has deadlines. A request without a body has none to bound, and its connection is watched by a read of the server's.
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

// reject sends a rejection in the form of the wire. It keeps the headers that let a page read the answer.
func (m *Middleware) reject(w http.ResponseWriter, version wire.Version, rejection *exchange.Rejection) {
	status := sendRejection(w, exchange.FormOf(version), rejection)
	if m.config.OnRefusal != nil {
		m.config.OnRefusal(Refusal{version, status, string(rejection.Refusal), rejection.Err})
	}
}

// sendRejection sends a rejection in a form, and returns its status.
func sendRejection(w http.ResponseWriter, form exchange.Form, rejection *exchange.Rejection) int {
	status, headers, body := rejection.Answer(form)
	maps.DeleteFunc(w.Header(), func(name string, _ []string) bool {
		return !strings.EqualFold(name, "vary") && !strings.HasPrefix(strings.ToLower(name), "access-control-")
	})
	putHeaders(w.Header(), headers)
	w.WriteHeader(status)
	w.Write(body)
	return status
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
