package protocol

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestCodesStagesAndBlamesAreThoseOfTheRegistry(t *testing.T) {
	text, err := os.ReadFile("../../../../spec/registry.toml")
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?m)^\[channel_errors\.(\w+)\]\nstage = "(\w+)"\nblame = "(\w+)"`)
	seen := 0
	for _, found := range table.FindAllStringSubmatch(string(text), -1) {
		seen++
		refused := &Error{Code: Code(found[1])}
		if refused.Stage() != found[2] || refused.Blame() != found[3] {
			t.Errorf("%s: stage %q, blame %q", found[1], refused.Stage(), refused.Blame())
		}
	}
	if seen != len(meanings) {
		t.Errorf("the registry has %d codes, and %d are known here", seen, len(meanings))
	}
}

const nowS = 1_700_000_000

func v1Pair(t *testing.T, change func(client, server *Settings)) (client, server *Handshake, init []byte) {
	t.Helper()
	ofClient := NewSettings("c", Key{1}, V1X25519, nowS+60)
	ofServer := NewSettings("c", Key{1}, V1X25519, nowS+60)
	if change != nil {
		change(ofClient, ofServer)
	}
	client, init, err := NewClient(ofClient, &Randoms{Ephemeral: Key{5}, Nonce: [32]byte{6}})
	if err != nil {
		t.Fatal(err)
	}
	return client, must[*Handshake](t)(NewServer(ofServer, &Randoms{Ephemeral: Key{7}, Nonce: [32]byte{8}})), init
}

// remade changes members of a v1 payload.
func remade(t *testing.T, kind byte, frame []byte, change func(map[string]any)) []byte {
	t.Helper()
	var said map[string]any
	decoder := json.NewDecoder(bytes.NewReader(frame[handshakeHeaderLen:]))
	decoder.UseNumber()
	if err := decoder.Decode(&said); err != nil {
		t.Fatal(err)
	}
	change(said)
	text, _ := json.Marshal(said)
	return must[[]byte](t)(v1Profile.handshake(kind, text))
}

func wants(t *testing.T, name string, err error, code Code) {
	t.Helper()
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != code {
		t.Errorf("%s: %v, not %s", name, err, code)
	}
}

func TestEachCheckOfTheServerOnInitHasItsCode(t *testing.T) {
	for name, one := range map[string]struct {
		code   Code
		change func(map[string]any)
	}{
		"version":                 {VersionMismatch, func(m map[string]any) { m["version"] = 2 }},
		"role":                    {RoleMismatch, func(m map[string]any) { m["role"] = 2 }},
		"channel":                 {ChannelMismatch, func(m map[string]any) { m["channel_id"] = "d" }},
		"suite":                   {SuiteMismatch, func(m map[string]any) { m["suite"] = 2 }},
		"a number that is text":   {HandshakeFieldInvalid, func(m map[string]any) { m["role"] = "1" }},
		"a number beyond its own": {HandshakeFieldInvalid, func(m map[string]any) { m["role"] = 257 }},
		"no nonce":                {HandshakeFieldInvalid, func(m map[string]any) { delete(m, "nonce_c_b64u") }},
		"a short nonce":           {HandshakeFieldInvalid, func(m map[string]any) { m["nonce_c_b64u"] = "AAAA" }},
		"a padded nonce":          {HandshakeFieldInvalid, func(m map[string]any) { m["nonce_c_b64u"] = m["nonce_c_b64u"].(string) + "=" }},
		"a line end":              {HandshakeFieldInvalid, func(m map[string]any) { m["nonce_c_b64u"] = m["nonce_c_b64u"].(string) + "\n" }},
		"a name in capitals":      {HandshakeFieldInvalid, func(m map[string]any) { m["Role"] = 1; delete(m, "role") }},
	} {
		_, server, init := v1Pair(t, nil)
		_, _, err := server.Read(remade(t, v1TypeInit, init, one.change), nowS)
		wants(t, name, err, one.code)
		if _, _, err := server.Read(init, nowS); !errors.Is(err, &Error{Code: HandshakeState}) {
			t.Errorf("%s: it went on: %v", name, err)
		}
	}
	_, server, init := v1Pair(t, nil)
	if _, _, err := server.Read(remade(t, v1TypeInit, init, func(m map[string]any) { m["suite"] = 0; m["news"] = nil }), nowS); err != nil {
		t.Error("suite 0 is yours, and unknown members are passed over:", err)
	}
	for text, code := range map[string]Code{"[]": HandshakeJSONInvalid, "{} x": HandshakeJSONInvalid, "null": HandshakeJSONInvalid, "{\"a\":\"\xff\"}": HandshakeJSONInvalid} {
		_, server, _ := v1Pair(t, nil)
		_, _, err := server.Read(must[[]byte](t)(v1Profile.handshake(v1TypeInit, []byte(text))), nowS)
		wants(t, text, err, code)
	}
}

func TestEachCheckOfTheServerOnAckHasItsCode(t *testing.T) {
	for name, one := range map[string]struct {
		code Code
		play func(t *testing.T, server *Handshake, init, ack []byte) error
	}{
		"another Init": {InitChanged, func(t *testing.T, server *Handshake, init, _ []byte) error {
			_, _, err := server.Read(remade(t, v1TypeInit, init, func(m map[string]any) { m["client_features"] = 9 }), nowS)
			return err
		}},
		"another handshake": {HandshakeIDMismatch, func(t *testing.T, server *Handshake, _, ack []byte) error {
			_, _, err := server.Read(remade(t, v1TypeAck, ack, func(m map[string]any) { m["handshake_id"] = "x" }), nowS)
			return err
		}},
		"an old one": {HandshakeTimestamp, func(_ *testing.T, server *Handshake, _, ack []byte) error {
			_, _, err := server.Read(ack, nowS+31)
			return err
		}},
		"a short tag": {HandshakeFieldInvalid, func(t *testing.T, server *Handshake, _, ack []byte) error {
			_, _, err := server.Read(remade(t, v1TypeAck, ack, func(m map[string]any) { m["auth_tag_b64u"] = "AAAA" }), nowS)
			return err
		}},
		"another tag": {HandshakeUnauthentic, func(t *testing.T, server *Handshake, _, ack []byte) error {
			_, _, err := server.Read(remade(t, v1TypeAck, ack, func(m map[string]any) { m["auth_tag_b64u"] = strings.Repeat("A", 43) }), nowS)
			return err
		}},
		"the type of a Resp": {HandshakeUnexpected, func(_ *testing.T, server *Handshake, _, ack []byte) error {
			ack[5] = v1TypeResp
			_, _, err := server.Read(ack, nowS)
			return err
		}},
	} {
		client, server, init := v1Pair(t, nil)
		resp := step(t, server, init, nowS, false)
		if again := step(t, server, init, nowS, false); !bytes.Equal(again, resp) {
			t.Error("the same Init has another answer")
		}
		ack := step(t, client, resp, nowS, false)
		wants(t, name, one.play(t, server, init, ack), one.code)
	}
	client, server, init := v1Pair(t, func(_, server *Settings) { server.InitExpiresS = nowS - 31 })
	_, _, err := server.Read(step(t, client, step(t, server, init, nowS, false), nowS, false), nowS)
	wants(t, "after its time", err, InitExpired)
	client, server, init = v1Pair(t, nil)
	zero := remade(t, v1TypeResp, step(t, server, init, nowS, false), func(m map[string]any) { m["server_eph_pub_b64u"] = strings.Repeat("A", 43) })
	_, _, err = client.Read(zero, nowS)
	wants(t, "a key of zeros", err, PeerKeyInvalid)
}

func TestAFirstRecordOtherThanAPingDoesNotConfirmTheKeys(t *testing.T) {
	client, server, init := v1Pair(t, nil)
	ack := step(t, client, step(t, server, init, nowS, false), nowS, false)
	step(t, server, ack, nowS, true)
	sealer, _, err := server.Records()
	if err != nil {
		t.Fatal(err)
	}
	sealer.inner.(*v1Sealer).sequence.used = 0
	record := must[[]byte](t)(sealer.Seal(nil, &Content{Kind: Data, Data: []byte("x")}, 0))
	_, _, err = client.Read(record, nowS)
	wants(t, "data", err, Unconfirmed)
	if _, _, err := client.Records(); err == nil {
		t.Error("it has keys all the same")
	}
}

func ratchets(t *testing.T) (*nativeSealer, *nativeOpener) {
	t.Helper()
	settings := NewSettings("c", Key{}, 0x100, nowS)
	sealer, _, err := newNativeRecords(settings, true, &Key{3}, &Key{4})
	if err != nil {
		t.Fatal(err)
	}
	_, opener, err := newNativeRecords(settings, false, &Key{4}, &Key{3})
	if err != nil {
		t.Fatal(err)
	}
	return sealer.inner.(*nativeSealer), opener.inner.(*nativeOpener)
}

func TestARecordThatOpensWithForbiddenContentIsRejected(t *testing.T) {
	for _, inner := range [][]byte{
		{}, {0, 0, 0}, {6}, {0x80}, {1, 2, 3, byte(Ping)}, {0, 0, 0, 0, 0, 0, 0, 0, 0, byte(Pong)}, {byte(Rekey)},
		{1, byte(Rekey) | keyChanges}, {0, byte(Close)}, {0, 0, 0xff, byte(Close)},
		append(append([]byte{0, 0}, bytes.Repeat([]byte("x"), CloseReasonMax+1)...), byte(Close)),
	} {
		sealer, opener := ratchets(t)
		message := nativeProfile.appendRecordHeader(nil, 0, 1, len(inner)+tagLen)
		message = sealer.aead.Seal(message, sealer.nonce(1), inner, message)
		_, err := (&Opener{inner: opener}).Open(message)
		wants(t, fmt.Sprint(inner), err, RecordContent)
	}
}

func TestAnOverdueKeyRotationIsRejected(t *testing.T) {
	sealer, opener := ratchets(t)
	sealer.used, opener.used, sealer.rekeyAfter = RecordsPerKeyMax-1, RecordsPerKeyMax-1, 1<<63
	for _, code := range []Code{"", RekeyOverdue} {
		message := must[[]byte](t)(sealer.seal(nil, &Content{Kind: Data}, 0))
		if _, err := opener.open(message); code == "" && err != nil {
			t.Error(err)
		} else if code != "" {
			wants(t, "one more", err, code)
		}
	}
}

func TestKeysRotateByAgeAndOldKeysAreWiped(t *testing.T) {
	sealer, opener := ratchets(t)
	before := sealer.key
	for _, at := range []uint64{5, 5 + uint64(time.Hour.Milliseconds()) - 1, 5 + uint64(time.Hour.Milliseconds())} {
		must[Content](t)(opener.open(must[[]byte](t)(sealer.seal(nil, &Content{Kind: Data}, at))))
		if changed := sealer.key != before; changed != (at > uint64(time.Hour.Milliseconds())+4) || sealer.key != opener.key {
			t.Errorf("at %d: changed is %v", at, changed)
		}
	}
}

func TestTheLastSequenceNumberIsNeverUsed(t *testing.T) {
	sealer, _ := ratchets(t)
	sealer.sequence.used = lastSeq - 2
	if message := must[[]byte](t)(sealer.seal(nil, &Content{Kind: Data}, 0)); binary.BigEndian.Uint64(message[6:]) != lastSeq-1 {
		t.Error("another number")
	}
	_, err := sealer.seal(nil, &Content{Kind: Data}, 0)
	wants(t, "the last", err, RecordsExhausted)
}

func TestContentThatIsTooLongDoesNotUseUpARecord(t *testing.T) {
	native, _ := ratchets(t)
	sealer := &Sealer{inner: native}
	_, err := sealer.Seal(nil, &Content{Kind: Data, Data: make([]byte, ContentMax+1)}, 0)
	wants(t, "long", err, ContentTooLarge)
	if _, err := sealer.Seal(nil, &Content{Kind: Close, Reason: "done"}, 0); err != nil {
		t.Error(err)
	}
	_, err = sealer.Seal(nil, &Content{Kind: Data}, 0)
	wants(t, "after a close", err, ChannelClosed)
}

func TestSettingsOutOfTheirBoundsAreNamed(t *testing.T) {
	for field, change := range map[string]func(*Settings){
		"channel_id": func(s *Settings) { s.ChannelID = "" }, "allowed_suites": func(s *Settings) { s.AllowedSuites = nil },
		"suite": func(s *Settings) { s.Suite = 0x108 }, "record_max": func(s *Settings) { s.RecordMax = RecordMax + 1 },
		"content_max": func(s *Settings) { s.ContentMax = 1 }, "rekey_after_records": func(s *Settings) { s.RekeyAfterRecords = 1 },
		"rekey_after": func(s *Settings) { s.RekeyAfter = 0 }, "pad_to": func(s *Settings) { s.PadTo = -1 },
		"local_static and peer_static": func(s *Settings) { s.Suite, s.AllowedSuites = 0x110, []uint16{0x110} },
	} {
		settings := NewSettings("c", Key{}, 0x100, 0)
		change(settings)
		var refused *Error
		if err := settings.Check(); !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestNothingPrintedShowsAKey(t *testing.T) {
	key := Key{0xAB, 0xCD, 0xEF, 0x12}
	settings := NewSettings("c", key, 0x100, nowS)
	randoms := &Randoms{Ephemeral: key}
	client, _, err := NewClient(settings, randoms)
	if err != nil {
		t.Fatal(err)
	}
	sealer, opener := ratchets(t)
	sealer.key, opener.key = key, key
	asJSON, _ := json.Marshal(settings)
	shown := string(asJSON)
	for _, what := range []any{key, &key, settings, *settings, randoms, client, &Sealer{inner: sealer}, &Opener{inner: opener}} {
		shown += fmt.Sprintf("%v %+v %#v %x %s %d", what, what, what, what, what, what)
	}
	for _, part := range []string{"abcdef12", "171 205", "171, 205", "0xab, 0xcd"} {
		if strings.Contains(strings.ToLower(shown), part) {
			t.Errorf("%s shows", part)
		}
	}
}

func FuzzNothingThatComesMakesAnOpenerOrAHandshakePanic(f *testing.F) {
	f.Add([]byte("SWNR\x01\x00"))
	f.Add([]byte("FSEH\x01\x01\x00\x00\x00\x02{}"))
	f.Fuzz(func(t *testing.T, message []byte) {
		_, opener := ratchets(t)
		_, _ = (&Opener{inner: opener}).Open(bytes.Clone(message))
		_, server, _ := v1Pair(t, nil)
		_, _, _ = server.Read(message, nowS)
		settings := NewSettings("c", Key{}, 0x100, nowS)
		native := must[*Handshake](t)(NewServer(settings, &Randoms{Ephemeral: Key{1}}))
		_, _, _ = native.Read(message, nowS)
	})
}
