package sealway

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// Config configures a [Transport]. A zero field means its default. Trust has none, and wire 3 requires it.
type Config struct {
	// AuthorityURL is the origin that agrees sessions and publishes identity keys. The default is the service itself.
	AuthorityURL string
	// Wire is the protocol: 1, 2, 3 or 4. The default is 3. Wires 1 and 2 do not authenticate the service and seal POST alone. Wire 4
	// seals each request to a key of the service, without a session, as [OneShot] does: the options of sessions (InitPath, ClientID,
	// Suites, TTL, Authorization, Proof) are errors there.
	Wire wire.Version
	// InitPath is the path of inits: /session/init (the default), /session/init/anon (wire 1) or /v1/session/init (wire 2).
	InitPath string
	// ClientID names this client: 1 to 256 bytes of printable ASCII without a vertical bar. The default is sealway-go.
	ClientID string
	// Trust verifies the identity of the service: [TrustPins], [TrustRoot] or [TrustFirstUse] on wire 3, [TrustKeyConfigs], [TrustKids] or
	// [TrustRoot] on wire 4.
	Trust Trust
	// PSK authenticates this client on wire 4. By default the service does not learn who the client is.
	PSK PSK
	// KEMs lists the key encapsulations that are allowed on wire 4; the service's order counts. The default is all of them.
	KEMs []crypto.KEM
	// Suites lists the key agreements of wire 3 in order of preference. The default is [crypto.Suites]; those with ML-KEM-1024 are
	// offered only if they are named.
	Suites []crypto.Suite
	// SignatureAlgorithms restricts the algorithms of identity keys (wire 3) and of the root (wires 3 and 4): 1 to 8, those with ML-DSA
	// only with the module sealway.dev/go/mldsa. By default the client accepts ES256, and of pinned keys and a pinned root every algorithm.
	SignatureAlgorithms []crypto.SignatureAlgorithm
	// TTL is the life to ask for a session, in whole seconds. The default is the service's.
	TTL time.Duration
	// Authorization returns the value of that header for an init, empty for none. Requests carry their own.
	Authorization func(context.Context) (string, error)
	// Proof returns the DPoP proof of an init on wire 3, whose claim init_hash is the base64url of initHash.
	Proof func(ctx context.Context, initHash [32]byte) (string, error)
	// Base sends the sealed messages. The default is like [http.DefaultTransport] and observes ConnectTimeout.
	Base http.RoundTripper
	// ConnectTimeout bounds the TCP connection, and once more the TLS handshake. The default is 10 s; negative means no bound.
	// A Base has its own.
	ConnectTimeout time.Duration
	// HeadTimeout bounds the time from the last sent part of a message to the head of its answer, which includes the first
	// frame. The default is 30 s; negative means no bound.
	HeadTimeout time.Duration
	// TotalTimeout bounds the whole call: agreement, retries, request and the body of the answer. The default is 60 s;
	// negative means no bound, for streams without an end. It also bounds an agreement that serves several calls.
	TotalTimeout time.Duration
	// IdleTimeout bounds the time between two parts of an answer. The default is 60 s; negative means no bound.
	IdleTimeout time.Duration
	// AnswerMaxBytes bounds an answer that is opened whole, on wires 1 and 2. The default is 16 MiB. Answers of wire 3 stream.
	AnswerMaxBytes int64
	// RequestMaxBytes bounds the body of a request that is sealed whole, on wires 1 and 2. The default is 16 MiB.
	RequestMaxBytes int64
	// OnMetrics receives the measurements of every call, init and renewal. It must not block.
	OnMetrics func(Exchange)
}

// Transport is an [http.RoundTripper] that seals requests to one service and opens the answers. It is safe for concurrent use.
// The first request agrees a session for all requests, and the transport renews the session before its end.
type Transport struct {
	config       Config
	serviceURL   *url.URL
	authorityURL *url.URL
	native       *slot[*nativeSession]
	compat       *slot[*compatSession]
	ring         *keyring
	oneShot      *oneShotClient // on wire 4
}

// NewTransport returns a transport for the service at serviceURL (scheme, host and port). It connects at the first request.
// A wrong option is an [*Error] of [StageConfiguration].
func NewTransport(serviceURL string, config Config) (*Transport, error) {
	t, err := newTransport(serviceURL, config)
	if err != nil {
		return nil, failure(StageConfiguration, nil, err)
	}
	return t, nil
}

