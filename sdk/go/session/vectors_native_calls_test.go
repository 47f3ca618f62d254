package session_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"sealway.dev/go/internal/exchange"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

type vInner []struct {
	name  string
	value octets
}

func (i *vInner) UnmarshalJSON(data []byte) error {
	var pairs [][2]json.RawMessage
	if err := json.Unmarshal(data, &pairs); err != nil {
		return err
	}
	*i = make(vInner, len(pairs))
	for n, pair := range pairs {
		if err := json.Unmarshal(pair[0], &(*i)[n].name); err != nil {
			return err
		}
		if err := json.Unmarshal(pair[1], &(*i)[n].value); err != nil {
			return err
		}
	}
	return nil
}

func (i vInner) list() wire.HeaderList {
	var list wire.HeaderList
	for _, header := range i {
		list = append(list, wire.Header{Name: header.name, Value: string(header.value.data)})
	}
	return list
}

type vNativeRequest struct {
	head
	Session     vNativeSession `json:"session"`
	Client      vNativeClient  `json:"client"`
	NowMs       uint64         `json:"now_ms"`
	WindowMs    uint64         `json:"window_ms"`
	Method      string         `json:"method"`
	Path        string         `json:"path"`
	ContentType *string        `json:"content_type"`
	Stamp       string         `json:"stamp"`
	Nonce       string         `json:"nonce"`
	Inner       vInner         `json:"inner"`
	Frames      []octets       `json:"frames"`
	Key         hexBytes       `json:"key_hex"`
	IV          hexBytes       `json:"iv_hex"`
	Commit      hexBytes       `json:"commit_hex"`
	Context     hexBytes       `json:"context_hex"`
	Sealed      vSealed        `json:"sealed"`
	Claim       vClaim         `json:"claim"`
}

// sealStream seals inner headers and frames, and puts the stream where its message has it.
func sealStream(t *testing.T, headers wire.HeaderList, sealer *session.FrameSealer, inner vInner, frames []octets, contentType *string, bodiless bool) *session.Message {
	encoded := must(session.EncodeInner(inner.list()))(t)
	var stream []byte
	for n, frame := range frames {
		parts := [][]byte{frame.data}
		if n == 0 {
			parts = [][]byte{encoded, frame.data}
		}
		var err error
		if stream, err = sealer.Seal(stream, n == len(frames)-1, parts...); err != nil {
			t.Fatal(err)
		}
	}
	if bodiless {
		return &session.Message{Headers: append(headers, wire.Header{Name: "X-Sealed", Value: wire.EncodeBase64(stream)})}
	}
	if contentType == nil {
		return &session.Message{Headers: headers, Body: stream}
	}
	return &session.Message{Headers: append(headers, wire.Header{Name: "Content-Type", Value: *contentType}), Body: stream}
}

func joined(frames []octets) []byte {
	var all []byte
	for _, frame := range frames {
		all = append(all, frame.data...)
	}
	return all
}

func sameHeaders(t *testing.T, made, want wire.HeaderList) {
	t.Helper()
	if len(made) != len(want) {
		t.Fatalf("inner headers %v, not %v", made, want)
	}
	for n := range want {
		if made[n] != want[n] {
			t.Fatalf("inner headers %v, not %v", made, want)
		}
	}
}

// openRequest opens a request as a server does: whole, and in pieces.
func openRequest(t *testing.T, server *session.Session, line session.Line, headers headerPairs, body []byte, nowMs, windowMs uint64) (*exchange.ClaimGuard, []byte, error) {
	var results [2]struct {
		opened *exchange.ClaimGuard
		rest   []byte
		err    error
	}
	for n, step := range []int{max(1, len(body)), 1 + len(body)/1000} {
		results[n].opened, results[n].rest, results[n].err = openInSteps(server, line, headers, body, nowMs, windowMs, step)
	}
	if a, b := results[0].err, results[1].err; (a == nil) != (b == nil) || a != nil && a.Error() != b.Error() {
		t.Fatalf("whole it is %v, in pieces %v", a, b)
	}
	return results[0].opened, results[0].rest, results[0].err
}

