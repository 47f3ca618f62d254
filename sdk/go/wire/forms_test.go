package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// codeOf returns the code of an error; none without an error.
func codeOf(err error) Code {
	var refused *Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	if err != nil {
		return "no code"
	}
	return ""
}

func TestBase64HasOneSpellingForEachLength(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for length := range len(all) + 1 {
		text := EncodeBase64(all[:length])
		if text != base64.StdEncoding.EncodeToString(all[:length]) {
			t.Fatalf("%d bytes are %s", length, text)
		}
		if data, err := DecodeBase64(text); err != nil || !bytes.Equal(data, all[:length]) {
			t.Fatalf("%s: %x, %v", text, data, err)
		}
	}
	for _, text := range []string{"A", "AA", "AAA", "AA=", "A===", "====", "=AAA", "AA=A", "AAAA=", "AB==", "AAB=", " AAA", "AA\nAA", "AAAA\r", "AAAA\n", "AA-_", "AA!A"} {
		if _, err := DecodeBase64(text); codeOf(err) != CodeBase64Invalid {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestRandomNumbersAreWrittenAsTheirKind(t *testing.T) {
	random := [16]byte{0: 0xab, 15: 1}
	digits := "ab" + strings.Repeat("0", 28) + "01"
	for got, want := range map[string]string{
		NonceText(random, false):            digits,
		NonceText(random, true):             "r-" + digits,
		IdempotencyKey(7, random, false):    "7." + digits,
		IdempotencyKey(70, random, true):    "70.r-" + digits,
		SessionIDOf(random, false):          "S-" + digits,
		SessionIDOf(random, true):           "A-" + digits,
		Kid(SessionIDOf(random, false)):     "session:S-" + digits,
		Wire1.KidPrefix():                   "session:",
		Wire4.KidPrefix():                   "hpke:",
		IdempotencyKey(1<<63, random, true): "9223372036854775808.r-" + digits,
	} {
		if got != want {
			t.Errorf("%s instead of %s", got, want)
		}
	}
}

func TestNonces(t *testing.T) {
	shortest := strings.Repeat("a", 16)
	longest := "azAZ09_-" + strings.Repeat("x", 120)
	for _, nonce := range []string{shortest, longest, "ar-" + shortest, "r_" + shortest, "-r" + shortest} {
		if err := CheckRequestNonce(nonce, 16); err != nil {
			t.Errorf("%s: %v", nonce, err)
		}
		if code := codeOf(CheckAnswerNonce(nonce, 16)); code != CodeAnswerMismatch {
			t.Errorf("%s is an answer's: %s", nonce, code)
		}
	}
	for _, nonce := range []string{"", shortest[1:], longest + "x", shortest + ".", "." + shortest, shortest + "\n", shortest + "é",
		shortest + "/", shortest + ":", shortest + "@", shortest + "[", shortest + "`", shortest + "{"} {
		if code := codeOf(CheckRequestNonce(nonce, 16)); code != CodeNonceInvalid {
			t.Errorf("request %q: %s", nonce, code)
		}
		if code := codeOf(CheckAnswerNonce(nonce, 16)); code != CodeNonceInvalid {
			t.Errorf("answer %q: %s", nonce, code)
		}
		if IsProblemNonce("p-"+nonce) && nonce != shortest[1:] && nonce != "" {
			t.Errorf("problem %q", nonce)
		}
	}
	for _, nonce := range []string{"r-" + shortest, "R-" + shortest} {
		if code := codeOf(CheckRequestNonce(nonce, 16)); code != CodeNonceReserved {
			t.Errorf("%s: %s", nonce, code)
		}
	}
	// Shorter than the beginning that answers have.
	for _, nonce := range []string{"a", "r", "ab"} {
		if err := CheckRequestNonce(nonce, 0); err != nil {
			t.Errorf("%s: %v", nonce, err)
		}
	}
	if code := codeOf(CheckRequestNonce("r-", 0)); code != CodeNonceReserved {
		t.Errorf("r-: %s", code)
	}
	if err := CheckAnswerNonce("r-"+shortest, 16); err != nil {
		t.Error(err)
	}
	if code := codeOf(CheckAnswerNonce("R-"+shortest, 16)); code != CodeAnswerMismatch {
		t.Errorf("R-: %s", code)
	}
	for nonce, is := range map[string]bool{"p-" + shortest: true, "p-" + shortest[2:]: true, "p-" + shortest[3:]: false, "P-" + shortest: false,
		"r-" + shortest: false, shortest: false, "p-" + shortest + ".": false} {
		if IsProblemNonce(nonce) != is {
			t.Errorf("%s: %v", nonce, !is)
		}
	}
}

func TestIdentifiers(t *testing.T) {
	digits := strings.Repeat("09af", 8)
	for _, form := range []struct {
		what    string
		valid   func(string) bool
		yes, no []string
	}{
		{"key of one-shot", ValidPSKID, []string{"!", "~", "a", strings.Repeat("x", 64)}, []string{"", " ", "\x7f", "é", "a b", strings.Repeat("x", 65)}},
		{"session", ValidSessionID, []string{"S-" + digits, "A-" + digits},
			[]string{"", "S-", "B-" + digits, "S-" + digits + "0", "S-" + digits[1:], "S-" + strings.ToUpper(digits), "S-" + digits[1:] + "g", "S-" + digits[1:] + "`",
				"S-" + digits[1:] + "/", "S-" + digits[1:] + ":", digits + "S-"}},
		{"client", ValidClientID, []string{"a", " ", "~", "{}", strings.Repeat("x", 256)}, []string{"", "|", "a|b", "\x1f", "\x7f", "é", "a\n", strings.Repeat("x", 257)}},
		{"key", ValidKeyID, []string{digits}, []string{"", digits[1:], digits + "0", digits[1:] + "A", digits[1:] + "g"}},
		{"algorithm", ValidAlgorithmName, []string{"a", "+", "ES256+ML-DSA-65", strings.Repeat("x", 32)}, []string{"", "a b", "a.b", strings.Repeat("x", 33)}},
		{"suite", ValidSuiteName, []string{"a", "-", "X25519_k", strings.Repeat("x", 32)}, []string{"", "+", "a b", strings.Repeat("x", 33)}},
	} {
		for _, text := range form.yes {
			if !form.valid(text) {
				t.Errorf("%q is no id of a %s", text, form.what)
			}
		}
		for _, text := range form.no {
			if form.valid(text) {
				t.Errorf("%q is an id of a %s", text, form.what)
			}
		}
	}
	if id, err := SessionIDOfKid("session:x"); id != "x" || err != nil {
		t.Errorf("%s, %v", id, err)
	}
	for _, kid := range []string{"", "hpke:x", "Session:x", "xsession:"} {
		if _, err := SessionIDOfKid(kid); codeOf(err) != CodeKidPrefix {
			t.Errorf("%s: %v", kid, err)
		}
	}
}

func TestIdempotencyKeysAndStamps(t *testing.T) {
	if stamp, nonce, err := SplitIdempotencyKey("1.a"); stamp != "1" || nonce != "a" || err != nil {
		t.Errorf("%s, %s, %v", stamp, nonce, err)
	}
	for _, key := range []string{"", ".", "1", "1.", ".a", "1.a.", "1.a.b", "..", "1..a"} {
		if stamp, nonce, err := SplitIdempotencyKey(key); codeOf(err) != CodeIdempotencyKeyShape || stamp != "" || nonce != "" {
			t.Errorf("%s: %v", key, err)
		}
	}
	for text, want := range map[string]uint64{"0": 0, "9": 9, "007": 7, "999999999999999": 999999999999999} {
		if ms, err := ParseStamp(text); ms != want || err != nil {
			t.Errorf("%s: %d, %v", text, ms, err)
		}
	}
	for _, text := range []string{"", "-1", "+1", "1.5", "1e3", " 1", "1 ", "x", "/", ":", "1_0", "1000000000000000"} {
		if _, err := ParseStamp(text); codeOf(err) != CodeTimestampInvalid {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestJSONIsRead(t *testing.T) {
	deep := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	for _, text := range []string{`{"a":[1,-2.5e3,true,null,"x\"]}\\"],"b":{"c":"[[["}}`, ` "1e999" `, `1.7976931348623157e308`, `""`, `"\u0000\ud7ff\ue000"`, `"\ud800\udc00"`,
		`"\udbff\udfff[[["`, `"a\ud83d\ude00b"`, deep(127), strings.Repeat(`{"a":`, 127) + "1" + strings.Repeat("}", 127), "[" + strings.Repeat("[[]],", 200) + "1]",
		`["` + strings.Repeat(`\"[`, 200) + `"]`, `["\\",` + strings.Repeat(`"{",`, 200) + `1]`, `["` + strings.Repeat(`\u005b`, 200) + `"]`, `["\u0041",` + deep(126) + `]`,
		`["\ud800\udc00",` + deep(126) + `]`} {
		value, err := ParseJSON([]byte(text))
		if err != nil {
			t.Errorf("%.40s: %v", text, err)
			continue
		}
		var want any
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&want); err != nil || !reflect.DeepEqual(value, want) {
			t.Errorf("%.40s is %v", text, value)
		}
	}
	for _, text := range []string{"", "{", `{"a":1}x`, "1 2", "\ufeff{}", `'a'`, `"a`, `"\`, "NaN", "01", "\"\xff\"", "1e999", "-1e999", "[1,2,1e309]", `{"a":1e999}`, deep(128),
		strings.Repeat(`{"a":`, 128) + "1" + strings.Repeat("}", 128), `["",` + deep(127) + `]`, `["\\",` + deep(127) + `]`, `["\u0041",` + deep(127) + `]`, `["\ud800\udc00",` + deep(127) + `]`,
		`"\ud800"`, `"\udbff"`, `"\udc00"`, `"\udfff"`, `"\ud800\ud800"`, `"\ud800\ue000"`, `"\ud800\udbff"`, `"\ud800a"`, `"\ud800\n"`, `"\ud800\nudc00"`, `"\ud800xudc00"`,
		`"\udc00\udc00"`, `"\udc00\ud800"`, `"\ud800\udc00\ud800"`, `"\ud800\\udc00"`, `"a\ud800 abcdefgh"`, `"\ud800\\\\\\\\"`} {
		if value, err := ParseJSON([]byte(text)); codeOf(err) != CodeJSONInvalid || value != nil {
			t.Errorf("%.40q: %v, %v", text, value, err)
		}
	}
}

func TestNumbersAreWhole(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "10": 10, "1e1": 10, "1.0": 1, "100e-1": 10, "0.0": 0, "-0": 0, "-0.0": 0} {
		if whole, ok := Whole(json.Number(text), 10); whole != want || !ok {
			t.Errorf("%s: %d, %v", text, whole, ok)
		}
	}
	for _, value := range []any{json.Number("11"), json.Number("1.1e1"), json.Number("-1"), json.Number("0.5"), json.Number("1e999"), json.Number("x"), "1", 1, nil} {
		if _, ok := Whole(value, 10); ok {
			t.Errorf("%v is whole", value)
		}
	}
	const top = 1<<64 - 1
	if whole, ok := Whole(json.Number("18446744073709551615"), top); whole != top || !ok {
		t.Errorf("%d, %v", whole, ok)
	}
	for _, text := range []string{"18446744073709551616", "1.8446744073709552e19", "1e30"} {
		if _, ok := Whole(json.Number(text), top); ok {
			t.Errorf("%s is whole", text)
		}
	}
}

func TestMembers(t *testing.T) {
	for text, code := range map[string]Code{"{": CodeJSONInvalid, "[]": CodeFieldInvalid, "null": CodeFieldInvalid, `"a"`: CodeFieldInvalid, "1": CodeFieldInvalid} {
		if members, err := ParseObject([]byte(text)); codeOf(err) != code || members != nil {
			t.Errorf("%s: %v, %v", text, members, err)
		}
	}
	members, err := ParseObject([]byte(`{"text":"a","null":null,"number":1,"one":["a"],"two":["a","b"],"same":["a","a"],"mixed":["a",1],"other":["c"],"none":[],` +
		`"base64":"AAA=","spelled":"AAB=","empty":""}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, has := range map[string]bool{"text": true, "null": false, "away": false, "number": true} {
		if members.Has(name) != has {
			t.Errorf("%s: %v", name, !has)
		}
	}
	for name, want := range map[string]string{"text": "a", "empty": "", "null": "none", "away": "none", "number": "none", "one": "none"} {
		if text, ok := members.Text(name); ok != (want != "none") || ok && text != want {
			t.Errorf("%s: %s, %v", name, text, ok)
		}
	}
	for name, want := range map[string][]byte{"base64": {0, 0}, "spelled": nil, "empty": nil, "null": nil, "number": nil, "away": nil} {
		if data, ok := members.Base64(name); ok != (want != nil) || !bytes.Equal(data, want) {
			t.Errorf("%s: %x, %v", name, data, ok)
		}
	}
	valid := func(text string) bool { return text == "a" || text == "b" }
	for name, want := range map[string]int{"one": 1, "two": 2, "same": 0, "mixed": 0, "other": 0, "none": 0, "text": 0, "null": 0, "away": 0} {
		names, ok := members.Names(name, 1, 2, valid)
		if ok != (want > 0) || len(names) != want {
			t.Errorf("%s: %v, %v", name, names, ok)
		}
	}
	if names, ok := members.Names("two", 1, 2, valid); !ok || names[0] != "a" || names[1] != "b" {
		t.Errorf("%v, %v", names, ok)
	}
	if _, ok := members.Names("two", 1, 1, valid); ok {
		t.Error("two of one at most")
	}
	if _, ok := members.Names("one", 2, 2, valid); ok {
		t.Error("one of two at least")
	}
	if names, ok := members.Names("none", 0, 0, valid); !ok || len(names) != 0 {
		t.Errorf("%v, %v", names, ok)
	}
}

func TestHeaders(t *testing.T) {
	list := HeaderList{{"X-A", "1"}, {"x-a", "2"}, {"X-B", "\t ~"}, {"X-Empty", ""}, {"X-Low", "\x1f"}, {"X-High", "\x7f"}, {"X-Line", "a\nb"}, {"X-Byte", "\x80"}}
	if got := list.Values("x-A"); !reflect.DeepEqual(got, []string{"1", "2"}) {
		t.Errorf("%v", got)
	}
	for name, code := range map[string]Code{"x-b": "", "X-Empty": CodeHeaderMissing, "X-Away": CodeHeaderMissing, "X-A": CodeHeaderInvalid, "X-Low": CodeHeaderInvalid,
		"X-High": CodeHeaderInvalid, "X-Line": CodeHeaderInvalid, "X-Byte": CodeHeaderInvalid} {
		value, err := Required(list, name)
		var refused *Error
		if codeOf(err) != code || errors.As(err, &refused) && refused.Name != name || err == nil && value != "\t ~" {
			t.Errorf("%s: %q, %v", name, value, err)
		}
	}
	for name, want := range map[string]struct {
		value string
		there bool
		code  Code
	}{"X-B": {"\t ~", true, ""}, "X-Empty": {"", true, ""}, "X-Away": {"", false, ""}, "X-A": {"", true, CodeHeaderInvalid}, "X-Low": {"", true, CodeHeaderInvalid}} {
		if value, there, err := Optional(list, name); value != want.value || there != want.there || codeOf(err) != want.code {
			t.Errorf("%s: %q, %v, %v", name, value, there, err)
		}
	}
	for _, name := range []string{"X-Kid", "x-idempotency-key", "X-CLIENTID", "x-nonce", "x-timestamp", "x-enc-alg", "x-iv", "x-tag", "x-aad", "x-seal", "x-sealed"} {
		if !IsSealing(name) {
			t.Errorf("%s is no header of sealing", name)
		}
	}
	for _, name := range []string{"", "X-Other", "x-seale", "Content-Type"} {
		if IsSealing(name) {
			t.Errorf("%s is a header of sealing", name)
		}
	}
}

func TestWire1HasANonceAndNoIdempotencyKey(t *testing.T) {
	for _, c := range []struct {
		headers http.Header
		want    Version
	}{
		{http.Header{"X-Nonce": {"a"}}, Wire1}, {http.Header{"X-Nonce": {"a"}, "X-Idempotency-Key": {"b"}}, Wire2}, {http.Header{"X-Idempotency-Key": {"b"}}, Wire2}, {http.Header{}, Wire2},
	} {
		if got := VersionOf(c.headers); got != c.want {
			t.Errorf("%v: %d", c.headers, got)
		}
	}
}

func TestBoundsAreThoseOfTheSpecs(t *testing.T) {
	bounds := []int{NonceLenMax, JSONDepthMax, InitBodyMax, InitAnonBodyMax, InitV1BodyMax, NativeInitBodyMax, SealedBodyMax, AnonBodyMax, AuthorityBodyMax, ProblemLenMax,
		KeySetLenMax, PublicKeyLenMax, SignatureLenMax, ProofLenMax, SealedHeaderMax, FrameLenMax, InnerLenMax}
	want := []int{128, 127, 65536, 4096, 1048576, 16384, 1048576, 4096, 65536, 98304, 65536, 8192, 8192, 8192, 8192, 65536, 16384}
	if !reflect.DeepEqual(bounds, want) {
		t.Errorf("%v", bounds)
	}
}
