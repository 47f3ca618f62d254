package mle

import (
	"bytes"
	"crypto/rsa"
	"fmt"
	"strings"
	"testing"
)

// wrong is a token that must be rejected for one class.
type wrong struct {
	name, token string
	class       Class
}

func wrongForms(good *builder) []wrong {
	token := good.token()
	text := token.String()
	parts := strings.Split(text, ".")
	cases := []wrong{
		{"nothing", "", ClassShape},
		{"three parts, as a JWS", strings.Join(parts[:3], "."), ClassShape},
		{"four parts", strings.Join(parts[:4], "."), ClassShape},
		{"six parts", text + "." + parts[4], ClassShape},
		{"a dot at the start", "." + text, ClassShape},
		{"a million dots", strings.Repeat(".", 1_000_000), ClassShape},
		{"empty parts", "....", ClassHeader},
		{"JSON serialisation", `{"protected":"` + parts[0] + `"}`, ClassShape},
		{"two tokens", text + " " + text, ClassShape},
		{"longer than the bound", text + strings.Repeat("A", TokenMaxBytes), ClassSize},
		{"header beyond 4 KiB", good.adding(`"pad":"` + strings.Repeat("p", 4096) + `"`), ClassSize},
		{"header of 4 KiB and a byte", good.of(pad("{"+good.header+"}", headerMax+1)).String(), ClassSize},
		{"header of 1 MiB", good.adding(`"pad":"` + strings.Repeat("p", 1<<20) + `"`), ClassSize},
		{"encrypted key absent", token.with(1, func([]byte) []byte { return nil }), ClassShape},
		{"encrypted key one byte short", token.with(1, func(key []byte) []byte { return key[:255] }), ClassShape},
		{"encrypted key one zero longer at the front", token.with(1, func(key []byte) []byte { return append([]byte{0}, key...) }), ClassShape},
	}
	for part := range 5 {
		for _, tail := range []string{"=", "==", "\n", "\r\n", "\x00", "*", "%2B", "é"} {
			cases = append(cases, wrong{fmt.Sprintf("%q behind part %d", tail, part), token.text(part, func(text string) string { return text + tail }), ClassBase64})
		}
		cases = append(cases, wrong{fmt.Sprintf("a space before part %d", part), token.text(part, func(text string) string { return " " + text }), ClassBase64})
		cases = append(cases, wrong{fmt.Sprintf("a line end within part %d", part), token.text(part, func(text string) string { return text[:4] + "\n" + text[4:] }), ClassBase64})
		if len(token[part])%3 != 0 {
			cases = append(cases, wrong{fmt.Sprintf("bits behind the last byte of part %d", part),
				token.text(part, func(text string) string { return text[:len(text)-1] + string(text[len(text)-1]+1) }), ClassBase64})
		}
	}
	return cases
}

// pad makes JSON longer by white space.
func pad(text string, length int) string { return text + strings.Repeat(" ", length-len(text)) }

