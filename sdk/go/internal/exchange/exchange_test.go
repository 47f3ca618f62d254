package exchange_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sealway.dev/go/crypto"
	"sealway.dev/go/internal/exchange"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

const nowMs = 1_750_000_000_000

var (
	line = session.Line{Method: "POST", Target: "/pay?x"}
	all  = []wire.Version{wire.Wire1, wire.Wire2, wire.Wire3}
)

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// agreed is both sides of a session of wire 3 that is over in an hour.
func agreed(t *testing.T) (*session.ClientSession, *session.Record) {
	t.Helper()
	identity := must(crypto.ParseIdentity(append(make([]byte, 31), 9)))(t)
	offer := session.Offer{Suites: []crypto.Suite{crypto.P256}, ClientID: "me"}
	init := must(session.NewClientInit(offer, crypto.P256, must(crypto.DrawKeys(crypto.P256, true, rand.Reader))(t), nil))(t)
	terms := session.Terms{Suites: offer.Suites, Identities: []session.Identity{{Key: identity, NotAfterMs: 1 << 60}}, ExpiresInSec: 3600, Auth: session.AuthNone}
	answer, record, err := session.AgreeInit(must(session.ParseInitRequest(init.Body()))(t), terms, nil, func(suite crypto.Suite) (session.InitRandoms, error) {
		keys, err := crypto.DrawKeys(suite, false, rand.Reader)
		return session.InitRandoms{SessionID: [16]byte{7}, Keys: keys}, err
	}, nowMs)
	if err != nil {
		t.Fatal(err)
	}
	return must(init.Finish(201, answer, func(string) []byte { return identity.PublicKey() }))(t), record
}

// agreed2 is both sides of a session of wire 2.
func agreed2(t *testing.T) (*session.CompatClientSession, *session.Record) {
	t.Helper()
	init, message, err := session.NewCompatClientInit(wire.Wire2, false, "me", nil, must(crypto.DrawP256(rand.Reader))(t), [16]byte{2}, nowMs)
	if err != nil {
		t.Fatal(err)
	}
	call := must(session.ParseCompatInit(session.FamilySession, message.Headers, message.Body, nowMs, session.ReplayPolicy{}))(t)
	random := session.CompatInitRandoms{SessionID: [16]byte{3}, Ephemeral: must(crypto.DrawP256(rand.Reader))(t)}
	answer, record, err := must(call.Release(session.Reserved(call.Claim())))(t).Accept(session.DefaultTTL(), false, "", random, nowMs)
	if err != nil {
		t.Fatal(err)
	}
	return must(init.Finish(answer, nowMs))(t), record
}