func newTransport(serviceURL string, config Config) (*Transport, error) {
	t := &Transport{config: config}
	var err error
	if t.serviceURL, err = baseURL(serviceURL, "the service's URL"); err != nil {
		return nil, err
	}
	t.authorityURL = t.serviceURL
	if config.AuthorityURL != "" {
		if t.authorityURL, err = baseURL(config.AuthorityURL, "Config.AuthorityURL"); err != nil {
			return nil, err
		}
	}
	c := &t.config
	if err := checkOneShot(c); err != nil {
		return nil, err
	}
	c.Wire = orDefault(c.Wire, wire.Wire3)
	c.ClientID = orDefault(c.ClientID, "sealway-go")
	c.InitPath = orDefault(c.InitPath, "/session/init")
	if len(c.Suites) == 0 {
		c.Suites = crypto.Suites()
	}
	if len(c.KEMs) == 0 {
		c.KEMs = crypto.KEMs()
	}
	if err := checkConfig(c); err != nil {
		return nil, err
	}
	c.AnswerMaxBytes = orDefault(c.AnswerMaxBytes, 16<<20)
	c.RequestMaxBytes = orDefault(c.RequestMaxBytes, 16<<20)
	c.ConnectTimeout = orDefault(c.ConnectTimeout, 10*time.Second)
	c.HeadTimeout = orDefault(c.HeadTimeout, 30*time.Second)
	c.TotalTimeout = orDefault(c.TotalTimeout, 60*time.Second)
	c.IdleTimeout = orDefault(c.IdleTimeout, 60*time.Second)
	if c.Base == nil {
		connect := max(c.ConnectTimeout, 0)
		c.Base = &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: connect, KeepAlive: 30 * time.Second}).DialContext,
			ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64,
			IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: connect, ExpectContinueTimeout: time.Second,
			MaxResponseHeaderBytes: 64 << 10, DisableCompression: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	}
	t.native, t.compat = newSlot[*nativeSession](c.TotalTimeout, "agreeing a session"), newSlot[*compatSession](c.TotalTimeout, "agreeing a session")
	switch c.Wire {
	case wire.Wire3:
		t.ring, err = newKeyring(c.Trust, c.SignatureAlgorithms, origin(t.authorityURL))
	case wire.Wire4:
		t.oneShot = &oneShotClient{pskID: c.PSK.ID}
		copy(t.oneShot.psk[:], c.PSK.Key)
		t.oneShot.documents, err = newDocuments(c, origin(t.authorityURL))
	}
	return t, err
}

func orDefault[T comparable](value, standard T) T {
	var zero T
	if value == zero {
		return standard
	}
	return value
}

func checkConfig(c *Config) error {
	switch {
	case c.Wire < wire.Wire1 || c.Wire > wire.Wire4:
		return &UsageError{fmt.Sprintf("Config.Wire is %d: it is 1, 2, 3 or 4, or 0 for 3", c.Wire)}
	case !wire.ValidClientID(c.ClientID):
		return &UsageError{"Config.ClientID is not 1 to 256 bytes of printable ASCII without a vertical bar: leave it empty for sealway-go"}
	case c.InitPath != "/session/init" && !(c.InitPath == "/session/init/anon" && c.Wire == wire.Wire1) && !(c.InitPath == "/v1/session/init" && c.Wire == wire.Wire2):
		return &UsageError{"Config.InitPath is " + c.InitPath + ": it is /session/init, /session/init/anon (wire 1) or /v1/session/init (wire 2)"}
	case c.TTL < 0 || c.TTL/time.Second > 1<<31:
		return &UsageError{fmt.Sprintf("Config.TTL is %v: it is 0 to %d seconds", c.TTL, 1<<31)}
	case c.AnswerMaxBytes < 0 || c.RequestMaxBytes < 0:
		return &UsageError{fmt.Sprintf("Config.AnswerMaxBytes and Config.RequestMaxBytes are %d and %d: neither is negative, and 0 is the default", c.AnswerMaxBytes, c.RequestMaxBytes)}
	case c.Base != nil && c.ConnectTimeout != 0:
		return &UsageError{"Config.ConnectTimeout has no effect beside Config.Base: set it there, or leave one of them out"}
	case c.Trust.err != nil:
		return c.Trust.err
	case len(c.Suites) > wire.SuitesMax:
		return &UsageError{fmt.Sprintf("Config.Suites has %d suites: at most %d", len(c.Suites), wire.SuitesMax)}
	}
	for _, suite := range c.Suites {
		if _, known := crypto.ParseSuite(string(suite)); !known {
			return &UsageError{fmt.Sprintf("Config.Suites: %.64q is unknown: the suites are %v", suite, crypto.AllSuites())}
		}
	}
	if err := checkAlgorithms(c); err != nil {
		return err
	}
	isMissing := c.Trust.kind == trustPins && len(c.Trust.pins) == 0
	switch {
	case c.Wire == wire.Wire3 && (isMissing || c.Trust.kind == trustKeyConfigs || c.Trust.kind == trustKids):
		return &UsageError{"Config.Trust is missing, or of wire 4: give TrustPins, TrustRoot or TrustFirstUse"}
	case c.Wire == wire.Wire4 && !c.Trust.isOneShot():
		return &UsageError{"Config.Trust is missing, or of wire 3: give TrustKeyConfigs, TrustKids or TrustRoot"}
	}
	return nil
}