func openInSteps(server *session.Session, line session.Line, headers headerPairs, body []byte, nowMs, windowMs uint64, step int) (opened *exchange.ClaimGuard, rest []byte, err error) {
	call, err := exchange.Begin(headers.list(), line, []wire.Version{1, 2, 3}, replayPolicy(windowMs), nowMs)
	if err != nil {
		return nil, nil, err
	}
	if _, err := call.SessionID(); err != nil {
		return nil, nil, err
	}
	opening, stream, err := call.Session(server, nowMs)
	if err != nil {
		return nil, nil, err
	}
	if sealed := stream.InHeader; sealed != nil {
		if len(body) > 0 {
			return nil, nil, wire.Refuse(wire.CodeHeaderInvalid)
		}
		body, step = sealed, max(1, min(step, len(sealed)))
	}
	take := func(piece *exchange.Piece, err error) error {
		switch {
		case err != nil || piece == nil:
			return err
		case opened == nil:
			opened, err = opening.Open(&exchange.Piece{Bytes: bytes.Clone(piece.Bytes)}, server, nowMs)
			return err
		}
		rest = append(rest, piece.Bytes...)
		return nil
	}
	for len(body) > 0 {
		part := body[:min(step, len(body))]
		body = body[len(part):]
		for len(part) > 0 {
			if err := take(stream.Read(&part)); err != nil {
				return nil, nil, err
			}
		}
	}
	err = take(stream.End())
	return opened, rest, err
}

func releasePlain(t *testing.T, opened *exchange.ClaimGuard) *exchange.PlainRequest {
	t.Helper()
	return must(opened.Release(session.Reserved(opened.Claim())))(t)
}

func playNativeRequest(t *testing.T, v *vNativeRequest) {
	client := v.Client.session(t)
	headers, sealer, _, err := client.SealAs(session.Line{Method: v.Method, Target: v.Path}, text(v.ContentType), v.Stamp, v.Nonce)
	if err != nil {
		t.Fatal(err)
	}
	session.CheckMessageKeys(t, client, false, v.Nonce, v.Stamp, v.Key, v.IV, v.Commit)
	session.CheckContext(t, sealer, v.Context)
	v.Sealed.same(t, sealStream(t, headers, sealer, v.Inner, v.Frames, v.ContentType, v.Sealed.bodiless()))
	body := v.Sealed.Body.data
	if v.Sealed.Body.hash != "" {
		headers, sealer, _, _ := client.SealAs(session.Line{Method: v.Method, Target: v.Path}, text(v.ContentType), v.Stamp, v.Nonce)
		body = sealStream(t, headers, sealer, v.Inner, v.Frames, v.ContentType, v.Sealed.bodiless()).Body
	}
	opened, rest, err := openRequest(t, v.Session.open(t), session.Line{Method: v.Method, Target: v.Path}, v.Sealed.Headers, body, v.NowMs, v.WindowMs)
	if err != nil {
		t.Fatal(err)
	}
	v.Claim.same(t, opened.Claim(), v.NowMs)
	request := releasePlain(t, opened)
	sameHeaders(t, request.Inner, v.Inner.list())
	if !bytes.Equal(append(bytes.Clone(request.First), rest...), joined(v.Frames)) {
		t.Fatal("another body")
	}
}

type vNativeRequestRefused struct {
	head
	Session  vNativeSession `json:"session"`
	NowMs    uint64         `json:"now_ms"`
	WindowMs uint64         `json:"window_ms"`
	Method   string         `json:"method"`
	Path     string         `json:"path"`
	Headers  headerPairs    `json:"headers"`
	Body     octets         `json:"body"`
	Code     string         `json:"code"`
}

func playNativeRequestRefused(t *testing.T, v *vNativeRequestRefused) {
	_, _, err := openRequest(t, v.Session.open(t), session.Line{Method: v.Method, Target: v.Path}, v.Headers, v.Body.data, v.NowMs, v.WindowMs)
	wantCode(t, err, v.Code)
}

type vRequestHead struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Nonce  string `json:"nonce"`
}

func (r *vRequestHead) pending(t *testing.T, client *session.ClientSession) *session.Call {
	_, _, pending, err := client.SealAs(session.Line{Method: r.Method, Target: r.Path}, "", "1", r.Nonce)
	return must(pending, err)(t)
}