// sent is a request of wire 3 whose frames have these plaintexts, and no inner headers.
func sent(t *testing.T, client *session.ClientSession, stampMs uint64, parts ...string) (wire.HeaderList, []byte) {
	t.Helper()
	headers, sealer, _, err := client.Seal(line, "x/y", stampMs, [16]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	parts[0] = "\x00\x00" + parts[0]
	var stream []byte
	for n, part := range parts {
		stream = must(sealer.Seal(stream, n == len(parts)-1, []byte(part)))(t)
	}
	return append(headers, wire.Header{Name: "Content-Type", Value: "x/y"}), stream
}

func open(t *testing.T, headers wire.HeaderList, record *session.Record) (*exchange.Opening, *exchange.Stream) {
	t.Helper()
	call := must(exchange.Begin(headers, line, all, session.ReplayPolicy{}, nowMs))(t)
	opening, stream, err := call.Session(must(session.NewSession(record))(t), nowMs)
	if err != nil {
		t.Fatal(err)
	}
	return opening, stream
}

// read gives what comes of a body that arrives in chunks of a length: its pieces, the last one marked, and the error that ended it.
func read(stream *exchange.Stream, body []byte, chunk int) (pieces []string, err error) {
	take := func(piece *exchange.Piece, err error) error {
		if piece != nil && piece.Last {
			pieces = append(pieces, string(piece.Bytes)+"|")
		} else if piece != nil {
			pieces = append(pieces, string(piece.Bytes))
		}
		return err
	}
	for len(body) > 0 {
		part := body[:min(chunk, len(body))]
		body = body[len(part):]
		for len(part) > 0 {
			if err := take(stream.Read(&part)); err != nil {
				return pieces, err
			}
		}
	}
	err = take(stream.End())
	return pieces, err
}

func TestTheLastPieceIsGivenOnlyWhenNothingStandsBehindIt(t *testing.T) {
	client, record := agreed(t)
	headers, body := sent(t, client, nowMs, "one", "two")
	for _, chunk := range []int{1, 7, len(body), len(body) + 1} {
		for _, c := range []struct {
			body []byte
			want string
			err  error
		}{
			{body, "\x00\x00one,two|", nil},
			{append(bytes.Clone(body), 'x'), "\x00\x00one", wire.CodeFrameInvalid},
			{body[:len(body)-1], "\x00\x00one", wire.CodeStreamTruncated},
		} {
			_, stream := open(t, headers, record)
			pieces, err := read(stream, c.body, chunk)
			if strings.Join(pieces, ",") != c.want || !errors.Is(err, c.err) || stream.Done() != (c.err == nil) {
				t.Errorf("%q, %v in chunks of %d", pieces, err, chunk)
			}
			// A reader that continues after an error reaches no end.
			if piece, again := stream.End(); c.err != nil && (piece != nil || !errors.Is(again, c.err)) {
				t.Error(piece, again)
			}
		}
	}
}

func TestWhatWasCheckedBeforeTheBodyCameIsCheckedAgainAsItOpens(t *testing.T) {
	client, record := agreed(t)
	headers, _ := sent(t, client, nowMs, "x")
	first := &exchange.Piece{Bytes: []byte("\x00\x00x"), Last: true}
	ended, endless := *record, *record
	ended.ExpiresMs, endless.ExpiresMs = nowMs, 1<<60
	for _, c := range []struct {
		record *session.Record
		nowMs  uint64
		want   error
	}{
		{record, nowMs, nil},
		{&ended, nowMs, wire.CodeSessionExpired},
		{record, record.ExpiresMs, wire.CodeSessionExpired},
		{&endless, nowMs + wire.NativeWindowMsMax, nil},
		{&endless, nowMs + wire.NativeWindowMsMax + 1, wire.CodeTimestampOutsideWindow},
	} {
		// The window of wire 3 is five minutes at most, whatever the policy says.
		call := must(exchange.Begin(headers, line, all, session.ReplayPolicy{WindowMs: wire.WindowMsMax}, nowMs))(t)
		opening, _, err := call.Session(must(session.NewSession(record))(t), nowMs)
		if err != nil {
			t.Fatal(err)
		}
		shut, err := opening.Open(first, must(session.NewSession(c.record))(t), c.nowMs)
		if !errors.Is(err, c.want) {
			t.Errorf("%v, and not %v", err, c.want)
		}
		if err != nil {
			continue
		}
		if plain, err := shut.Release(session.Reserved(session.Claim{Key: [16]byte{1}})); plain != nil || !errors.Is(err, wire.CodeReservationMismatch) {
			t.Error("released for another claim: ", err)
		}
		if plain := must(shut.Release(session.Reserved(shut.Claim())))(t); string(plain.First) != "x" || plain.Reply.Whole() {
			t.Errorf("%+v", plain)
		}
	}
}

func TestAStampThatIsOffIsRefusedWithAProofOfTheTime(t *testing.T) {
	client, record := agreed(t)
	headers, _ := sent(t, client, nowMs-wire.NativeWindowMsMax-1, "x")
	call := must(exchange.Begin(headers, line, all, session.ReplayPolicy{}, nowMs))(t)
	proof := regexp.MustCompile(`^\{"code":"clock_skew","mac":"[A-Za-z0-9+/]{43}=","server_time_ms":1750000000000,"status":400,` +
		`"title":"The request's time is too far from the server's.","type":"urn:sealway:problem:clock_skew"\}$`)
	bare := `{"code":"clock_skew","status":400,"title":"The request's time is too far from the server's.","type":"urn:sealway:problem:clock_skew"}`
	// Before its session is known there is no key to prove it by.
	if _, _, body := call.Reject(wire.Refuse(wire.CodeTimestampOutsideWindow), nowMs).Answer(exchange.Problem); string(body) != bare {
		t.Errorf("%s", body)
	}
	_, _, err := call.Session(must(session.NewSession(record))(t), nowMs)
	rejection := call.Reject(err, nowMs)
	if status, _, body := rejection.Answer(exchange.Problem); status != 400 || !proof.Match(body) {
		t.Errorf("%d %s", status, body)
	}
	if _, _, body := rejection.Answer(exchange.Plain); string(body) != `{"error":"CRYPTO_ERROR"}` {
		t.Errorf("%s", body)
	}
	if _, _, body := call.Reject(wire.Refuse(wire.CodeReplayed), nowMs).Answer(exchange.Problem); bytes.Contains(body, []byte("mac")) {
		t.Errorf("a proof of what nobody doubts: %s", body)
	}
}

func TestAWireThatIsNotServedAndAMethodThatIsNotSealedAreRefusedFirst(t *testing.T) {
	seal := wire.HeaderList{{Name: wire.HeaderSeal, Value: "3"}}
	inHeader := wire.HeaderList{{Name: wire.HeaderSeal, Value: "3"}, {Name: wire.HeaderKid, Value: "session:S-" + strings.Repeat("0", 32)},
		{Name: wire.HeaderIdempotencyKey, Value: "1." + strings.Repeat("n", 16)}, {Name: wire.HeaderSealed, Value: "A"}}
	for _, c := range []struct {
		headers wire.HeaderList
		method  string
		served  []wire.Version
		want    error
	}{
		{nil, "GET", all[2:], exchange.WireOff},
		{nil, "GET", all, exchange.Method},
		{nil, "POST", all, wire.CodeHeaderMissing},
		{seal, "TRACE", all[:2], exchange.WireOff},
		{seal, "TRACE", all, exchange.Method},
		{inHeader, "GET", all, wire.CodeHeaderInvalid},
		{seal, "GET", all, wire.CodeHeaderMissing},
	} {
		_, err := exchange.Begin(c.headers, session.Line{Method: c.method, Target: "/"}, c.served, session.ReplayPolicy{}, nowMs)
		if !errors.Is(err, c.want) {
			t.Errorf("%s %v: %v", c.method, c.headers, err)
		}
	}
}

// TestRejectionsHaveStatusAndErrorOfTheRegistry reads what spec/registry.toml says of each error on sealed requests.
func TestRejectionsHaveStatusAndErrorOfTheRegistry(t *testing.T) {
	file := must(os.Open("../../../../spec/registry.toml"))(t)
	defer file.Close()
	name, told := regexp.MustCompile(`^\[errors\.(.*)\]$`), regexp.MustCompile(`^(sealed3?) = \{ status = (\d+), error = "(\w+)" \}$`)
	forms, bodies := map[string]exchange.Form{"sealed": exchange.Plain, "sealed3": exchange.Problem}, map[string]string{"sealed": `{"error":"`, "sealed3": `{"code":"`}
	code, seen := "", 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if found := name.FindStringSubmatch(lines.Text()); found != nil {
			code = found[1]
		}
		found := told.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		seen++
		status, _, body := exchange.Reject(wire.Refuse(wire.Code(code))).Answer(forms[found[1]])
		if strconv.Itoa(status) != found[2] || !strings.HasPrefix(string(body), bodies[found[1]]+found[3]+`"`) {
			t.Errorf("%s on %s: %d %s", code, found[1], status, body)
		}
	}
	if seen < 35 {
		t.Fatalf("only %d rows were read", seen)
	}
}

