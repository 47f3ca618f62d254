package session

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"sealway.dev/go/wire"
)

func testKeys() *messageKeys {
	keys := &messageKeys{}
	for i := range keys {
		keys[i] = byte(i)
	}
	return keys
}

func testSealer(t *testing.T) *FrameSealer {
	t.Helper()
	keys := testKeys()
	sealer, err := newFrameSealer(keys, [32]byte{})
	if err != nil || *keys != (messageKeys{}) {
		t.Fatal("no sealer, or keys that are left", err)
	}
	return sealer
}

func testOpener(t *testing.T, single bool) *FrameOpener {
	t.Helper()
	keys := testKeys()
	opener, err := newFrameOpener(keys, [32]byte{}, single)
	if err != nil || *keys != (messageKeys{}) {
		t.Fatal("no opener, or keys that are left", err)
	}
	return opener
}

func refused(err error) wire.Code {
	var refused *wire.Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

func pattern(length int) []byte {
	data := make([]byte, length)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	return data
}

// frameLens gives the length of each frame without its tag, that of the last with a minus.
func frameLens(stream []byte) (lens []int) {
	for stream = stream[commitLen:]; len(stream) > 0; {
		word := binary.BigEndian.Uint32(stream)
		length := int(word&^lastFlag) - wire.TagLen
		stream = stream[prefixLen+length+wire.TagLen:]
		if word&lastFlag != 0 {
			length = -length
		}
		lens = append(lens, length)
	}
	return lens
}

func TestAWholeStreamIsOfAsFewFramesAsItCanBe(t *testing.T) {
	const most = wire.FrameLenMax
	for _, length := range []int{0, 1, most - 3, most - 2, most - 1, most, 2*most - 2, 2*most - 1, 2 * most} {
		inner, body := make([]byte, 2), pattern(length)
		sealer := testSealer(t)
		sealer.lead = []byte("lead")
		stream, err := sealer.SealWhole([]byte("before"), inner, body)
		plain := len(inner) + length
		if want := len("before") + sealer.StreamLen(plain); err != nil || len(stream) != want || !bytes.HasPrefix(stream, []byte("beforelead")) {
			t.Fatalf("%d: %d bytes instead of %d, %v", length, len(stream), want, err)
		}
		stream = stream[len("beforelead"):]
		lens, sum := frameLens(stream), 0
		for at, frame := range lens {
			if isLast := at == len(lens)-1; isLast != (frame < 0) || frame == 0 || frame > most || frame < -most {
				t.Errorf("%d: frames of %v", length, lens)
			}
			sum += max(frame, -frame)
		}
		if want := max(1, (plain+most-1)/most); len(lens) != want || sum != plain || StreamLen(plain) != len(stream) {
			t.Errorf("%d: %v are not %d frames", length, lens, want)
		}
		if headers, opened, err := testOpener(t, len(lens) == 1).OpenWhole(stream); err != nil || len(headers) != 0 || !bytes.Equal(opened, body) {
			t.Errorf("%d: %v", length, err)
		}
	}
	if StreamLen(0) != 36 {
		t.Errorf("an empty stream has %d bytes", StreamLen(0))
	}
	for length, code := range map[int]wire.Code{most: "", most + 1: wire.CodeInnerHeadersInvalid} {
		if _, err := testSealer(t).SealWhole(nil, make([]byte, length), []byte{1}); refused(err) != code {
			t.Errorf("headers of %d bytes: %v", length, err)
		}
	}
}

func TestAFrameHas64KiBAtMostAndIsEmptyOnlyAtTheEnd(t *testing.T) {
	half := make([]byte, wire.FrameLenMax/2)
	for _, c := range []struct {
		count uint64
		last  bool
		parts [][]byte
		code  wire.Code
	}{
		{0, true, [][]byte{half, half}, ""},
		{0, true, [][]byte{half, half, {1}}, wire.CodeFrameInvalid},
		{0, false, nil, wire.CodeFrameInvalid},
		{0, false, [][]byte{{}}, wire.CodeFrameInvalid},
		{0, true, nil, ""},
		{framesMax - 1, false, [][]byte{{1}}, ""},
		{framesMax, true, [][]byte{{1}}, wire.CodeFrameInvalid},
	} {
		sealer := testSealer(t)
		sealer.count = c.count
		stream, err := sealer.Seal([]byte("before"), c.last, c.parts...)
		if refused(err) != c.code || (err != nil) != (string(stream) == "before") {
			t.Errorf("%+v: %v, %d bytes", c.count, err, len(stream))
		}
		if _, err := sealer.Seal(nil, true, []byte{1}); c.code == "" && (refused(err) == wire.CodeFrameInvalid) != (c.last || c.count > 0) {
			t.Errorf("a frame behind %d, %v: %v", c.count, c.last, err)
		}
	}
}

func TestTheLengthOfAFrameIsCheckedAtItsPrefix(t *testing.T) {
	for _, c := range []struct {
		length uint32
		last   bool
		count  uint64
		code   wire.Code
	}{
		{15, true, 0, wire.CodeFrameInvalid},
		{16, true, 0, ""},
		{16, false, 0, wire.CodeFrameInvalid},
		{17, false, 0, ""},
		{65536 + 16, false, 0, ""},
		{65536 + 17, true, 0, wire.CodeFrameInvalid},
		{17, true, framesMax - 1, ""},
		{17, true, framesMax, wire.CodeFrameInvalid},
	} {
		opener := testOpener(t, false)
		opener.count = c.count
		if c.last {
			c.length |= lastFlag
		}
		input := binary.BigEndian.AppendUint32(make([]byte, commitLen), c.length)
		if out, complete, err := opener.Read(&input, []byte("x")); refused(err) != c.code || complete || string(out) != "x" || len(input) > 0 {
			t.Errorf("%+v: %v, %v", c, complete, err)
		}
	}
}

func TestAStreamIsReadInChunksOfAnyLength(t *testing.T) {
	sealer := testSealer(t)
	stream, _ := sealer.Seal(nil, false, pattern(300))
	stream, _ = sealer.Seal(stream, true, pattern(40))
	want := append(pattern(300), pattern(40)...)
	for chunk := 1; chunk <= len(stream); chunk++ {
		opener := testOpener(t, false)
		var plain []byte
		frames := 0
		for rest := stream; len(rest) > 0; rest = rest[min(chunk, len(rest)):] {
			for input := rest[:min(chunk, len(rest))]; len(input) > 0; {
				out, complete, err := opener.Read(&input, plain)
				if err != nil {
					t.Fatalf("chunks of %d: %v", chunk, err)
				}
				if plain = out; complete {
					frames++
				}
			}
		}
		if err := opener.End(); err != nil || frames != 2 || !bytes.Equal(plain, want) || !opener.Done() {
			t.Errorf("chunks of %d: %d frames, %v", chunk, frames, err)
		}
	}
}

func TestAStreamEndsWithItsLastFrame(t *testing.T) {
	first, _ := testSealer(t).Seal(nil, false, make([]byte, 2), []byte("plain"))
	opener := testOpener(t, false)
	input := bytes.Clone(first)
	if _, complete, err := opener.Read(&input, nil); !complete || err != nil || opener.Done() || refused(opener.End()) != wire.CodeStreamTruncated {
		t.Error("an end without a last frame", complete, err)
	}
	if _, _, err := testOpener(t, false).OpenWhole(first); refused(err) != wire.CodeStreamTruncated {
		t.Error("a whole stream without a last frame", err)
	}
	last, _ := testSealer(t).Seal(nil, true, make([]byte, 2), []byte("plain"))
	for length := range last {
		if _, _, err := testOpener(t, false).OpenWhole(last[:length]); refused(err) != wire.CodeStreamTruncated {
			t.Errorf("%d bytes of %d: %v", length, len(last), err)
		}
	}
	if _, _, err := testOpener(t, false).OpenWhole(append(bytes.Clone(last), 0)); refused(err) != wire.CodeFrameInvalid {
		t.Error("a byte behind the last frame", err)
	}
	opener, input = testOpener(t, false), bytes.Clone(last)
	opener.Read(&input, nil)
	if out, complete, err := opener.Read(&input, []byte("x")); err != nil || complete || string(out) != "x" {
		t.Error("nothing behind the last frame", complete, err)
	}
}

func TestWhatIsRejectedLeavesNoPlaintext(t *testing.T) {
	first, _ := testSealer(t).Seal(nil, false, make([]byte, 2), []byte("plaintext"))
	other := bytes.Clone(first)
	other[0] ^= 1
	forged := bytes.Clone(first)
	forged[len(forged)-1] ^= 1
	for _, c := range []struct {
		single bool
		stream []byte
		code   wire.Code
	}{{false, other, wire.CodeUnsealable}, {false, forged, wire.CodeUnsealable}, {true, first, wire.CodeStreamTruncated}} {
		dst := append(make([]byte, 0, 100), "kept"...)
		input := bytes.Clone(c.stream)
		out, complete, err := testOpener(t, c.single).Read(&input, dst)
		if refused(err) != c.code || complete || string(out) != "kept" || bytes.Contains(dst[:100], []byte("plain")) {
			t.Errorf("%s: %q, %v", c.code, dst[:100], err)
		}
	}
}

func TestANonceIsOfTheIVTheNumberAndTheEnd(t *testing.T) {
	s := &testSealer(t).stream
	s.count = 0x0102030405060708
	for last, first := range map[bool]byte{false: 0, true: 1} {
		nonce := s.nonce(last)
		for i := range nonce {
			nonce[i] ^= s.iv[i]
		}
		if nonce != [12]byte{3: first, 4: 1, 5: 2, 6: 3, 7: 4, 8: 5, 9: 6, 10: 7, 11: 8} {
			t.Errorf("%v: %x", last, nonce)
		}
	}
}

func TestInnerHeadersAreReadAsTheyAreWritten(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), 255))
	for _, headers := range []wire.HeaderList{nil, {{Name: "a"}}, {{Name: long, Value: string(bytes.Repeat([]byte("y"), 300))}, {Name: "az09!#$%&'*+-.^_`|~", Value: "\t ~\x80\xff"}}} {
		block, err := EncodeInner(headers)
		if err != nil || binary.BigEndian.Uint16(block) != uint16(len(block)-2) {
			t.Fatal(err)
		}
		for _, body := range []string{"", "body"} {
			read, rest, err := DecodeInner(append(bytes.Clone(block), body...))
			if err != nil || fmt.Sprint(read) != fmt.Sprint(headers) || string(rest) != body {
				t.Errorf("%v: %v, %q, %v", headers, read, rest, err)
			}
		}
		for length := range block {
			if _, _, err := DecodeInner(block[:length]); refused(err) != wire.CodeInnerHeadersInvalid {
				t.Errorf("%d bytes of %d: %v", length, len(block), err)
			}
		}
	}
}

