package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

const patience = 60 * time.Second

// conn is the bytes of a tunnel.
type conn struct {
	io.Reader
	io.Writer
	header http.Header
	// closeWrite ends this direction alone.
	closeWrite func() error
	// abort ends both without an end.
	abort func()
}

// dialer opens tunnels: over HTTP/2 all on one connection.
type dialer struct {
	isH2      bool
	address   string
	transport *http2.Transport
}

func newDialer(version, address string) *dialer {
	transport := &http2.Transport{
		AllowHTTP: true,
		DialTLSContext: func(ctx context.Context, network, _ string, _ *tls.Config) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
	return &dialer{isH2: version == "h2", address: address, transport: transport}
}

// statusError is an answer that opens no tunnel.
type statusError int

func (status statusError) Error() string { return fmt.Sprintf("status %d", int(status)) }

func (d *dialer) dial(path, protocol string) (*conn, error) {
	if d.isH2 {
		return d.dialH2(path, protocol)
	}
	return d.dialH1(path, protocol)
}

func (d *dialer) dialH1(path, protocol string) (*conn, error) {
	stream, err := net.Dial("tcp", d.address)
	if err != nil {
		return nil, err
	}
	stream.SetDeadline(time.Now().Add(patience))
	random := make([]byte, 16)
	rand.Read(random)
	key := base64.StdEncoding.EncodeToString(random)
	fmt.Fprintf(stream, "GET %s HTTP/1.1\r\nHost: service.example\r\nConnection: Upgrade\r\nUpgrade: %s\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n", path, protocol, key)
	read := bufio.NewReader(stream)
	response, err := http.ReadResponse(read, nil)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, statusError(response.StatusCode)
	}
	if accept := response.Header.Get("Sec-WebSocket-Accept"); accept != acceptOf(key) {
		return nil, fmt.Errorf("accept %q", accept)
	}
	if upgrade := response.Header.Get("Upgrade"); !strings.EqualFold(upgrade, protocol) {
		return nil, fmt.Errorf("upgrade %q", upgrade)
	}
	tcp := stream.(*net.TCPConn)
	return &conn{read, stream, response.Header, tcp.CloseWrite, func() { tcp.SetLinger(0); tcp.Close() }}, nil
}

func (d *dialer) dialH2(path, protocol string) (*conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	body, write := io.Pipe()
	target, err := url.Parse("http://service.example" + path)
	if err != nil {
		cancel()
		return nil, err
	}
	request := (&http.Request{Method: http.MethodConnect, URL: target, Host: target.Host, Body: body, Header: http.Header{
		":protocol":              {protocol},
		"Sec-Websocket-Version":  {"13"},
		"Sec-Websocket-Protocol": {"chat"},
		"Origin":                 {"http://service.example"},
	}}).WithContext(ctx)
	response, err := d.transport.RoundTrip(request)
	if err != nil {
		cancel()
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		cancel()
		return nil, statusError(response.StatusCode)
	}
	for _, name := range []string{"Sec-WebSocket-Accept", "Sec-WebSocket-Key", "Upgrade", "Connection", "Content-Length"} {
		if values := response.Header.Values(name); len(values) > 0 {
			cancel()
			return nil, fmt.Errorf("%s: %v", name, values)
		}
	}
	return &conn{response.Body, write, response.Header, write.Close, cancel}, nil
}

// open opens a tunnel, and returns how its request has arrived.
func (d *dialer) open(path string) (*conn, string, error) {
	c, err := d.dial(path, "websocket")
	if err != nil {
		return nil, "", err
	}
	if chosen := c.header.Get("Sec-WebSocket-Protocol"); chosen != "chat" {
		return nil, "", fmt.Errorf("subprotocol %q", chosen)
	}
	op, view, err := readFrame(c, false)
	if err == nil && op != opText {
		err = fmt.Errorf("opcode %d", op)
	}
	return c, string(view), err
}

// echo sends a message and expects it back; it writes while it reads.
func (c *conn) echo(op byte, payload []byte) error {
	written := make(chan error, 1)
	go func() { written <- writeFrame(c, op, payload, true) }()
	gotOp, got, err := readFrame(c, false)
	if err != nil {
		return err
	}
	if gotOp != op || !bytes.Equal(got, payload) {
		return fmt.Errorf("opcode %d, %d bytes come back, not opcode %d, %d bytes", gotOp, len(got), op, len(payload))
	}
	return <-written
}

// isEnd says whether a tunnel has ended in order.
func (c *conn) isEnd() error {
	if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
		return fmt.Errorf("%d bytes and %v instead of the end", len(rest), err)
	}
	return nil
}