func wrongHeaders(good *builder) []wrong {
	json := "{" + good.header + "}"
	of := func(header string) string { return good.of(header).String() }
	return []wrong{
		{"an empty header", of(""), ClassHeader},
		{"an empty object", of("{}"), ClassAlg},
		{"an array", of("[" + json + "]"), ClassHeader},
		{"a string", of(`"header"`), ClassHeader},
		{"a header that is cut", of(json[:len(json)-1]), ClassHeader},
		{"bytes behind the header", of(json + "x"), ClassHeader},
		{"two headers", of(json + json), ClassHeader},
		{"a NUL behind the header", of(json + "\x00"), ClassHeader},
		{"a byte order mark", of("\ufeff" + json), ClassHeader},
		{"invalid UTF-8", of(strings.Replace(json, "own", "\xff", 1)), ClassHeader},
		{"half of a surrogate pair", good.adding(`"x":"\ud800"`), ClassHeader},
		{"a trailing comma", of("{" + good.header + ",}"), ClassHeader},
		{"a comment", of("{" + good.header + "/**/}"), ClassHeader},
		{"alg twice", good.adding(`"alg":"RSA-OAEP-256"`), ClassHeader},
		{"alg twice, once escaped", good.adding(`"\u0061lg":"RSA-OAEP-256"`), ClassHeader},
		{"enc twice", good.adding(`"enc":"A256GCM"`), ClassHeader},
		{"an unknown member twice", good.adding(`"x":1,"x":1`), ClassHeader},
		{"nested 65 deep", good.adding(`"x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64)), ClassHeader},
		{"typ is a number", good.adding(`"typ":1`), ClassHeader},
		{"cty is an object", good.adding(`"cty":{}`), ClassHeader},
		{"zip DEF", good.adding(`"zip":"DEF"`), ClassZip},
		{"zip null", good.adding(`"zip":null`), ClassZip},
		{"crit empty", good.adding(`"crit":[]`), ClassCrit},
		{"crit of registered names", good.adding(`"crit":["alg"]`), ClassCrit},
		{"b64 without crit", good.adding(`"b64":false`), ClassCrit},
	}
}

func wrongParams(good *builder, profile Profile) []wrong {
	var cases []wrong
	for _, member := range []string{`"jku":"http://169.254.169.254/"`, `"x5u":"file:///etc/passwd"`, `"jwk":{"kty":"RSA"}`, `"x5c":["MIIB"]`, `"x5t":"AAAA"`,
		`"epk":{"kty":"EC"}`, `"apu":"QQ"`, `"apv":"QQ"`, `"p2c":2147483648`, `"p2s":"QQ"`, `"iv":"AAAAAAAAAAAAAAAA"`, `"tag":"AAAA"`,
		`"x5t#S256":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"`, `"x5t#S256":"AAAA"`, `"x5t#S256":""`, `"x5t#S256":"="`, `"x5t#S256":1`} {
		cases = append(cases, wrong{member, good.adding(member), ClassParam})
	}
	alg := fmt.Sprintf(`"alg":"%s"`, good.alg)
	for _, other := range []string{`"none"`, `"NONE"`, `"RSA1_5"`, `"rsa-oaep-256"`, `"RSA-OAEP-512"`, `"dir"`, `"A128KW"`, `"A256GCMKW"`, `"ECDH-ES+A128KW"`,
		`"PBES2-HS512+A256KW"`, `"HS256"`, `""`, "null", "1", `["RSA-OAEP-256"]`, `"RSA-OAEP-256\u0000"`, `" RSA-OAEP-256"`} {
		cases = append(cases, wrong{"alg " + other, good.replacing(alg, `"alg":`+other), ClassAlg})
	}
	zeros := strings.Repeat("A", 43)
	epk := `"alg":"ECDH-ES","epk":{"kty":"EC","crv":"P-256","x":"` + zeros + `","y":"` + zeros + `"}`
	cases = append(cases, wrong{"ECDH-ES", good.replacing(alg, epk), ClassAlg},
		wrong{"ECDH-ES without epk", good.replacing(alg, `"alg":"ECDH-ES"`), ClassEpk},
		wrong{"ECDH-ES on P-384", good.replacing(alg, strings.Replace(epk, "P-256", "P-384", 1)), ClassEpk},
		wrong{"ECDH-ES with a private epk", good.replacing(alg, strings.Replace(epk, `"kty"`, `"d":"AA","kty"`, 1)), ClassEpk},
		wrong{"ECDH-ES with a short coordinate", good.replacing(alg, strings.Replace(epk, zeros, "AAAA", 1)), ClassEpk},
		wrong{"ECDH-ES with a wrong apu", good.replacing(alg, epk+`,"apu":"*"`), ClassEpk},
		wrong{"Alg", good.replacing(`"alg"`, `"Alg"`), ClassAlg}, wrong{"no alg", good.replacing(alg+",", ""), ClassAlg})
	enc := fmt.Sprintf(`"enc":"%s"`, good.enc)
	for _, other := range []string{`"none"`, `"a256gcm"`, `"A256CBC"`, `"C20P"`, `""`, "null", "256", `["A256GCM"]`} {
		cases = append(cases, wrong{"enc " + other, good.replacing(enc, `"enc":`+other), ClassEnc})
	}
	for other, shape := range encs {
		if !profile.Allows(Request, good.alg, other) {
			token := good.with(func(b *builder) {
				b.enc, b.cek, b.iv = other, make([]byte, shape.cek), make([]byte, shape.iv)
				b.header = strings.Replace(b.header, enc, fmt.Sprintf(`"enc":"%s"`, other), 1)
			})
			cases = append(cases, wrong{"enc outside of the profile: " + string(other), token, ClassEnc})
		}
	}
	for _, other := range []string{`""`, `"unknown"`, `"OWN"`, `"own "`, "7", `"own\u0000"`, "null", `["own"]`, `"../../etc/passwd"`, `"` + strings.Repeat("k", 257) + `"`} {
		cases = append(cases, wrong{"kid " + quote(other), good.replacing(`"kid":"own"`, `"kid":`+other), ClassKid})
	}
	return append(cases, wrong{"no kid", good.replacing(`,"kid":"own"`, ""), ClassKid})
}

func wrongTimes(good *builder, profile Profile) []wrong {
	now, other, window := int64(testNowMs), int64(testNowMs/1000), int64(300_001)
	switch profile.iat {
	case NoIat:
		return nil
	case Seconds:
		now, other, window = other, now, 301
	}
	iat := fmt.Sprintf(`"iat":%d`, now)
	cases := []wrong{{"no iat", good.replacing(","+iat, ""), ClassIat}, {"iat twice", good.adding(iat), ClassHeader},
		{"iat with a leading zero", good.replacing(iat, fmt.Sprintf(`"iat":0%d`, now)), ClassHeader}}
	for _, value := range []string{fmt.Sprintf(`"%d"`, now), fmt.Sprintf("%d.0", now), fmt.Sprintf("%de0", now), fmt.Sprintf("-%d", now), "1e400", "-0", "null", "true",
		fmt.Sprintf("[%d]", now), "18446744073709551616", "18446744073709551615", "0", fmt.Sprint(other), fmt.Sprint(now - window), fmt.Sprint(now + window)} {
		cases = append(cases, wrong{"iat " + value, good.replacing(iat, `"iat":`+value), ClassIat})
	}
	return cases
}

func wrongContents(good *builder, profile Profile) []wrong {
	token, shape := good.token(), encs[good.enc]
	sized := func(n int) func([]byte) []byte { return func([]byte) []byte { return make([]byte, n) } }
	var cases []wrong
	for _, n := range []int{0, 1, 8, 11, 13, 15, 17, 24, 96} {
		cases = append(cases, wrong{fmt.Sprintf("IV of %d", n), token.with(2, sized(n)), ClassIV})
	}
	for _, n := range []int{0, 1, 4, 8, 12, 15, 17, 32} {
		cases = append(cases, wrong{fmt.Sprintf("tag of %d", n), token.with(4, sized(n)), ClassTag})
	}
	if !profile.allowsLongIV {
		cases = append(cases, wrong{"IV of 16 with a right tag", good.with(func(b *builder) { b.iv = make([]byte, 16) }), ClassIV})
		for part, letters := range map[int]string{1: "-_", 3: "-_"} {
			for _, letter := range letters {
				// Of a random part that is long enough one letter is there; where it is not, nothing is claimed.
				if text := strict.EncodeToString(token[part]); strings.ContainsRune(text, letter) {
					standard := map[rune]string{'-': "+", '_': "/"}[letter]
					cases = append(cases, wrong{standard + " in a part", token.text(part, func(text string) string { return strings.ReplaceAll(text, string(letter), standard) }), ClassBase64})
				}
			}
		}
	}
	for _, n := range []int{0, 1, shape.cek - 1, shape.cek + 1, shape.cek / 2, shape.cek + 16} {
		cases = append(cases, wrong{fmt.Sprintf("content key of %d", n), good.with(func(b *builder) { b.cek = bytes.Repeat([]byte{7}, n) }), ClassUnwrap})
	}
	otherHash := map[Alg]Alg{RSAOAEP: RSAOAEP256, RSAOAEP256: RSAOAEP}[good.alg]
	cases = append(cases,
		wrong{"encrypted key of zeros", token.with(1, sized(256)), ClassUnwrap},
		wrong{"encrypted key beyond the modulus", token.with(1, func([]byte) []byte { return bytes.Repeat([]byte{0xff}, 256) }), ClassUnwrap},
		wrong{"encrypted key of another recipient", good.with(func(b *builder) { b.recipient = &otherPair().private.PublicKey }), ClassUnwrap},
		wrong{"PKCS#1 padding", good.with(func(b *builder) { b.pkcs1 = true }), ClassUnwrap},
		wrong{"OAEP with another hash", good.with(func(b *builder) { b.alg = otherHash }), ClassUnwrap})
	header := "{" + good.header + "}"
	return append(cases,
		wrong{"tag of zeros", token.with(4, sized(shape.tag)), ClassTag},
		wrong{"ciphertext absent", token.with(3, sized(0)), ClassTag},
		wrong{"ciphertext cut", token.with(3, func(data []byte) []byte { return data[:len(data)-1] }), ClassTag},
		wrong{"ciphertext longer", token.with(3, func(data []byte) []byte { return append(data, 0) }), ClassTag},
		wrong{"IV of zeros", token.with(2, sized(shape.iv)), ClassTag},
		wrong{"additional data decoded", good.over(header, header).String(), ClassTag},
		wrong{"additional data absent", good.over(header, "").String(), ClassTag},
		wrong{"header with a space more", token.with(0, func(data []byte) []byte { return append(data, ' ') }), ClassTag})
}

func TestWrongTokensAreRejectedForTheirClassOnEveryProfile(t *testing.T) {
	generic := must(GenericJWE(Generic{Algs: []Alg{RSAOAEP, RSAOAEP256}, Encs: []Enc{A192CBCHS384}, Iat: Seconds}))
	for _, c := range []struct {
		profile Profile
		alg     Alg
		enc     Enc
	}{{MastercardJWE(), RSAOAEP256, A256GCM}, {MastercardJWE(), RSAOAEP256, A128CBCHS256}, {Visa(), RSAOAEP256, A128GCM}, {VisaAcceptance(), RSAOAEP256, A256GCM}, {generic, RSAOAEP, A192CBCHS384}} {
		profile, keys := bare(c.profile), ownKeys(t, c.alg)
		good := newBuilder(c.alg, c.enc, iatOf(profile))
		if text, err := opened(good.token().String(), profile, Request, keys, testNowMs); err != nil || text != testText {
			t.Fatalf("%s: the good token: %v", profile.Name(), err)
		}
		var cases []wrong
		for _, some := range [][]wrong{wrongForms(good), wrongHeaders(good), wrongParams(good, profile), wrongTimes(good, profile), wrongContents(good, profile)} {
			cases = append(cases, some...)
		}
		for _, wrong := range cases {
			if encs[c.enc].mac != nil && (strings.HasPrefix(wrong.name, "IV of 16") || wrong.name == fmt.Sprintf("tag of %d", encs[c.enc].tag)) {
				continue
			}
			_, err := opened(wrong.token, profile, Request, keys, testNowMs)
			if classOf(err) != wrong.class {
				t.Errorf("%s, %s: %v, and %s is due", profile.Name(), wrong.name, err, wrong.class)
			}
			if text := fmt.Sprint(err); strings.Contains(text, "4111111111111111") || len(text) > 400 || strings.ContainsAny(text, "\n\x00") {
				t.Errorf("%s: the refusal says too much: %q", wrong.name, text)
			}
		}
		if len(cases) < 120 {
			t.Fatalf("only %d cases", len(cases))
		}
	}
}

func TestEachBitOfATokenCounts(t *testing.T) {
	keys, profile := ownKeys(t, RSAOAEP256), bare(MastercardJWE())
	rejected := func(text string) bool {
		_, err := opened(text, profile, Request, keys, testNowMs)
		return err != nil
	}
	b := newBuilder(RSAOAEP256, A256GCM, "")
	b.plaintext = "{}"
	token := b.token().String()
	for at := range token {
		for bit := range 8 {
			flipped := []byte(token)
			flipped[at] ^= 1 << bit
			// In this profile another spelling of a letter is the same token.
			if isSame := strings.NewReplacer("+", "-", "/", "_").Replace(string(flipped)) == token; rejected(string(flipped)) == isSame {
				t.Fatalf("bit %d of byte %d", bit, at)
			}
		}
	}
	// Of the other kind of content the parts that its own code reads.
	b = newBuilder(RSAOAEP256, A128CBCHS256, "")
	b.plaintext = "{}"
	parts := b.token()
	for part := 2; part < 5; part++ {
		for at := range parts[part] {
			if !rejected(parts.with(part, func(data []byte) []byte { data[at] ^= 1 << (at % 8); return data })) {
				t.Fatalf("byte %d of part %d", at, part)
			}
		}
	}
}

func TestWhatABodyHoldsBesideItsTokenIsRejected(t *testing.T) {
	keys, token := ownKeys(t, RSAOAEP256), newBuilder(RSAOAEP256, A256GCM, "").token().String()
	good := `{"encryptedData":"` + token + `"}`
	for _, body := range []string{good, " " + good + "\n", strings.Replace(good, ".", `\u002e`, 1), strings.Replace(good, "encrypted", `\u0065ncrypted`, 1)} {
		if _, err := opened(body, MastercardJWE(), Request, keys, testNowMs); err != nil {
			t.Errorf("%.40s: %v", body, err)
		}
	}
	for name, body := range map[string]string{"the token alone": token, "nothing": "", "an empty object": "{}", "two members": strings.Replace(good, "}", `,"pan":"4111"}`, 1),
		"the member twice": strings.Replace(good, "}", `,"encryptedData":"x"}`, 1), "another member": strings.Replace(good, "encryptedData", "encData", 1),
		"another letter case": strings.Replace(good, "encryptedData", "EncryptedData", 1), "an array": "[" + good + "]", "bytes behind it": good + "x", "a byte order mark": "\ufeff" + good,
		"no string": `{"encryptedData":1}`, "an object": `{"encryptedData":{}}`, "many members": "{" + strings.Repeat(`"a":1,`, 100_000) + `"b":1}`,
		"nested too deep": `{"encryptedData":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}"} {
		if _, err := opened(body, MastercardJWE(), Request, keys, testNowMs); classOf(err) != ClassJSON {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A private operation that fails must not end the work, or its time would say so.
func TestAFailedUnwrapGoesOnToTheTag(t *testing.T) {
	key := ownKeys(t, RSAOAEP256).byKid["own"]
	good := newBuilder(RSAOAEP256, A256GCM, "").token()
	drawn := &counting{}
	for _, encrypted := range [][]byte{good[1], make([]byte, 256), must(rsa.EncryptOAEP(RSAOAEP256.hash(), randomReader, &drawnPair().private.PublicKey, []byte("short"), nil))} {
		before := drawn.count
		parts := [5][]byte(good)
		parts[1], parts[3] = encrypted, bytes.Clone(good[3])
		_, err := decrypt(A256GCM, key, []byte(strict.EncodeToString(good[0])), parts, drawn)
		if drawn.count != before+32 {
			t.Fatal("a content key is drawn for every token")
		}
		if isGood := bytes.Equal(encrypted, good[1]); isGood != (err == nil) || !isGood && bytes.Equal(parts[3], good[3]) {
			t.Fatalf("%v: the content was not worked on", err)
		}
	}
}