func TestInnerHeadersAreRejectedBySidesAlike(t *testing.T) {
	many := func(count, length int) (headers wire.HeaderList) {
		for range count {
			headers = append(headers, wire.Header{Name: "a", Value: string(bytes.Repeat([]byte("x"), length))})
		}
		return headers
	}
	one := func(name, value string) wire.HeaderList { return wire.HeaderList{{Name: name, Value: value}} }
	for at, c := range []struct {
		headers wire.HeaderList
		valid   bool
	}{
		{many(64, 0), true}, {many(65, 0), false}, {many(1, 16384-4), true}, {many(1, 16384-3), false},
		{one("", ""), false}, {one(string(make([]byte, 256)), ""), false}, {one("A", ""), false}, {one("`", ""), true}, {one("{", ""), false},
		{one("/", ""), false}, {one(":", ""), false}, {one("host", ""), false}, {one("proxy-a", ""), false}, {one("x-sealway-a", ""), false},
		{one("x-seal", ""), false}, {one("a", "\x1f"), false}, {one("a", "\x7f"), false}, {one("a", "\t"), true}, {one("a", "\n"), false}, {one("a", " "), true},
	} {
		_, err := EncodeInner(c.headers)
		block := []byte{0, 0}
		for _, header := range c.headers {
			block = append(append(block, byte(len(header.Name))), header.Name...)
			block = append(binary.BigEndian.AppendUint16(block, uint16(len(header.Value))), header.Value...)
		}
		binary.BigEndian.PutUint16(block, uint16(len(block)-2))
		_, _, readErr := DecodeInner(block)
		if (err == nil) != c.valid || (readErr == nil) != c.valid && len(c.headers[0].Name) < 256 {
			t.Errorf("%d: %v, %v", at, err, readErr)
		}
	}
}