type vNativeAnswer struct {
	head
	Session     vNativeSession `json:"session"`
	Client      vNativeClient  `json:"client"`
	Request     vRequestHead   `json:"request"`
	Status      int            `json:"status"`
	ContentType *string        `json:"content_type"`
	Stamp       string         `json:"stamp"`
	Nonce       string         `json:"nonce"`
	Inner       vInner         `json:"inner"`
	Frames      []octets       `json:"frames"`
	Key         hexBytes       `json:"key_hex"`
	IV          hexBytes       `json:"iv_hex"`
	Commit      hexBytes       `json:"commit_hex"`
	Context     hexBytes       `json:"context_hex"`
	Sealed      vSealed        `json:"sealed"`
}

func openNativeAnswer(pending *session.Call, headers wire.HeaderList, status int, body []byte) (wire.HeaderList, []byte, error) {
	sealed, opener, err := pending.Open(headers, status)
	if err != nil {
		return nil, nil, err
	}
	if sealed != nil && len(body) > 0 {
		return nil, nil, wire.Refuse(wire.CodeHeaderInvalid)
	}
	if sealed == nil {
		sealed = body
	}
	return opener.OpenWhole(sealed)
}

func playNativeAnswer(t *testing.T, v *vNativeAnswer) {
	reply := session.NewReply(v.Session.open(t), session.Line{Method: v.Request.Method, Target: v.Request.Path}, v.Request.Nonce)
	headers, sealer := session.SealReplyAs(t, reply, v.Status, text(v.ContentType), v.Stamp, v.Nonce)
	client := v.Client.session(t)
	session.CheckMessageKeys(t, client, true, v.Request.Nonce, v.Nonce, v.Key, v.IV, v.Commit)
	session.CheckContext(t, sealer, v.Context)
	made := sealStream(t, headers, sealer, v.Inner, v.Frames, v.ContentType, v.Sealed.bodiless())
	v.Sealed.same(t, made)
	inner, body, err := openNativeAnswer(v.Request.pending(t, client), v.Sealed.Headers.list(), v.Status, made.Body)
	if err != nil {
		t.Fatal(err)
	}
	sameHeaders(t, inner, v.Inner.list())
	if !bytes.Equal(body, joined(v.Frames)) {
		t.Fatal("another body")
	}
}

type vNativeAnswerRefused struct {
	head
	Client  vNativeClient `json:"client"`
	Request vRequestHead  `json:"request"`
	Status  int           `json:"status"`
	Headers headerPairs   `json:"headers"`
	Body    octets        `json:"body"`
	Code    string        `json:"code"`
}

func playNativeAnswerRefused(t *testing.T, v *vNativeAnswerRefused) {
	_, _, err := openNativeAnswer(v.Request.pending(t, v.Client.session(t)), v.Headers.list(), v.Status, v.Body.data)
	wantCode(t, err, v.Code)
}

type vNativeKeySet struct {
	head
	Root          hexBytes           `json:"root_public_hex"`
	Accepted      session.Algorithms `json:"signature_algorithms"`
	NowMs         uint64             `json:"now_ms"`
	TakenIssuedMs *uint64            `json:"taken_issued_ms"`
	Body          string             `json:"body"`
	IssuedMs      uint64             `json:"issued_ms"`
	Keys          []struct {
		KeyID  string   `json:"key_id"`
		Public hexBytes `json:"public_hex"`
	} `json:"keys"`
	Signers []struct {
		KeyID        string `json:"key_id"`
		ServerTimeMs uint64 `json:"server_time_ms"`
		NowMs        uint64 `json:"now_ms"`
		Trusted      bool   `json:"trusted"`
	} `json:"signers"`
}

func takeSet(body string, root []byte, accepted session.Algorithms, nowMs uint64, taken *uint64) (*session.KeySet, error) {
	set, err := session.ParseKeySet([]byte(body))
	if err != nil {
		return nil, err
	}
	var before uint64
	if taken != nil {
		before = *taken
	}
	return set, set.VerifyRoot(root, accepted, nowMs, before)
}