// converseAsClient tries what a tunnel must carry, and prints how the requests have arrived.
func converseAsClient(version, address string) error {
	d := newDialer(version, address)
	c, view, err := d.open("/echo")
	if err != nil {
		return err
	}
	fmt.Println(view)
	large := make([]byte, 1<<20)
	rand.Read(large)
	for _, message := range []struct {
		op      byte
		payload []byte
	}{{opText, []byte("text ✓")}, {opBinary, []byte{0, 255, 1}}, {opText, nil}, {opBinary, large}, {opText, []byte("and more")}} {
		if err := c.echo(message.op, message.payload); err != nil {
			return fmt.Errorf("echo of %d bytes: %w", len(message.payload), err)
		}
	}
	// A close with a code of the application.
	if err := c.echo(opClose, append([]byte{4001 >> 8, 4001 & 255}, "bye"...)); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if err := c.isEnd(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	c.closeWrite()
	// Half-close: the service still answers.
	if c, _, err = d.open("/echo"); err != nil {
		return err
	}
	if err := c.closeWrite(); err != nil {
		return err
	}
	if _, last, err := readFrame(c, false); err != nil || string(last) != "after the end" {
		return fmt.Errorf("half-close: %q, %v", last, err)
	}
	if err := c.isEnd(); err != nil {
		return fmt.Errorf("half-close: %w", err)
	}
	// An abort ends the tunnel: the caller looks at the gateway.
	if c, _, err = d.open("/echo"); err != nil {
		return err
	}
	c.abort()
	// Other tunnels, and requests on the same connection, go on.
	if c, _, err = d.open("/echo"); err != nil {
		return err
	}
	defer c.closeWrite()
	return c.echo(opText, []byte("after an abort"))
}

// stall leaves tunnels unread on the side of the client, and as many as are named on that of the service, and expects others to
// go on.
func stall(version, address, silent string) error {
	d := newDialer(version, address)
	unread, err := strconv.Atoi(silent)
	if err != nil {
		return err
	}
	for range unread {
		silent, _, err := d.open("/silent")
		if err != nil {
			return err
		}
		go func() {
			for writeFrame(silent, opBinary, make([]byte, 64<<10), true) == nil {
			}
		}()
	}
	for range 6 {
		if _, _, err := newDialer(version, address).open("/flood"); err != nil {
			return err
		}
	}
	time.Sleep(500 * time.Millisecond)
	for range 3 {
		c, _, err := d.open("/echo")
		if err != nil {
			return err
		}
		for range 3 {
			if err := c.echo(opBinary, make([]byte, 1<<20)); err != nil {
				return err
			}
		}
		c.closeWrite()
	}
	return nil
}

// hold keeps a tunnel open, and prints that it is, and when it has ended.
func hold(version, address string) error {
	c, _, err := newDialer(version, address).open("/echo")
	if err != nil {
		return err
	}
	fmt.Println("open")
	_, err = io.Copy(io.Discard, c)
	var reset http2.StreamError
	if errors.As(err, &reset) {
		fmt.Println("reset", reset.Code)
	} else {
		fmt.Println("ended", err)
	}
	return nil
}

// probe prints the status of requests for a protocol.
func probe(version, address, protocol string, paths []string) error {
	for _, path := range paths {
		_, err := newDialer(version, address).dial(path, protocol)
		var status statusError
		switch {
		case errors.As(err, &status):
			fmt.Println(int(status))
		case err != nil:
			fmt.Println(err)
		default:
			fmt.Println("open")
		}
	}
	return nil
}

func main() {
	arguments := os.Args[1:]
	if err := run(arguments); err != nil {
		fmt.Fprintln(os.Stderr, "websocket_peer:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) == 1 && arguments[0] == "serve":
		return serve()
	case len(arguments) == 3 && arguments[0] == "converse":
		return converseAsClient(arguments[1], arguments[2])
	case len(arguments) == 4 && arguments[0] == "stall":
		return stall(arguments[1], arguments[2], arguments[3])
	case len(arguments) == 3 && arguments[0] == "hold":
		return hold(arguments[1], arguments[2])
	case len(arguments) >= 5 && arguments[0] == "probe":
		return probe(arguments[1], arguments[2], arguments[3], arguments[4:])
	default:
		return errors.New("serve | converse VERSION ADDRESS | stall VERSION ADDRESS SILENT | hold VERSION ADDRESS | probe VERSION ADDRESS PROTOCOL PATH...")
	}
}