// checkAlgorithms rejects algorithms that this program does not have, and pinned keys and roots that the client would never accept.
func checkAlgorithms(c *Config) error {
	if len(c.SignatureAlgorithms) > wire.AlgorithmsMax {
		return &UsageError{fmt.Sprintf("Config.SignatureAlgorithms has %d algorithms: at most %d", len(c.SignatureAlgorithms), wire.AlgorithmsMax)}
	}
	for i, algorithm := range c.SignatureAlgorithms {
		switch {
		case algorithm.PublicLen() == 0:
			return &UsageError{fmt.Sprintf("Config.SignatureAlgorithms: %.64q is unknown: the algorithms are %v", algorithm, crypto.SignatureAlgorithms())}
		case !algorithm.Available():
			return &UsageError{fmt.Sprintf("Config.SignatureAlgorithms: %s needs the module sealway.dev/go/mldsa: import it", algorithm)}
		case slices.Contains(c.SignatureAlgorithms[:i], algorithm):
			return &UsageError{fmt.Sprintf("Config.SignatureAlgorithms has %s twice", algorithm)}
		}
	}
	for _, public := range append(slices.Collect(maps.Values(c.Trust.pins)), c.Trust.root) {
		if public != nil && !session.Algorithms(c.SignatureAlgorithms).Accept(public, true) {
			return &UsageError{"Config.Trust: the key " + crypto.KeyID(public) + " " + notAccepted(c.SignatureAlgorithms, public)}
		}
	}
	return nil
}

// checkOneShot rejects options of wire 4 on another wire, and options of sessions on wire 4.
func checkOneShot(c *Config) error {
	hasPSK := c.PSK.ID != "" || len(c.PSK.Key) > 0
	switch {
	case c.Wire != wire.Wire4 && (hasPSK || len(c.KEMs) > 0):
		return &UsageError{"Config.PSK and Config.KEMs are of wire 4: set Config.Wire to 4, or leave them out"}
	case c.Wire == wire.Wire4 && (c.Authorization != nil || c.Proof != nil || c.TTL != 0 || len(c.Suites) > 0 || c.ClientID != "" || c.InitPath != ""):
		return &UsageError{"Config.Authorization, Proof, TTL, Suites, ClientID and InitPath are of sessions, and wire 4 has none: leave them out"}
	case hasPSK && (!wire.ValidPSKID(c.PSK.ID) || len(c.PSK.Key) != wire.KeyLen):
		return &UsageError{"Config.PSK has an ID of 1 to 64 bytes of visible ASCII and a Key of 32 bytes, or neither"}
	}
	for _, kem := range c.KEMs {
		if kem.PublicLen() == 0 {
			return &UsageError{fmt.Sprintf("Config.KEMs: %v is unknown: the KEMs are %v", kem, crypto.KEMs())}
		}
	}
	return nil
}

func baseURL(text, what string) (*url.URL, error) {
	const form = "http:// or https://, a host and perhaps a port, as https://api.example.com:8443"
	if text == "" {
		return nil, &UsageError{what + " is missing: give " + form}
	}
	parsed, err := url.Parse(strings.TrimSuffix(text, "/"))
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Hostname() == "" || parsed.Path != "" ||
		parsed.RawQuery != "" || parsed.User != nil || parsed.Fragment != "" {
		return nil, &UsageError{what + " is not " + form + "; nothing else may stand in it"}
	}
	return parsed, nil
}

// origin returns scheme, host in lower case and port.
func origin(u *url.URL) string { return u.Scheme + "://" + hostOf(u) }

// hostOf returns host in lower case and port.
func hostOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// RoundTrip seals a request, sends it and opens the answer. It retries once a request that the service has provably not served,
// if the body is available again (GetBody). On wire 3 the body of the answer opens as it arrives; a body that ends early is an
// error of Read. An error is an [*Error], except for the error of a context that the caller cancelled.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	source := &bodySource{request: request}
	defer source.closeUnused()
	response, err := t.roundTrip(request, source)
	if err != nil {
		return nil, failureOf(request.Context(), StageCall, t.serviceURL, err)
	}
	return response, nil
}

