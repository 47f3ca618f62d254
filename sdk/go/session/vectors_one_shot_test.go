package session_test

import (
	"bytes"
	"crypto/mlkem"
	"encoding/json"
	"slices"
	"testing"

	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
)

// Types that a server alone plays have no play.
func TestEveryOneShotScenarioMatchesTheVectors(t *testing.T) {
	playFolder(t, "one-shot", map[string]play{
		"request4": scenario(playOneShotRequest), "request4-refused": nil, "psk4": nil,
		"answer4": scenario(playOneShotAnswer), "answer4-refused": scenario(playOneShotAnswerRefused),
		"key-document4": scenario(playKeyDocument), "key-document4-refused": scenario(playKeyDocumentRefused),
		"problem4": scenario(playOneShotProblem),
	})
}

type vOneShotRequest struct {
	head
	Key struct {
		KEM     string   `json:"kem"`
		Config  hexBytes `json:"config_hex"`
		Private hexBytes `json:"private_hex"`
	} `json:"key"`
	PSK *struct {
		ID  string   `json:"id"`
		PSK hexBytes `json:"psk_hex"`
	} `json:"psk"`
	Randomness   hexBytes `json:"randomness_hex"`
	KEMSecret    hexBytes `json:"kem_secret_hex"`
	GroupPrivate hexBytes `json:"group_private_hex"`
	GroupSecret  hexBytes `json:"group_secret_hex"`
	Enc          hexBytes `json:"enc_hex"`
	Shared       hexBytes `json:"shared_secret_hex"`
	C2S          hexBytes `json:"c2s_hex"`
	S2C          hexBytes `json:"s2c_hex"`
	NowMs        uint64   `json:"now_ms"`
	WindowMs     uint64   `json:"window_ms"`
	Method       string   `json:"method"`
	Path         string   `json:"path"`
	ContentType  *string  `json:"content_type"`
	Stamp        string   `json:"stamp"`
	Nonce        string   `json:"nonce"`
	Inner        vInner   `json:"inner"`
	Frames       []octets `json:"frames"`
	FrameKey     hexBytes `json:"key_hex"`
	IV           hexBytes `json:"iv_hex"`
	Commit       hexBytes `json:"commit_hex"`
	Context      hexBytes `json:"context_hex"`
	Sealed       vSealed  `json:"sealed"`
	Claim        vClaim   `json:"claim"`
}

func kemOf(t *testing.T, name string) crypto.KEM {
	t.Helper()
	for _, kem := range crypto.KEMs() {
		if kem.String() == name {
			return kem
		}
	}
	t.Fatalf("the KEM %q is not known", name)
	return 0
}

// ephemeral takes the ML-KEM half from the vector, as the library draws it by itself, and the group's key from the randomness.
func (v *vOneShotRequest) ephemeral(t *testing.T) crypto.Ephemeral {
	group := v.Randomness[len(v.Randomness)-32:]
	made := must(crypto.DrawEphemeral(kemOf(t, v.Key.KEM), bytes.NewReader(group), nil))(t)
	made.Encapsulate = func(crypto.EncapsulationKey) (secret, ciphertext []byte) {
		return bytes.Clone(v.KEMSecret), v.Enc[:mlkem.CiphertextSize768]
	}
	return made
}

func playOneShotRequest(t *testing.T, v *vOneShotRequest) {
	config := must(session.ParseKeyConfig(v.Key.Config))(t)
	if config.KEM != kemOf(t, v.Key.KEM) {
		t.Fatal("another KEM: ", config.KEM)
	}
	pskID, psk := "", session.Key{}
	if v.PSK != nil {
		pskID, psk = v.PSK.ID, session.Key(v.PSK.PSK)
	}
	key := must(session.NewOneShot(config, pskID, psk))(t)
	headers, sealer, call, err := session.SealOneShotAs(key, session.Line{Method: v.Method, Target: v.Path}, text(v.ContentType), v.Stamp, v.Nonce, v.ephemeral(t))
	if err != nil {
		t.Fatal(err)
	}
	session.CheckOneShotKeys(t, call, v.C2S, v.S2C, v.Enc, key.LeadLen(), sealer)
	session.CheckCallKeys(t, call, false, v.Nonce, v.Stamp, v.FrameKey, v.IV, v.Commit)
	session.CheckContext(t, sealer, v.Context)
	v.Sealed.same(t, sealStream(t, headers, sealer, v.Inner, v.Frames, v.ContentType, v.Sealed.bodiless()))
}

