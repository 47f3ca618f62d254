package sealway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// Refusal is a request that was not let in: for logs and metrics, finer than what the peer was told.
type Refusal struct {
	// Wire is that of the request, as far as it shows.
	Wire wire.Version
	// Status is what the peer was told.
	Status int
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
	// WindowMs is how far stamps may be off, either way; 0 is 300 000, and on wire 3 more is 300 000 too.
	WindowMs uint64
	// TrustForwarded passes the origin headers of spec/session-3.md (Forwarded, X-Forwarded-…, X-Real-IP, Client-Cert, X-Client-Cert…
	// and their kin) on from outside a seal, for a proxy in front that writes all of them itself. Without it they are removed, in
	// plain requests too: anybody on the path could have written them. Within a seal they are always removed.
	TrustForwarded bool
	// StoreTimeout bounds a question to the store; 0 is 5 s.
	StoreTimeout time.Duration
	// BodyTimeout bounds the wait for the next frame of a sealed body, of 64 KiB at most, and on wires 1 and 2 for all of a body;
	// 0 is 30 s.
	BodyTimeout time.Duration
	// BufferedBytesMax bounds the bytes of sealed bodies that have arrived and are not opened yet, of all requests together: whole bodies
	// on wires 1 and 2, frames on wire 3. 0 is 64 MiB, 1 MiB is the least. One remote address (of IPv6 a /64) has a sixteenth of it, or
	// the longest BodyMax of wires 1 and 2 if that is more; with TrustForwarded all of it, since the proxy's address is everybody's.
	// What is over it is refused with 503 and ErrNoRoom.
	BufferedBytesMax int64
	// AnswerMax bounds answers on wires 1 and 2, which become one message, in bytes; 0 is 16 MiB.
	AnswerMax int64
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// OnRefusal is told of every refusal, if it is there. It must not block.
	OnRefusal func(Refusal)
}

// ErrDisguisedPath is a refusal's error: the path may be read as one that must be sealed.
var ErrDisguisedPath = errors.New("sealway: the path is another spelling of a sealed one")

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
		return nil, &UsageError{"MiddlewareConfig.Store is missing: NewAuthority or redisstore.Open make one"}
	}
	if config.WindowMs > wire.WindowMsMax {
		return nil, &UsageError{fmt.Sprintf("MiddlewareConfig.WindowMs is %d: it is %d at most, a day", config.WindowMs, wire.WindowMsMax)}
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
	if config.StoreTimeout < 0 || config.BodyTimeout < 0 || config.AnswerMax < 0 {
		return nil, &UsageError{fmt.Sprintf("MiddlewareConfig.StoreTimeout, BodyTimeout and AnswerMax are %v, %v and %d: none is negative, and 0 is the default",
			config.StoreTimeout, config.BodyTimeout, config.AnswerMax)}
	}
	if len(config.Wires) == 0 {
		config.Wires = []wire.Version{wire.Wire1, wire.Wire2, wire.Wire3}
	}
	if config.BufferedBytesMax == 0 {
		config.BufferedBytesMax = bufferedBytesMax
	}
	if config.BufferedBytesMax < bufferedBytesMin {
		return nil, &UsageError{fmt.Sprintf("MiddlewareConfig.BufferedBytesMax is %d: it is %d at least, 1 MiB, or 0 for 64 MiB", config.BufferedBytesMax, bufferedBytesMin)}
	}
	config.StoreTimeout = orDefault(config.StoreTimeout, 5*time.Second)
	config.BodyTimeout = orDefault(config.BodyTimeout, 30*time.Second)
	if config.AnswerMax == 0 {
		config.AnswerMax = 16 << 20
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Middleware{config, rules, session.ReplayPolicy{WindowMs: config.WindowMs}, newRoom(config.BufferedBytesMax, longestHeld(config))}, nil
}

// longestHeld is the longest body that is held whole: none on wire 3.
func longestHeld(config MiddlewareConfig) int64 {
	if slices.Equal(config.Wires, []wire.Version{wire.Wire3}) {
		return 0
	}
	longest := int64(wire.SealedBodyMax)
	for _, route := range config.Routes {
		longest = max(longest, route.BodyMax)
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
		sealed3 := len(r.Header.Values(wire.HeaderSeal)) > 0
		marked := sealed3 || len(r.Header.Values(wire.HeaderKid)) > 0 || len(r.Header.Values(wire.HeaderIdempotencyKey)) > 0
		switch {
		case !ok:
			m.plain(w, wire.VersionOf(r.Header), http.StatusBadRequest, "CRYPTO_ERROR", ErrDisguisedPath)
		case route.Mode == Off, route.Mode == Optional && !marked && r.Method != http.MethodOptions:
			plain := r.Clone(r.Context())
			stripSealing(plain.Header)
			stripForwarded(plain.Header, m.config.TrustForwarded)
			next.ServeHTTP(w, plain)
		case r.Method == http.MethodOptions:
			w.Header().Set("Allow", "POST, OPTIONS")
			w.WriteHeader(http.StatusNoContent)
		case sealed3:
			boundBody(w, r, m.config.BodyTimeout)
			m.serve3(w, r, route, next)
		default:
			boundBody(w, r, m.config.BodyTimeout)
			m.serveOld(w, r, route, next)
		}
	})
}

