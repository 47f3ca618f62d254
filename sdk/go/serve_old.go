package sealway

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// timing collects Server-Timing of an answer.
type timing struct {
	start, at time.Time
	entries   []string
}

func newTiming() *timing {
	now := time.Now()
	return &timing{start: now, at: now}
}

func ms(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 3, 64)
}

func (t *timing) lap(name string) {
	now := time.Now()
	t.entries = append(t.entries, name+";dur="+ms(now.Sub(t.at)))
	t.at = now
}

func (t *timing) write(header http.Header) {
	header.Set("Server-Timing", strings.Join(append(t.entries, "total;dur="+ms(time.Since(t.start))), ", "))
}

// refuseOld tells a refusal as the old wires do: one public error for all that does not open.
func (m *Middleware) refuseOld(w http.ResponseWriter, version wire.Version, err error) {
	switch code := codeOf(err); {
	case code == wire.CodeSessionUnknown || code == wire.CodeSessionExpired:
		m.plain(w, version, http.StatusUnauthorized, "SESSION_EXPIRED", err)
	case code == wire.CodeBodyTooLarge:
		m.plain(w, version, http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE", err)
	case code == wire.CodePolicy:
		m.plain(w, version, http.StatusForbidden, "SESSION_FORBIDDEN", err)
	case code == wire.CodeProvider || code == "" && !errors.Is(err, ErrStoreFull):
		m.plain(w, version, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE", err)
	default:
		m.plain(w, version, http.StatusBadRequest, "CRYPTO_ERROR", err)
	}
}

// serveOld is a sealed call of wires 1 and 2. spec/session.md#open
func (m *Middleware) serveOld(w http.ResponseWriter, r *http.Request, route Route, next http.Handler) {
	version, clock := wire.VersionOf(r.Header), newTiming()
	if !m.serves(version) {
		m.plain(w, version, http.StatusForbidden, "WIRE_DISABLED", wire.Refuse(wire.CodeWireMismatch))
		return
	}
	if r.Method != http.MethodPost {
		m.plain(w, version, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", wire.Refuse(wire.CodeUnsealable))
		return
	}
	opened, record, err := m.openOld(w, r, route, clock)
	if err != nil {
		m.refuseOld(w, version, err)
		return
	}
	request := r.Clone(r.Context())
	stripSealing(request.Header)
	for _, name := range ofSealedBody {
		request.Header.Del(name)
	}
	stripForwarded(request.Header, m.config.TrustForwarded)
	identify(request.Header, record)
	request.Header.Set("Content-Type", "application/json")
	request.Body, request.ContentLength, request.TransferEncoding = io.NopCloser(bytes.NewReader(opened.Plaintext)), int64(len(opened.Plaintext)), nil
	answer := &recorder{header: http.Header{}, max: m.config.AnswerMax}
	next.ServeHTTP(answer, request)
	clock.lap("upstream")
	m.answerOld(w, version, answer, opened.Reply, clock)
}

func (m *Middleware) openOld(w http.ResponseWriter, r *http.Request, route Route, clock *timing) (*session.Opened, *session.Record, error) {
	call, err := session.ParseCall(r.Header, sentPath(r), m.nowMs(), m.policy)
	if err != nil {
		return nil, nil, err
	}
	clock.lap("replay-protection")
	id, err := call.SessionID()
	if err != nil {
		return nil, nil, err
	}
	found, err := m.session(r, id)
	if err != nil {
		return nil, nil, err
	}
	clock.lap("session-get")
	if err := call.Check(found, m.nowMs()); err != nil {
		return nil, nil, err
	}
	limit := min(route.BodyMax, m.config.BufferedBytesMax)
	if found.Record().Anonymous() {
		if !route.Anonymous || sentPath(r) != route.Path {
			return nil, nil, wire.Refuse(wire.CodePolicy)
		}
		limit = min(limit, wire.AnonBodyMax)
	}
	if r.ContentLength > limit {
		return nil, nil, wire.Refuse(wire.CodeBodyTooLarge)
	}
	boundBody(w, r, m.config.BodyTimeout)
	held := m.holding(r)
	defer held.keep(0)
	body, err := held.readAll(r.Body, limit)
	if err != nil {
		return nil, nil, err
	}
	freeBody(w)
	// The body may have taken its time.
	if found, err = m.session(r, id); err != nil {
		return nil, nil, err
	}
	unreplayed, err := call.Open(found, body, m.nowMs())
	if err != nil {
		return nil, nil, err
	}
	clock.lap("aes-gcm-decrypt")
	fresh, err := m.reserve(r, unreplayed.Claim())
	if err != nil {
		return nil, nil, err
	}
	opened, err := unreplayed.Release(fresh)
	return opened, found.Record(), err
}

// ofSealedBody describes a sealed body, not the one inside, or asks for what a sealed answer cannot be.
var ofSealedBody = []string{"Content-Type", "Content-Length", "Content-Encoding", "Accept-Encoding", "Accept", "Expect", "Range", "If-Range", "If-Match",
	"If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "Te", "Trailer", "Upgrade", "Connection", "Keep-Alive", "Proxy-Connection", "Http2-Settings"}

// ofServiceBody describes the handler's own body, which goes into the seal.
var ofServiceBody = []string{"Content-Length", "Content-Encoding", "Content-Range", "Accept-Ranges", "Etag", "Last-Modified", "Trailer", "Transfer-Encoding"}

// answerOld seals a whole answer. spec/session.md#answer
func (m *Middleware) answerOld(w http.ResponseWriter, version wire.Version, answer *recorder, reply *session.Reply, clock *timing) {
	status := answer.status()
	switch {
	case answer.over:
		m.plain(w, version, http.StatusBadGateway, "SERVICE_UNAVAILABLE", &TooLargeError{"the handler's answer", m.config.AnswerMax})
		return
	case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
		m.plain(w, version, http.StatusBadRequest, "CRYPTO_ERROR", fmt.Errorf("sealway: the handler answered %d", status))
		return
	case status == http.StatusNotModified:
		m.plain(w, version, http.StatusBadGateway, "SERVICE_UNAVAILABLE", errors.New("sealway: the handler answered 304 to a POST"))
		return
	case status/100 == 2:
		status = http.StatusOK
	}
	var random session.SealRandoms
	rand.Read(random.IV[:])
	rand.Read(random.Nonce[:])
	message := reply.Seal(status, answer.body.Bytes(), m.nowMs(), random)
	clock.lap("aes-gcm-encrypt")
	header := w.Header()
	for name, values := range answer.header {
		header[name] = values
	}
	for _, name := range ofServiceBody {
		header.Del(name)
	}
	stripSealing(header)
	header.Set("Content-Type", message.ContentType)
	header.Set("Cache-Control", "no-store, no-transform")
	header.Set("Content-Length", strconv.Itoa(len(message.Body)))
	for _, pair := range message.Headers {
		header.Set(pair.Name, pair.Value)
	}
	clock.write(header)
	w.WriteHeader(status)
	w.Write(message.Body)
}

// recorder is a bounded answer that becomes one message.
type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
	max    int64
	over   bool
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(code int) {
	if r.code == 0 && code >= 200 {
		r.code = code
	}
}

func (r *recorder) Write(data []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if int64(r.body.Len()+len(data)) > r.max {
		r.over = true
		return 0, &TooLargeError{"the answer", r.max}
	}
	return r.body.Write(data)
}

func (r *recorder) status() int {
	if r.code == 0 {
		return http.StatusOK
	}
	return r.code
}
