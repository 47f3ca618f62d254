package sealway

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// Config says how a [Transport] seals. The zero value is wire 3 with every suite, and trusts nobody: set Trust.
type Config struct {
	// ServerURL is where sealed requests go; empty is where sessions are agreed. Requests to another origin are refused.
	ServerURL string
	// Wire is 1, 2 or 3; 0 is 3. On wires 1 and 2 nothing proves who the service is, and POST alone is sealed.
	Wire wire.Version
	// InitPath is where sessions of wires 1 and 2 are agreed; empty is /session/init. /session/init/anon (wire 1) and
	// /v1/session/init (wire 2) are the others.
	InitPath string
	// ClientID is who the client says it is: 1 to 256 bytes of printable ASCII without a vertical bar; empty is sealway-go.
	ClientID string
	// Trust is whose word the client takes for who the service is; wire 3 needs it.
	Trust Trust
	// Suites are those that the client takes on wire 3, the one it likes most first; empty is all.
	Suites []crypto.Suite
	// TTL is how long a session is to live, in whole seconds; 0 leaves it to the server.
	TTL time.Duration
	// Authorization gives the value of that header for an init, empty for none. It is not a request's.
	Authorization func(context.Context) (string, error)
	// Proof gives a DPoP proof for an init on wire 3, whose claim init_hash is the base64url of initHash; nil is none.
	Proof func(ctx context.Context, initHash [32]byte) (string, error)
	// Base sends what was sealed; nil is one like [http.DefaultTransport], which has 10 s to connect and 10 s for the handshake of TLS.
	Base http.RoundTripper
	// InitTimeout bounds an init or a renewal; 0 is 30 s.
	InitTimeout time.Duration
	// HeadTimeout bounds the wait for the head of an answer, its first frame with it; 0 is 60 s, negative none.
	HeadTimeout time.Duration
	// IdleTimeout bounds the wait for the next bytes of an answer's body; 0 is 60 s, negative none.
	IdleTimeout time.Duration
	// BodyMax bounds the sealed bodies of answers on wires 1 and 2, and of requests there, in bytes; 0 is 16 MiB. Bodies of
	// wire 3 stream, and are as long as they are.
	BodyMax int64
	// Observe is told of every call, init and renewal, if it is there. It must not block.
	Observe func(Exchange)
}

// Transport is an [http.RoundTripper] that seals requests to one service and opens its answers. It is safe for concurrent use.
// A session is agreed at the first request, once for all who wait, and renewed in good time.
type Transport struct {
	config     Config
	sessionURL *url.URL
	serverURL  *url.URL
	native     *slot[*nativeSession]
	compat     *slot[*compatSession]
	ring       *keyring
}

// NewTransport makes a transport for the service whose sessions are agreed at sessionURL (scheme, host and port). It sends nothing.
func NewTransport(sessionURL string, config Config) (*Transport, error) {
	t := &Transport{config: config}
	var err error
	if t.sessionURL, err = baseURL(sessionURL, "the session URL"); err != nil {
		return nil, err
	}
	t.serverURL = t.sessionURL
	if config.ServerURL != "" {
		if t.serverURL, err = baseURL(config.ServerURL, "Config.ServerURL"); err != nil {
			return nil, err
		}
	}
	c := &t.config
	if c.Wire == 0 {
		c.Wire = wire.Wire3
	}
	if c.ClientID == "" {
		c.ClientID = "sealway-go"
	}
	if c.InitPath == "" {
		c.InitPath = "/session/init"
	}
	if len(c.Suites) == 0 {
		c.Suites = crypto.Suites()
	}
	if c.BodyMax == 0 {
		c.BodyMax = 16 << 20
	}
	c.InitTimeout = orDefault(c.InitTimeout, 30*time.Second)
	c.HeadTimeout = orDefault(c.HeadTimeout, 60*time.Second)
	c.IdleTimeout = orDefault(c.IdleTimeout, 60*time.Second)
	if err := checkConfig(c); err != nil {
		return nil, err
	}
	if c.Base == nil {
		c.Base = &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64,
			IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second,
			MaxResponseHeaderBytes: 64 << 10, DisableCompression: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	}
	t.native, t.compat = newSlot[*nativeSession](c.InitTimeout, t.sessionURL.Host), newSlot[*compatSession](c.InitTimeout, t.sessionURL.Host)
	if c.Wire == wire.Wire3 {
		t.ring, err = newKeyring(c.Trust, origin(t.sessionURL))
	}
	return t, err
}