func TestAnErrorHasTheFormAndHeadersOfItsWire(t *testing.T) {
	away := errors.Join(exchange.StoreUnavailable, wire.Refuse(wire.CodeSessionExpired))
	for _, c := range []struct {
		err            error
		class          exchange.Refusal
		plain, problem string
	}{
		{exchange.StoreUnavailable, "store_unavailable", `503 {"error":"SERVICE_UNAVAILABLE"} Retry-After: 1`, "503 store_unavailable Retry-After: 1"},
		{exchange.NoncesFull, "nonces_full", `400 {"error":"CRYPTO_ERROR"}`, "503 store_unavailable Retry-After: 1"},
		{exchange.BodyNoRoom, "body_no_room", `503 {"error":"SERVICE_UNAVAILABLE"} Retry-After: 1`, "503 store_unavailable Retry-After: 1"},
		{exchange.DisguisedPath, "disguised_path", `400 {"error":"CRYPTO_ERROR"}`, "400 unsealable"},
		{exchange.WireOff, "wire_off", `403 {"error":"WIRE_DISABLED"}`, "403 wire_disabled"},
		{exchange.Method, "method", `405 {"error":"METHOD_NOT_ALLOWED"} Allow: POST, OPTIONS`, "405 method_not_allowed Allow: POST, OPTIONS"},
		{exchange.Unreadable.Because(errors.New("why")), "unreadable", `400 {"error":"CRYPTO_ERROR"}`, "400 unsealable"},
		{exchange.Unanswered.Because(wire.CodeFrameInvalid), "unanswered", `502 {"error":"SERVICE_UNAVAILABLE"}`, "502 upstream_unreachable"},
		{wire.CodeReplayed, "replayed", `400 {"error":"CRYPTO_ERROR"}`, "409 replayed"},
		// The error of a store counts before its cause, and an unknown error is a store's.
		{away, "store_unavailable", `503 {"error":"SERVICE_UNAVAILABLE"} Retry-After: 1`, "503 store_unavailable Retry-After: 1"},
		{errors.New("why"), "store_unavailable", `503 {"error":"SERVICE_UNAVAILABLE"} Retry-After: 1`, "503 store_unavailable Retry-After: 1"},
	} {
		rejection := exchange.Reject(c.err)
		if rejection.Refusal != c.class {
			t.Errorf("%v is counted as %s", c.err, rejection.Refusal)
		}
		for version, want := range map[wire.Version]string{wire.Wire2: c.plain, wire.Wire3: c.problem} {
			status, headers, sent := rejection.Answer(exchange.FormOf(version))
			body, kind := string(sent), "application/json"
			if version == wire.Wire3 {
				code, _, _ := strings.Cut(strings.TrimPrefix(body, `{"code":"`), `"`)
				if !strings.HasSuffix(body, `,"type":"urn:sealway:problem:`+code+`"}`) {
					t.Errorf("no problem: %s", body)
				}
				body, kind = code, "application/problem+json"
			}
			got := strconv.Itoa(status) + " " + body
			for _, header := range headers[2:] {
				got += " " + header.Name + ": " + header.Value
			}
			if got != want || headers.Values("Content-Type")[0] != kind || headers.Values("Cache-Control")[0] != "no-store" {
				t.Errorf("%v on wire %d: %s, and not %s", c.err, version, got, want)
			}
		}
	}
}