func (t *Transport) roundTrip(request *http.Request, source *bodySource) (*http.Response, error) {
	if origin(request.URL) != origin(t.serviceURL) {
		return nil, &UsageError{"the request goes to " + origin(request.URL) + ", and the transport seals for " + origin(t.serviceURL) + ": make another transport for it"}
	}
	for name := range request.Header {
		lower := strings.ToLower(name)
		if wire.IsSealing(lower) || strings.HasPrefix(lower, "x-sealway-") {
			return nil, &UsageError{"the header " + name + " is reserved: remove it"}
		}
	}
	switch name := method(request); name {
	case http.MethodConnect, http.MethodTrace, http.MethodOptions:
		return nil, &UsageError{name + " is not sealed"}
	}
	ctx, cancel := t.withTotal(request.Context())
	exchange := t.roundTripCompat
	switch t.config.Wire {
	case wire.Wire3:
		exchange = t.roundTripNative
	case wire.Wire4:
		exchange = t.roundTripOneShot
	}
	response, err := exchange(request.WithContext(ctx), source)
	if err != nil {
		cancel()
		return nil, err
	}
	response.Request = request
	response.Body = &answerBody{ReadCloser: response.Body, ctx: request.Context(), url: t.serviceURL, end: cancel}
	return response, nil
}

// withTotal returns a context that ends after TotalTimeout.
func (t *Transport) withTotal(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.config.TotalTimeout < 0 {
		return context.WithCancel(ctx)
	}
	late := &TimeoutError{Wait: "the call", After: t.config.TotalTimeout, Option: "Config.TotalTimeout"}
	return context.WithTimeoutCause(ctx, t.config.TotalTimeout, late)
}

// answerBody is the body of an answer: its errors name stage, code and host, and its end ends the time of the call.
type answerBody struct {
	io.ReadCloser
	ctx context.Context
	url *url.URL
	end context.CancelFunc
}

// Read returns an [*Error] where the body breaks off or takes too long.
func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	if err != nil && err != io.EOF && err != http.ErrBodyReadAfterClose {
		err = failureOf(b.ctx, StageCall, b.url, err)
	}
	return n, err
}

// Close ends the call.
func (b *answerBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// Client returns an [http.Client] over this transport.
func (t *Transport) Client() *http.Client { return &http.Client{Transport: t} }

// Session returns the id of the session in use, and agrees a session if there is none. An error is an [*Error] of
// [StageAgreement]. Wire 4 has no session.
func (t *Transport) Session(ctx context.Context) (id string, err error) {
	if t.config.Wire == wire.Wire4 {
		return "", failure(StageConfiguration, nil, &UsageError{"wire 4 has no session"})
	}
	if t.config.Wire == wire.Wire3 {
		agreed, err := t.currentNative(ctx)
		if err != nil {
			return "", err
		}
		return agreed.session.ID(), nil
	}
	agreed, err := t.currentCompat(ctx)
	if err != nil {
		return "", err
	}
	return agreed.session.ID(), nil
}

// KeyID returns the id of the identity key that signed the session in use; empty on wires 1, 2 and 4, and before the first session.
func (t *Transport) KeyID() string {
	if agreed, ok := t.native.peek(); ok {
		return agreed.session.Agreed().KeyID
	}
	return ""
}

// Suite returns the suite of the session in use; empty on wires 1, 2 and 4, and before the first session.
func (t *Transport) Suite() crypto.Suite {
	if agreed, ok := t.native.peek(); ok {
		return crypto.Suite(agreed.session.Agreed().Suite)
	}
	return ""
}

// End wipes the keys of the session in use and, on wire 3, ends the session at the service. The next request agrees another. On wire 4
// it does nothing.
func (t *Transport) End(ctx context.Context) error {
	t.compat.forget()
	agreed, ok := t.native.take()
	if !ok {
		return nil
	}
	defer agreed.session.Wipe()
	if agreed.over() {
		return nil
	}
	total, cancel := t.withTotal(ctx)
	defer cancel()
	return failureOf(ctx, StageAgreement, t.authorityURL, t.endNative(total, agreed))
}

// CloseIdleConnections closes the connections of Base that no request uses.
func (t *Transport) CloseIdleConnections() {
	if closer, ok := t.config.Base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// String returns the origin of the service, and no key.
func (t *Transport) String() string { return "sealway.Transport(" + origin(t.serviceURL) + ")" }

func (t *Transport) measured(exchange Exchange) {
	if t.config.OnMetrics != nil {
		t.config.OnMetrics(exchange)
	}
}