type vOneShotAnswer struct {
	head
	Kid         string       `json:"kid"`
	S2C         hexBytes     `json:"s2c_hex"`
	Request     vRequestHead `json:"request"`
	Status      int          `json:"status"`
	ContentType *string      `json:"content_type"`
	Stamp       string       `json:"stamp"`
	Nonce       string       `json:"nonce"`
	Inner       vInner       `json:"inner"`
	Frames      []octets     `json:"frames"`
	Key         hexBytes     `json:"key_hex"`
	IV          hexBytes     `json:"iv_hex"`
	Commit      hexBytes     `json:"commit_hex"`
	Context     hexBytes     `json:"context_hex"`
	Sealed      vSealed      `json:"sealed"`
	Problem     bool         `json:"problem"`
}

func playOneShotAnswer(t *testing.T, v *vOneShotAnswer) {
	call := session.OneShotCall(v.Kid, v.S2C, session.Line{Method: v.Request.Method, Target: v.Request.Path}, "1", v.Request.Nonce)
	headers, sealer := session.SealOneShotAnswerAs(t, call, v.Status, text(v.ContentType), v.Stamp, v.Nonce)
	session.CheckCallKeys(t, call, true, v.Request.Nonce, v.Nonce, v.Key, v.IV, v.Commit)
	session.CheckContext(t, sealer, v.Context)
	made := sealStream(t, headers, sealer, v.Inner, v.Frames, v.ContentType, v.Sealed.bodiless())
	v.Sealed.same(t, made)
	_, opener, err := call.Open(v.Sealed.Headers.list(), v.Status)
	if err != nil || opener.IsProblem() != v.Problem {
		t.Fatalf("%v, or a problem and not an answer, or the other way", err)
	}
	inner, body, err := openNativeAnswer(call, v.Sealed.Headers.list(), v.Status, made.Body)
	if err != nil {
		t.Fatal(err)
	}
	sameHeaders(t, inner, v.Inner.list())
	if !bytes.Equal(body, joined(v.Frames)) {
		t.Fatal("another body")
	}
}

type vOneShotAnswerRefused struct {
	head
	Kid     string       `json:"kid"`
	S2C     hexBytes     `json:"s2c_hex"`
	Request vRequestHead `json:"request"`
	Status  int          `json:"status"`
	Headers headerPairs  `json:"headers"`
	Body    octets       `json:"body"`
	Code    string       `json:"code"`
}

func playOneShotAnswerRefused(t *testing.T, v *vOneShotAnswerRefused) {
	call := session.OneShotCall(v.Kid, v.S2C, session.Line{Method: v.Request.Method, Target: v.Request.Path}, "1", v.Request.Nonce)
	_, _, err := openNativeAnswer(call, v.Headers.list(), v.Status, v.Body.data)
	wantCode(t, err, v.Code)
}

type vKeyDocument struct {
	head
	Root          hexBytes           `json:"root_public_hex"`
	Accepted      session.Algorithms `json:"signature_algorithms"`
	NowMs         uint64             `json:"now_ms"`
	TakenIssuedMs *uint64            `json:"taken_issued_ms"`
	Body          string             `json:"body"`
	IssuedMs      uint64             `json:"issued_ms"`
	Keys          []struct {
		Kid    string   `json:"kid"`
		Config hexBytes `json:"config_hex"`
		KEM    *string  `json:"kem"`
	} `json:"keys"`
	Choices []struct {
		NowMs uint64   `json:"now_ms"`
		KEMs  []string `json:"kems"`
		Kid   *string  `json:"kid"`
	} `json:"choices"`
}

