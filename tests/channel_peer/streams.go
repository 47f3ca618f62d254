package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hashicorp/yamux"
)

const (
	helloMax = 8 << 10
	frameMax = 1 << 20
)

// The defaults of yamux, without its keepalive.
func streamsConfig(openTimeout, closeTimeout time.Duration) *yamux.Config {
	config := yamux.DefaultConfig()
	config.EnableKeepAlive = false
	if openTimeout > 0 {
		config.StreamOpenTimeout = openTimeout
	}
	if closeTimeout > 0 {
		config.StreamCloseTimeout = closeTimeout
	}
	return config
}

type hello struct {
	Kind string `json:"kind"`
	V    int    `json:"v"`
}

// Length and body are two writes, as v1's endpoints do it.
func writeFrame(to io.Writer, what any) error {
	body, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return writeRaw(to, body)
}

func writeRaw(to io.Writer, body []byte) error {
	if _, err := to.Write(binary.BigEndian.AppendUint32(nil, uint32(len(body)))); err != nil {
		return err
	}
	_, err := to.Write(body)
	return err
}

func readFrame(from io.Reader, max uint32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > max {
		return nil, fmt.Errorf("a frame of %d bytes", size)
	}
	body := make([]byte, size)
	_, err := io.ReadFull(from, body)
	return body, err
}

func openKind(session *yamux.Session, kind string) (net.Conn, error) {
	stream, err := session.Open()
	if err != nil {
		return nil, err
	}
	return stream, writeFrame(stream, hello{kind, 1})
}

func readKind(stream io.Reader) (string, error) {
	body, err := readFrame(stream, helloMax)
	if err != nil {
		return "", err
	}
	var said hello
	if err := json.Unmarshal(body, &said); err != nil {
		return "", err
	}
	if said.V != 1 {
		return "", fmt.Errorf("a prologue of version %d", said.V)
	}
	return said.Kind, nil
}

// How much came, and its SHA-256.
type count struct {
	Bytes  int64  `json:"bytes"`
	Sha256 string `json:"sha256"`
}

// Bytes that differ at every place: eight of them are their own number.
type pattern struct{ at, end int64 }

func (p *pattern) Read(into []byte) (int, error) {
	if p.at >= p.end {
		return 0, io.EOF
	}
	made := int(min(int64(len(into)), p.end-p.at))
	var eight [8]byte
	for i := 0; i < made; {
		binary.BigEndian.PutUint64(eight[:], uint64(p.at)/8)
		copied := copy(into[i:made], eight[p.at%8:])
		i += copied
		p.at += int64(copied)
	}
	return made, nil
}

// Sends so many bytes of the pattern, `part` at a time: as much of a part as the window allows is one frame.
func pour(to io.Writer, size, part int64) (count, error) {
	sum := sha256.New()
	sent, err := io.CopyBuffer(to, io.TeeReader(&pattern{end: size}, sum), make([]byte, part))
	return count{sent, hex.EncodeToString(sum.Sum(nil))}, err
}

// Takes all that comes.
func drain(from io.Reader) (count, error) {
	sum := sha256.New()
	got, err := io.CopyBuffer(sum, from, make([]byte, 256<<10))
	return count{got, hex.EncodeToString(sum.Sum(nil))}, err
}