func TestAnAnswerOfEachStatusIsSealedAsItsWireSays(t *testing.T) {
	client, record := agreed(t)
	headers, body := sent(t, client, nowMs, "x")
	two, old := agreed2(t)
	message, _ := two.Seal("/pay", []byte("x"), nowMs, session.SealRandoms{})
	reply := func(version wire.Version) *exchange.Reply {
		headers, body, record := headers, body, record
		if version == wire.Wire2 {
			headers, body, record = message.Headers, bytes.Clone(message.Body), old
		}
		opening, stream := open(t, headers, record)
		rest := body
		must(stream.Read(&rest))(t)
		first := must(stream.End())(t)
		shut := must(opening.Open(first, must(session.NewSession(record))(t), nowMs))(t)
		return must(shut.Release(session.Reserved(shut.Claim())))(t).Reply
	}
	for _, c := range []struct {
		version wire.Version
		status  int
		isHead  bool
		want    string
	}{
		{2, 201, false, "200"}, {2, 404, false, "404"}, {2, 304, false, "unanswered"}, {2, 400, false, "unreadable"}, {2, 422, false, "unreadable"},
		{3, 201, false, "201"}, {3, 400, false, "400"}, {3, 304, false, "304 in a header"}, {3, 204, false, "204 in a header"}, {3, 200, true, "200 in a header"},
	} {
		seal := reply(c.version).Answer(c.status, c.isHead)
		if err := seal.Begin(wire.HeaderList{{Name: "X-Own", Value: "1"}, {Name: "X-Sealway-Auth", Value: "forged"}, {Name: "Set-Cookie", Value: "a=b"}, {Name: "Connection", Value: "close"}}); err != nil {
			t.Fatal(err)
		}
		if !seal.Bodyless && seal.Take([]byte("body")) != 4 {
			t.Fatal("not taken")
		}
		head, piece, err := seal.Seal(true, nowMs, session.SealRandoms{})
		got := strconv.Itoa(seal.Status)
		var rejection *exchange.Rejection
		if errors.As(err, &rejection) {
			got = string(rejection.Refusal)
		} else if len(head.Values(wire.HeaderSealed)) > 0 && len(piece) == 0 && len(head.Values("Content-Length")) == 0 {
			got += " in a header"
		} else if head.Values("Content-Length")[0] != strconv.Itoa(len(piece)) || len(head.Values("Content-Type")) != 1 {
			t.Errorf("%v", head)
		}
		if got != c.want || err == nil && (len(head.Values("X-Own")) == 1) != (c.version == 2) || len(head.Values("X-Sealway-Auth")) > 0 || err == nil && len(head.Values("Set-Cookie")) != 1 {
			t.Errorf("wire %d: %d becomes %s: %v %v", c.version, c.status, got, head, err)
		}
	}
}