func playNativeKeySet(t *testing.T, v *vNativeKeySet) {
	set := must(takeSet(v.Body, v.Root, v.Accepted, v.NowMs, v.TakenIssuedMs))(t)
	known := slices.DeleteFunc(slices.Clone(set.Keys), func(key session.IdentityKey) bool { return set.Key(key.KeyID) == nil })
	if set.IssuedMs != v.IssuedMs || len(known) != len(v.Keys) {
		t.Fatalf("issued %d, %d keys", set.IssuedMs, len(known))
	}
	for _, key := range v.Keys {
		if !bytes.Equal(set.Key(key.KeyID), key.Public) {
			t.Fatalf("another key %s", key.KeyID)
		}
	}
	for _, signer := range v.Signers {
		public := set.Signer(signer.KeyID, signer.ServerTimeMs, signer.NowMs)
		if trusted := public != nil && v.Accepted.Accept(public, false); trusted != signer.Trusted {
			t.Fatalf("%s at %d and %d: trusted %v", signer.KeyID, signer.ServerTimeMs, signer.NowMs, trusted)
		}
	}
	if len(v.Signers) == 0 {
		t.Fatal("no signers")
	}
}

type vNativeKeySetRefused struct {
	head
	Root          hexBytes           `json:"root_public_hex"`
	Accepted      session.Algorithms `json:"signature_algorithms"`
	NowMs         uint64             `json:"now_ms"`
	TakenIssuedMs *uint64            `json:"taken_issued_ms"`
	Body          string             `json:"body"`
	Code          string             `json:"code"`
}

func playNativeKeySetRefused(t *testing.T, v *vNativeKeySetRefused) {
	_, err := takeSet(v.Body, v.Root, v.Accepted, v.NowMs, v.TakenIssuedMs)
	wantCode(t, err, v.Code)
}

type vNativeProblem struct {
	head
	Session vNativeSession `json:"session"`
	Client  vNativeClient  `json:"client"`
	Request struct {
		Stamp string `json:"stamp"`
		Nonce string `json:"nonce"`
	} `json:"request"`
	Body    string `json:"body"`
	Proven  bool   `json:"proven"`
	Resends []struct {
		Method    string `json:"method"`
		ElapsedMs uint64 `json:"elapsed_ms"`
		Again     bool   `json:"again"`
	} `json:"resends"`
}

func playNativeProblem(t *testing.T, v *vNativeProblem) {
	line := session.Line{Method: "POST", Target: "/"}
	headers, _, pending, err := v.Client.session(t).SealAs(line, "", v.Request.Stamp, v.Request.Nonce)
	if err != nil {
		t.Fatal(err)
	}
	var told struct {
		Code         string  `json:"code"`
		Status       int     `json:"status"`
		ServerTimeMs *uint64 `json:"server_time_ms"`
		MAC          string  `json:"mac"`
	}
	if err := json.Unmarshal([]byte(v.Body), &told); err != nil {
		t.Fatal(err)
	}
	problem := session.ParseProblem(told.Status, []byte(v.Body), false)
	if problem == nil {
		t.Fatal("no problem")
	}
	if proven := pending.Proven(problem); proven != v.Proven {
		t.Fatalf("proven: %v", proven)
	}
	for _, resend := range v.Resends {
		line := session.Line{Method: resend.Method, Target: "/"}
		_, _, pending, err := v.Client.session(t).SealAs(line, "", v.Request.Stamp, v.Request.Nonce)
		if err != nil {
			t.Fatal(err)
		}
		if again := pending.SendsAgain(problem, v.Proven, resend.ElapsedMs); again != resend.Again {
			t.Fatalf("%s after %d ms is sent again: %v", resend.Method, resend.ElapsedMs, again)
		}
	}
	if len(v.Resends) == 0 {
		t.Fatal("no resends")
	}
	if !v.Proven {
		return
	}
	// The server makes the same proof.
	request := must(session.ParseRequest(headers, line, 0, session.ReplayPolicy{}))(t)
	if mac := request.ClockProof(v.Session.open(t), *told.ServerTimeMs); wire.EncodeBase64(mac) != told.MAC {
		t.Fatal("another mac")
	}
}

type vNativeHeaders struct {
	head
	FrontTrusted bool        `json:"front_trusted"`
	Inner        headerPairs `json:"inner"`
	Outer        headerPairs `json:"outer"`
	Service      headerPairs `json:"service"`
}

func playNativeHeaders(t *testing.T, v *vNativeHeaders) {
	sameHeaders(t, session.ServiceHeaders(v.Outer.list(), v.Inner.list(), v.FrontTrusted), v.Service.list())
}