// stripSealing takes out what only the middleware may say, in every spelling, and the headers of seals.
func stripSealing(header http.Header) {
	for name := range header {
		if lower := strings.ToLower(name); isSealing(lower) || session.IsClaimed(lower) {
			delete(header, name)
		}
	}
}

func stripForwarded(header http.Header, trusted bool) {
	for name := range header {
		if session.IsOrigin(name) && !session.IsBelieved(name, trusted) {
			delete(header, name)
		}
	}
}

// identify tells a handler whose request it is.
func identify(header http.Header, record *session.Record) {
	for name, value := range map[string]string{"X-Sealway-Client-Id": record.ClientID, "X-Sealway-Auth": string(record.Auth),
		"X-Sealway-Subject": record.Subject, "X-Sealway-Tenant": record.Tenant} {
		if value != "" {
			header.Set(name, headerText(value))
		}
	}
}

// headerText writes a text as a header carries it, two texts never alike: what is not visible ASCII, percent signs, and spaces
// at its ends are percent-encoded.
func headerText(text string) string {
	var out strings.Builder
	for i := range len(text) {
		b := text[i]
		if b > ' ' && b < 0x7f && b != '%' || b == ' ' && i > 0 && i < len(text)-1 {
			out.WriteByte(b)
		} else {
			fmt.Fprintf(&out, "%%%02X", b)
		}
	}
	return out.String()
}

func (m *Middleware) storeContext(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), m.config.StoreTimeout)
}

func (m *Middleware) session(r *http.Request, id string) (*session.Session, error) {
	ctx, cancel := m.storeContext(r)
	defer cancel()
	return m.config.Store.Session(ctx, id)
}

func (m *Middleware) reserve(r *http.Request, claim session.Claim) (session.Fresh, error) {
	ctx, cancel := m.storeContext(r)
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

func (m *Middleware) serves(version wire.Version) bool {
	return slices.Contains(m.config.Wires, version)
}

func (m *Middleware) refused(version wire.Version, status int, err error) {
	if m.config.OnRefusal != nil {
		m.config.OnRefusal(Refusal{version, status, err})
	}
}

// path is the request's as sent, without its query; target with it.
func sentTarget(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		return r.RequestURI
	}
	return r.URL.RequestURI()
}

func sentPath(r *http.Request) string {
	path, _, _ := strings.Cut(sentTarget(r), "?")
	return path
}

// codeOf finds the code of a refusal, empty for one of a store.
func codeOf(err error) wire.Code {
	var refused *wire.Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	var code wire.Code
	errors.As(err, &code)
	return code
}

var problemTitles = map[string]struct {
	status int
	title  string
}{
	"session_expired":      {401, "The session is over or unknown: agree a new one."},
	"unsealable":           {400, "The request does not open."},
	"replayed":             {409, "The request was received before."},
	"clock_skew":           {400, "The request's time is too far from the server's."},
	"policy":               {403, "The client may not do this."},
	"wire_disabled":        {403, "This wire is not served here."},
	"too_large":            {413, "The message is over its bound."},
	"method_not_allowed":   {405, "Another method is needed."},
	"store_unavailable":    {503, "Try again later."},
	"upstream_unreachable": {502, "The service behind did not answer."},
}

// problemOf maps a refusal to the problem that a client of wire 3 is told.
func problemOf(err error) string {
	switch codeOf(err) {
	case wire.CodeSessionUnknown, wire.CodeSessionExpired:
		return "session_expired"
	case wire.CodeTimestampOutsideWindow:
		return "clock_skew"
	case wire.CodeReplayed:
		return "replayed"
	case wire.CodeBodyTooLarge:
		return "too_large"
	case wire.CodePolicy:
		return "policy"
	case wire.CodeProvider, "":
		return "store_unavailable"
	}
	return "unsealable"
}

// clearButForPages takes out what was set before a refusal, but for what lets a page read it.
func clearButForPages(header http.Header) {
	for name := range header {
		if lower := strings.ToLower(name); lower != "vary" && !strings.HasPrefix(lower, "access-control-") {
			delete(header, name)
		}
	}
}

// problem answers with a problem, and more members of it.
func (m *Middleware) problem(w http.ResponseWriter, code string, err error, more map[string]any) {
	about := problemTitles[code]
	body := map[string]any{"type": "urn:sealway:problem:" + code, "title": about.title, "status": about.status, "code": code}
	for name, value := range more {
		body[name] = value
	}
	data, _ := json.Marshal(body) // cannot fail
	header := w.Header()
	clearButForPages(header)
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store")
	if code == "store_unavailable" {
		header.Set("Retry-After", "1")
	}
	w.WriteHeader(about.status)
	w.Write(data)
	m.refused(wire.Wire3, about.status, err)
}

// plain answers as the old wires do.
func (m *Middleware) plain(w http.ResponseWriter, version wire.Version, status int, code string, err error) {
	header := w.Header()
	clearButForPages(header)
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	switch status {
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", "1")
	case http.StatusMethodNotAllowed:
		header.Set("Allow", "POST, OPTIONS")
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":%q}`, code)
	m.refused(version, status, err)
}
