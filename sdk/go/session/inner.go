package session

import (
	"encoding/binary"
	"strings"

	"sealway.dev/go/wire"
)

var forbiddenInner = map[string]bool{"content-length": true, "transfer-encoding": true, "host": true, "expect": true, "te": true,
	"trailer": true, "upgrade": true, "connection": true, "keep-alive": true, "http2-settings": true}

// MayBeInner says whether a header of this name, in lower case, may stand within a seal: none of a hop, of framing, of sealing,
// and none that only an API side says.
func MayBeInner(name string) bool {
	return !forbiddenInner[name] && !wire.IsSealing(name) && !strings.HasPrefix(name, "proxy-") && !strings.HasPrefix(name, "x-sealway-")
}

func validInner(name, value string) bool {
	if name == "" || len(name) > 255 || len(value) > 65535 || !MayBeInner(name) {
		return false
	}
	for i := range len(name) {
		if b := name[i]; (b < 'a' || b > 'z') && (b < '0' || b > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(b)) {
			return false
		}
	}
	for i := range len(value) {
		if b := value[i]; b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}

// EncodeInner writes inner headers, whose names are lower case; inner_headers_invalid for what may not be there.
// spec/session-3.md#sealed-requests
func EncodeInner(headers wire.HeaderList) ([]byte, error) {
	out := make([]byte, 2, 64)
	for _, header := range headers {
		if !validInner(header.Name, header.Value) {
			return nil, &wire.Error{Code: wire.CodeInnerHeadersInvalid, Name: header.Name}
		}
		out = append(append(out, byte(len(header.Name))), header.Name...)
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(header.Value))), header.Value...)
		if len(out)-2 > wire.InnerLenMax {
			return nil, wire.Refuse(wire.CodeInnerHeadersInvalid)
		}
	}
	if len(headers) > wire.InnerHeadersMax {
		return nil, wire.Refuse(wire.CodeInnerHeadersInvalid)
	}
	binary.BigEndian.PutUint16(out, uint16(len(out)-2))
	return out, nil
}

// DecodeInner reads the inner headers of a first frame, and gives what stands behind them.
func DecodeInner(frame []byte) (headers wire.HeaderList, rest []byte, err error) {
	invalid := wire.Refuse(wire.CodeInnerHeadersInvalid)
	if len(frame) < 2 {
		return nil, nil, invalid
	}
	length := int(binary.BigEndian.Uint16(frame))
	if length > wire.InnerLenMax || len(frame) < 2+length {
		return nil, nil, invalid
	}
	block, rest := frame[2:2+length], frame[2+length:]
	for len(block) > 0 {
		end := 1 + int(block[0])
		if len(block) < end+2 {
			return nil, nil, invalid
		}
		valueEnd := end + 2 + int(binary.BigEndian.Uint16(block[end:]))
		if len(block) < valueEnd {
			return nil, nil, invalid
		}
		header := wire.Header{Name: string(block[1:end]), Value: string(block[end+2 : valueEnd])}
		if !validInner(header.Name, header.Value) || len(headers) == wire.InnerHeadersMax {
			return nil, nil, invalid
		}
		headers, block = append(headers, header), block[valueEnd:]
	}
	return headers, rest, nil
}
