package channel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"sealway.dev/go/channel/protocol"
)

// socket is a WebSocket whose messages are bounded and taken whole.
type socket struct {
	ws           *websocket.Conn
	writeTimeout time.Duration
	// heardNS is when something came last, in nanoseconds since begun.
	begun   time.Time
	heardNS atomic.Int64
}

func newSocket(writeTimeout time.Duration) *socket {
	return &socket{writeTimeout: writeTimeout, begun: time.Now()}
}

func (s *socket) heard() { s.heardNS.Store(int64(time.Since(s.begun))) }

func (s *socket) silentFor() time.Duration {
	return time.Since(s.begun) - time.Duration(s.heardNS.Load())
}

func (s *socket) onPing(context.Context, []byte) bool { s.heard(); return true }

func (s *socket) onPong(context.Context, []byte) { s.heard() }

// take makes the upgraded connection the socket's.
func (s *socket) take(ws *websocket.Conn) *socket {
	ws.SetReadLimit(protocol.RecordMax)
	s.ws = ws
	s.heard()
	return s
}

// connect dials a relay, or a peer that listens.
func connect(ctx context.Context, address string, options *Options) (*socket, error) {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" || parsed.User != nil || parsed.Scheme != "ws" && parsed.Scheme != "wss" {
		return nil, fault(StageConnect, "address_invalid", "not an address of the form ws://host/path or wss://host/path")
	}
	ctx, stop := context.WithTimeout(ctx, options.ConnectTimeout)
	defer stop()
	made := newSocket(options.WriteTimeout)
	header := http.Header{}
	if options.Origin != "" {
		header.Set("Origin", options.Origin)
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: options.TLS, ForceAttemptHTTP2: false,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
		TLSHandshakeTimeout: options.ConnectTimeout, MaxResponseHeaderBytes: 64 << 10,
	}
	defer transport.CloseIdleConnections()
	ws, answer, err := websocket.Dial(ctx, address, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport, CheckRedirect: noRedirect}, HTTPHeader: header,
		CompressionMode: websocket.CompressionDisabled, OnPingReceived: made.onPing, OnPongReceived: made.onPong,
	})
	if err != nil {
		return nil, ofDial(err, answer)
	}
	return made.take(ws), nil
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func ofDial(err error, answer *http.Response) *Error {
	if answer != nil && answer.StatusCode != http.StatusSwitchingProtocols {
		code := "upgrade_refused"
		switch status := answer.StatusCode; {
		case status == http.StatusUnauthorized:
			code = "unauthorized"
		case status == http.StatusForbidden:
			code = "forbidden"
		case status == http.StatusTooManyRequests || status >= 500:
			code = "upgrade_unavailable"
		}
		return fault(StageConnect, code, "the server does not upgrade: it answers with the status %d", answer.StatusCode)
	}
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.Is(err, context.Canceled):
		return caused(context.Canceled, StageConnect, "timeout", "it was cancelled")
	case errors.Is(err, context.DeadlineExceeded):
		return caused(context.DeadlineExceeded, StageConnect, "timeout", "no connection in time")
	case errors.Is(err, syscall.ECONNREFUSED):
		return fault(StageConnect, "connection_refused", "nobody listens there")
	case errors.As(err, &verification), errors.As(err, &authority):
		return fault(StageConnect, "tls_untrusted", "%v", err)
	case errors.As(err, &record), errors.As(err, &alert):
		return fault(StageConnect, "tls_failed", "%v", err)
	}
	var system *net.OpError
	if errors.As(err, &system) {
		return fault(StageConnect, "unreachable", "%v", err)
	}
	return fault(StageConnect, "upgrade_failed", "%v", err)
}

// send writes one message. A connection that does not take it in time is cut off.
func (s *socket) send(kind websocket.MessageType, message []byte) error {
	ctx, stop := context.WithTimeout(context.Background(), s.writeTimeout)
	defer stop()
	return s.ws.Write(ctx, kind, message)
}

// receive reads the next message into buffer where it has room.
func (s *socket) receive(ctx context.Context, stage Stage, buffer []byte) ([]byte, error) {
	kind, from, err := s.ws.Reader(ctx)
	if err != nil {
		return nil, ofSocket(stage, err)
	}
	s.heard()
	if kind != websocket.MessageBinary {
		return nil, fault(stage, "unexpected_text_frame", "a text message came where records go")
	}
	message := buffer[:0]
	for {
		if len(message) == cap(message) {
			message = append(message, 0)[:len(message)]
		}
		read, err := from.Read(message[len(message):cap(message)])
		message = message[:len(message)+read]
		if err == io.EOF {
			s.heard()
			return message, nil
		}
		if err != nil {
			return nil, ofSocket(stage, err)
		}
	}
}

func ofSocket(stage Stage, err error) *Error {
	var closing websocket.CloseError
	switch {
	case errors.As(err, &closing):
		return ofClose(stage, int(closing.Code), closing.Reason)
	case errors.Is(err, websocket.ErrMessageTooBig):
		return fault(stage, "record_too_large", "a message is longer than 1 MiB")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return caused(err, stage, "timeout", "it took longer than was waited")
	// Endpoints and relays of v1 end every channel so.
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		return fault(stage, "closed", "the connection was closed without a word")
	}
	var system *net.OpError
	if errors.As(err, &system) {
		return fault(stage, "connection_lost", "the connection broke: %v", err)
	}
	return fault(stage, "websocket_malformed", "no WebSocket message: %v", err)
}
