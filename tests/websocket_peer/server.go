package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
)

// serve is a service that speaks WebSocket over HTTP/1.1, and over HTTP/2 without TLS. net/http accepts extended CONNECT with
// GODEBUG=http2xconnect=1 alone. It prints its address.
func serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: http.HandlerFunc(handle), Protocols: protocols}
	return server.Serve(listener)
}

func handle(w http.ResponseWriter, r *http.Request) {
	protocol := r.Header.Get(":protocol")
	if protocol == "" {
		protocol = r.Header.Get("Upgrade")
	}
	if protocol == "" || r.URL.Path == "/plain" {
		fmt.Fprintf(w, "%s %s %s", r.Proto, r.Method, r.URL.Path)
		return
	}
	if r.URL.Path == "/denied" {
		http.Error(w, "denied", http.StatusForbidden)
		return
	}
	view := fmt.Sprintf("%s %s %s key=%d version=%s accept=%d upgrade=%d", r.Proto, r.Method, protocol,
		len(r.Header.Values("Sec-WebSocket-Key")), r.Header.Get("Sec-WebSocket-Version"),
		len(r.Header.Values("Sec-WebSocket-Accept")), len(r.Header.Values("Upgrade")))
	w.Header().Set("Sec-WebSocket-Protocol", "chat")
	if r.ProtoMajor == 2 {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		converse(r.URL.Path, view, r.Body, flushing{w, w.(http.Flusher)})
		return
	}
	key := r.Header.Get("Sec-WebSocket-Key")
	if r.URL.Path == "/otherkey" {
		key = "AAAAAAAAAAAAAAAAAAAAAA=="
	}
	conn, read, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n"+
		"Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: chat\r\n\r\n", protocol, acceptOf(key))
	converse(r.URL.Path, view, bufio.NewReader(read), conn)
}

// converse tells the client how its request has arrived, then echoes until the client ends.
func converse(path, view string, from io.Reader, to io.Writer) {
	if writeFrame(to, opText, []byte(view), false) != nil {
		return
	}
	switch path {
	case "/silent":
		// Reads nothing, and lets the client know that it has gone.
		io.ReadFull(from, make([]byte, 1))
		select {}
	case "/flood":
		for writeFrame(to, opBinary, make([]byte, 64<<10), false) == nil {
		}
		return
	}
	for {
		op, payload, err := readFrame(from, true)
		if err == io.EOF {
			// The client has ended its direction alone.
			writeFrame(to, opText, []byte("after the end"), false)
			return
		}
		if err != nil || writeFrame(to, op, payload, false) != nil || op == opClose {
			return
		}
	}
}

// flushing is the sending side of a stream of HTTP/2.
type flushing struct {
	w io.Writer
	f http.Flusher
}

func (s flushing) Write(bytes []byte) (int, error) {
	len, err := s.w.Write(bytes)
	s.f.Flush()
	return len, err
}