func orDefault(value, standard time.Duration) time.Duration {
	if value == 0 {
		return standard
	}
	return value
}

func checkConfig(c *Config) error {
	switch {
	case c.Wire < wire.Wire1 || c.Wire > wire.Wire3:
		return &UsageError{fmt.Sprintf("Config.Wire is %d: it is 1, 2 or 3, or 0 for 3", c.Wire)}
	case !wire.ValidClientID(c.ClientID):
		return &UsageError{"Config.ClientID is not 1 to 256 bytes of printable ASCII without a vertical bar: leave it empty for sealway-go"}
	case c.InitPath != "/session/init" && !(c.InitPath == "/session/init/anon" && c.Wire == wire.Wire1) && !(c.InitPath == "/v1/session/init" && c.Wire == wire.Wire2):
		return &UsageError{"Config.InitPath does not serve this wire: /session/init does wires 1 and 2, /session/init/anon wire 1, /v1/session/init wire 2"}
	case c.TTL < 0 || c.TTL/time.Second > 1<<31:
		return &UsageError{fmt.Sprintf("Config.TTL is %v: it is 0 to %d seconds", c.TTL, 1<<31)}
	case c.InitTimeout < 0 || c.BodyMax < 0:
		return &UsageError{fmt.Sprintf("Config.InitTimeout and Config.BodyMax are %v and %d: neither is negative, and 0 is the default", c.InitTimeout, c.BodyMax)}
	case len(c.Suites) > wire.SuitesMax:
		return &UsageError{fmt.Sprintf("Config.Suites has %d suites: at most %d", len(c.Suites), wire.SuitesMax)}
	}
	for _, suite := range c.Suites {
		if _, known := crypto.ParseSuite(string(suite)); !known {
			return &UsageError{fmt.Sprintf("Config.Suites: %.64q is unknown: the suites are %v", suite, crypto.Suites())}
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

// origin names a service: scheme, host in lower case, port.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return u.Scheme + "://" + host + ":" + port
}

// RoundTrip seals a request, sends it and opens the answer. A call that the service has provably not served is sent once more,
// if its body can be had again (GetBody). The body of an answer on wire 3 is opened as it comes; one that ends early is an
// error of its Read.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	source := &bodySource{request: request}
	defer source.closeUnused()
	if origin(request.URL) != origin(t.serverURL) {
		return nil, &UsageError{"the request goes to " + origin(request.URL) + ", and the transport seals for " + origin(t.serverURL) + ": set Config.ServerURL, or make another transport"}
	}
	for name := range request.Header {
		lower := strings.ToLower(name)
		if wire.IsSealing(lower) || strings.HasPrefix(lower, "x-sealway-") {
			return nil, &UsageError{"the header " + name + " is not a caller's to send"}
		}
	}
	roundTrip := t.roundTripCompat
	if t.config.Wire == wire.Wire3 {
		roundTrip = t.roundTripNative
	}
	response, err := roundTrip(request, source)
	return response, named(err, t.serverURL.Host)
}

// Client gives an [http.Client] over this transport. Its calls are bound by their contexts.
func (t *Transport) Client() *http.Client { return &http.Client{Transport: t} }

// Session gives the id of the session in use, after agreeing one if there is none.
func (t *Transport) Session(ctx context.Context) (id string, err error) {
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

// KeyID gives the identity key that the session in use was signed with; empty on wires 1 and 2, and before there is one.
func (t *Transport) KeyID() string {
	if agreed, ok := t.native.peek(); ok {
		return agreed.session.Agreed().KeyID
	}
	return ""
}

// Suite gives that of the session in use; empty on wires 1 and 2, and before there is one.
func (t *Transport) Suite() crypto.Suite {
	if agreed, ok := t.native.peek(); ok {
		return crypto.Suite(agreed.session.Agreed().Suite)
	}
	return ""
}

// End has the service forget the session, on wire 3, and forgets and wipes it here. The next request agrees another.
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
	return t.endNative(ctx, agreed)
}

// CloseIdleConnections closes those that nobody uses.
func (t *Transport) CloseIdleConnections() {
	if closer, ok := t.config.Base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// String shows no key.
func (t *Transport) String() string { return "sealway.Transport(" + origin(t.serverURL) + ")" }

func (t *Transport) observe(exchange Exchange) {
	if t.config.Observe != nil {
		t.config.Observe(exchange)
	}
}