func takeDocument(body string, root []byte, accepted session.Algorithms, nowMs uint64, taken *uint64) (*session.KeyDocument, error) {
	document, err := session.ParseKeyDocument([]byte(body))
	if err != nil {
		return nil, err
	}
	var before uint64
	if taken != nil {
		before = *taken
	}
	return document, document.VerifyRoot(root, accepted, nowMs, before)
}

func playKeyDocument(t *testing.T, v *vKeyDocument) {
	document := must(takeDocument(v.Body, v.Root, v.Accepted, v.NowMs, v.TakenIssuedMs))(t)
	if document.IssuedMs != v.IssuedMs || len(document.Keys) != len(v.Keys) {
		t.Fatalf("issued %d, %d keys", document.IssuedMs, len(document.Keys))
	}
	for n, key := range v.Keys {
		got, want := document.Keys[n], must(session.ParseKeyConfig(key.Config))(t)
		if got.Kid() != key.Kid || want.Kid() != key.Kid || !session.ValidKeyKid(key.Kid) || (got.KEM.PublicLen() == 0) != (key.KEM == nil) ||
			key.KEM != nil && got.KEM != kemOf(t, *key.KEM) {
			t.Fatalf("%s is %s, of %v", key.Kid, got.Kid(), got.KEM)
		}
	}
	for _, choice := range v.Choices {
		var kems []crypto.KEM
		for _, name := range choice.KEMs {
			kems = append(kems, kemOf(t, name))
		}
		kid := ""
		if key := document.Choose(choice.NowMs, kems, nil); key != nil {
			kid = key.Kid()
		}
		if kid != text(choice.Kid) {
			t.Fatalf("at %d of %v: %q and not %q", choice.NowMs, kems, kid, text(choice.Kid))
		}
		// Pinned kids choose among these keys.
		others := slices.DeleteFunc(document.Kids(), func(other string) bool { return other == kid })
		if key := document.Choose(choice.NowMs, kems, append(others, "none")); key != nil && key.Kid() == kid {
			t.Fatal("a key that is not pinned")
		}
	}
	if len(v.Choices) == 0 {
		t.Fatal("no choices")
	}
}

type vKeyDocumentRefused struct {
	head
	Root          hexBytes           `json:"root_public_hex"`
	Accepted      session.Algorithms `json:"signature_algorithms"`
	NowMs         uint64             `json:"now_ms"`
	TakenIssuedMs *uint64            `json:"taken_issued_ms"`
	Body          string             `json:"body"`
	Code          string             `json:"code"`
}

func playKeyDocumentRefused(t *testing.T, v *vKeyDocumentRefused) {
	_, err := takeDocument(v.Body, v.Root, v.Accepted, v.NowMs, v.TakenIssuedMs)
	wantCode(t, err, v.Code)
}

type vOneShotProblem struct {
	head
	Stamp   string `json:"stamp"`
	Status  int    `json:"status"`
	Body    string `json:"body"`
	Sealed  bool   `json:"sealed"`
	Resends []struct {
		Method    string `json:"method"`
		ElapsedMs uint64 `json:"elapsed_ms"`
		Again     bool   `json:"again"`
	} `json:"resends"`
}

func playOneShotProblem(t *testing.T, v *vOneShotProblem) {
	problem := session.ParseProblem(v.Status, []byte(v.Body), v.Sealed)
	var told struct{ Code string }
	if err := json.Unmarshal([]byte(v.Body), &told); err != nil || problem == nil || problem.Code != told.Code {
		t.Fatal("no problem, or of another code: ", problem, err)
	}
	for _, resend := range v.Resends {
		call := session.OneShotCall("hpke:0", nil, session.Line{Method: resend.Method, Target: "/"}, v.Stamp, "0123456789abcdef")
		if again := call.SendsAgain(problem, call.Proven(problem), resend.ElapsedMs); again != resend.Again {
			t.Fatalf("%s after %d ms is sent again: %v", resend.Method, resend.ElapsedMs, again)
		}
	}
	if len(v.Resends) == 0 {
		t.Fatal("no resends")
	}
}
