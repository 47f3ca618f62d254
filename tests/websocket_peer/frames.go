package main

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
)

// The opcodes of RFC 6455 section 5.2.
const (
	opText   = 1
	opBinary = 2
	opClose  = 8
)

const lenMax = 16 << 20

// writeFrame writes one unfragmented message. A client masks it.
func writeFrame(to io.Writer, op byte, payload []byte, isClient bool) error {
	frame := []byte{0x80 | op}
	mask := byte(0)
	if isClient {
		mask = 0x80
	}
	switch {
	case len(payload) < 126:
		frame = append(frame, mask|byte(len(payload)))
	case len(payload) < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, mask|126), uint16(len(payload)))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, mask|127), uint64(len(payload)))
	}
	if isClient {
		key := []byte{1, 2, 3, 4}
		frame = append(frame, key...)
		for at, b := range payload {
			frame = append(frame, b^key[at%4])
		}
	} else {
		frame = append(frame, payload...)
	}
	_, err := to.Write(frame)
	return err
}

// readFrame reads one message, whose frames it joins.
func readFrame(from io.Reader, isFromClient bool) (byte, []byte, error) {
	var op byte
	var message []byte
	for isFirst := true; ; isFirst = false {
		head, payload, err := readPart(from, isFromClient)
		if err != nil {
			return 0, nil, err
		}
		if isFirst != (head&0x0f != 0) || len(message)+len(payload) > lenMax {
			return 0, nil, fmt.Errorf("bad frame: %x", head)
		}
		if isFirst {
			op = head & 0x0f
		}
		if message = append(message, payload...); head&0x80 != 0 {
			return op, message, nil
		}
	}
}

// readPart reads one frame, and checks that a client masks it and a server does not. It returns the first byte and the payload.
func readPart(from io.Reader, isFromClient bool) (byte, []byte, error) {
	var head [14]byte
	if _, err := io.ReadFull(from, head[:2]); err != nil {
		return 0, nil, err
	}
	if head[0]&0x70 != 0 || (head[1]&0x80 != 0) != isFromClient {
		return 0, nil, fmt.Errorf("bad frame: % x", head[:2])
	}
	size := uint64(head[1] & 0x7f)
	more := map[uint64]int{126: 2, 127: 8}[size]
	if _, err := io.ReadFull(from, head[2:2+more]); err != nil {
		return 0, nil, err
	}
	switch more {
	case 2:
		size = uint64(binary.BigEndian.Uint16(head[2:]))
	case 8:
		size = binary.BigEndian.Uint64(head[2:])
	}
	if size > lenMax {
		return 0, nil, fmt.Errorf("a message of %d bytes", size)
	}
	var key [4]byte
	if isFromClient {
		if _, err := io.ReadFull(from, key[:]); err != nil {
			return 0, nil, err
		}
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(from, payload); err != nil {
		return 0, nil, err
	}
	for at := range payload {
		payload[at] ^= key[at%4]
	}
	return head[0], payload, nil
}

// acceptOf is the answer to a key (RFC 6455 section 4.2.2).
func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}
