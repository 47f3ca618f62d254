package session

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

func testInit(t *testing.T, change func(*Offer)) (*ClientInit, error) {
	t.Helper()
	keys, err := crypto.DrawKeys(crypto.P256, true, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	offer := Offer{Suites: []crypto.Suite{crypto.P256}, ClientID: "c", Authorization: "Bearer x"}
	change(&offer)
	return NewClientInit(offer, crypto.P256, keys, nil)
}

func TestAnOfferIsBounded(t *testing.T) {
	for at, c := range []struct {
		change func(*Offer)
		field  string
	}{
		{func(*Offer) {}, ""},
		{func(o *Offer) { o.ClientID = "" }, "client_id"},
		{func(o *Offer) { o.Suites = nil }, "suites"},
		{func(o *Offer) { o.Suites = make([]crypto.Suite, 8) }, ""},
		{func(o *Offer) { o.Suites = make([]crypto.Suite, 9) }, "suites"},
		{func(o *Offer) { o.PinnedKeyIDs = make([]string, 16) }, ""},
		{func(o *Offer) { o.PinnedKeyIDs = make([]string, 17) }, "pinned_key_ids"},
		{func(o *Offer) { o.SignatureAlgorithms = make(Algorithms, 8) }, ""},
		{func(o *Offer) { o.SignatureAlgorithms = make(Algorithms, 9) }, "signature_algorithms"},
	} {
		var refusal *wire.Error
		if _, err := testInit(t, c.change); errors.As(err, &refusal) != (c.field != "") || refusal != nil && refusal.Name != c.field {
			t.Errorf("%d: %v", at, err)
		}
	}
}

// member replaces a member of a JSON object.
func member(t *testing.T, object []byte, name string, value any) []byte {
	t.Helper()
	members := map[string]any{}
	if err := json.Unmarshal(object, &members); err != nil {
		t.Fatal(err)
	}
	members[name] = value
	data, _ := json.Marshal(members)
	return data
}

func TestInitsAndTheirAnswersAreBounded(t *testing.T) {
	init, _ := testInit(t, func(*Offer) {})
	body := init.Body()
	pad := func(text []byte, length int) []byte {
		return append(text, bytes.Repeat([]byte(" "), length-len(text))...)
	}
	for _, c := range []struct {
		body []byte
		code wire.Code
	}{
		{pad(body, 16384), ""}, {pad(body, 16385), wire.CodeBodyTooLarge},
		{member(t, body, "proof", strings.Repeat("x", 8192)), ""}, {member(t, body, "proof", strings.Repeat("x", 8193)), wire.CodeFieldInvalid},
		{member(t, body, "proof", ""), wire.CodeFieldInvalid}, {member(t, body, "proof", nil), ""}, {member(t, body, "proof", 1), wire.CodeFieldInvalid},
		{member(t, body, "ttl_sec", 1<<32-1), ""}, {member(t, body, "ttl_sec", 1<<32), wire.CodeFieldInvalid},
		{member(t, body, "suite", ""), wire.CodeFieldInvalid}, {member(t, body, "share", ""), wire.CodeFieldInvalid},
	} {
		if _, err := ParseInitRequest(c.body); refused(err) != c.code {
			t.Errorf("%.40s: %v", c.body, err)
		}
	}
	id := strings.Repeat("0", 32)
	answer := &InitAnswer{SessionID: "S-" + id, Suite: "P256", Suites: []string{"P256"}, Share: []byte{1}, KeyID: id, KeyIDs: []string{id}, Auth: AuthNone}
	sealed := answer.encode(make([]byte, 8192), make([]byte, 32))
	for at, c := range []struct {
		body  []byte
		valid bool
	}{
		{sealed, true}, {pad(bytes.Clone(sealed), 16384), true}, {pad(bytes.Clone(sealed), 16385), false},
		{answer.encode(make([]byte, 8193), make([]byte, 32)), false}, {answer.encode([]byte{1}, make([]byte, 31)), false},
		{answer.encode([]byte{1}, make([]byte, 33)), false}, {member(t, sealed, "session_id", "A-"+id), false},
		{member(t, sealed, "subject", strings.Repeat("x", 256)), true}, {member(t, sealed, "subject", strings.Repeat("x", 257)), false},
		{member(t, sealed, "tenant", "x"), true}, {member(t, sealed, "tenant", ""), false}, {member(t, sealed, "tenant", nil), true}, {member(t, sealed, "tenant", 1), false},
		{member(t, sealed, "expires_in_sec", 1<<32-1), true}, {member(t, sealed, "expires_in_sec", 1<<32), false},
		{member(t, sealed, "server_time_ms", json.Number("18446744073709551615")), true}, {member(t, sealed, "server_time_ms", json.Number("18446744073709551616")), false},
		{member(t, sealed, "suite", ""), false}, {member(t, sealed, "auth", ""), false}, {member(t, sealed, "key_id", ""), false}, {member(t, sealed, "share", ""), false},
		{member(t, sealed, "suites", []string{}), false}, {member(t, sealed, "key_ids", []string{}), false}, {[]byte("{"), false},
	} {
		read, _, _, err := parseInitAnswer(c.body)
		if (err == nil) != c.valid || err != nil && (refused(err) != wire.CodeAnswerMismatch || read != nil) {
			t.Errorf("%d: %v", at, err)
		}
	}
	if Credential("") != nil || len(Credential("x")) != 32 {
		t.Error("the credential of no authorization")
	}
}

func TestAnIdentityIsLiveFromItsBeginToItsEnd(t *testing.T) {
	identity := Identity{NotBeforeMs: 5, NotAfterMs: 7}
	for ms, live := range map[uint64]bool{4: false, 5: true, 6: true, 7: false} {
		if identity.Live(ms) != live {
			t.Errorf("at %d", ms)
		}
	}
	var identities []Identity
	for _, times := range [][2]uint64{{1, 9}, {3, 9}, {2, 9}, {4, 5}} {
		key, _ := crypto.ParseIdentity(append(make([]byte, 31), byte(times[0])))
		identities = append(identities, Identity{key, times[0], times[1]})
	}
	request := &InitRequest{}
	signer, ids, err := signingKey(request, identities, 5)
	if want := []string{identities[1].ID(), identities[2].ID(), identities[0].ID()}; err != nil || signer.ID() != want[0] || !slices.Equal(ids, want) {
		t.Error(signer, ids, err)
	}
	request.PinnedKeyIDs = []string{identities[2].ID()}
	if signer, ids, err = signingKey(request, identities, 5); err != nil || signer.ID() != identities[2].ID() || len(ids) != 3 {
		t.Error(signer, ids, err)
	}
	// Of two of one time the first that is listed.
	same := []Identity{{identities[0].Key, 1, 9}, {identities[1].Key, 1, 9}}
	if signer, ids, err = signingKey(&InitRequest{}, same, 5); err != nil || signer.ID() != same[0].ID() || !slices.Equal(ids, []string{same[0].ID(), same[1].ID()}) {
		t.Error(signer, ids, err)
	}
	request.PinnedKeyIDs = []string{identities[3].ID()}
	if _, _, err = signingKey(request, identities, 5); refused(err) != wire.CodeKeyRetired {
		t.Error(err)
	}
}

func TestASessionIsOfItsTermsAndARenewalOfItsClient(t *testing.T) {
	init, _ := testInit(t, func(*Offer) {})
	identity, _ := crypto.ParseIdentity(append(make([]byte, 31), 7))
	terms := Terms{Suites: crypto.Suites(), Identities: []Identity{{identity, 0, 1 << 50}}, ExpiresInSec: 60, Auth: AuthNone}
	agree := func(old *Record, nowMs uint64, change func(*InitRequest)) (*Record, error) {
		request := *init.request
		change(&request)
		_, record, err := AgreeInit(&request, terms, old, func(suite crypto.Suite) (InitRandoms, error) {
			keys, err := crypto.DrawKeys(suite, false, rand.Reader)
			return InitRandoms{Keys: keys}, err
		}, nowMs)
		return record, err
	}
	first, err := agree(nil, 1000, func(r *InitRequest) { r.Proof = "proof" })
	if err != nil || first.CreatedMs != 1000 || first.ExpiresMs != 61_000 {
		t.Fatal(first, err)
	}
	second, err := agree(first, 2000, func(*InitRequest) {})
	if err != nil || second.CreatedMs != 1000 || second.ExpiresMs != 62_000 || second.Key == first.Key {
		t.Fatal(second, err)
	}
	for _, change := range []func(*InitRequest){func(r *InitRequest) { r.ClientID = "d" }, func(r *InitRequest) { r.Proof = "proof" }} {
		if _, err := agree(first, 2000, change); refused(err) != wire.CodePolicy {
			t.Error(err)
		}
	}
	for version, whole := range map[wire.Version]bool{wire.Wire1: true, wire.Wire2: true, wire.Wire3: false} {
		if NewReply(&Session{record: Record{Wire: version}}, Line{}, "n").Whole() != whole {
			t.Errorf("an answer of wire %d", version)
		}
	}
}

func TestAClientTakesAnAnswerOfTheKeyThatItNames(t *testing.T) {
	init, _ := testInit(t, func(o *Offer) { o.Authorization = "" })
	identity, _ := crypto.ParseIdentity(append(make([]byte, 31), 7))
	other, _ := crypto.ParseIdentity(append(make([]byte, 31), 8))
	terms := Terms{Suites: crypto.Suites(), Identities: []Identity{{identity, 0, 1 << 50}}, ExpiresInSec: 60, Auth: AuthNone}
	answer, record, err := AgreeInit(init.request, terms, nil, func(suite crypto.Suite) (InitRandoms, error) {
		keys, err := crypto.DrawKeys(suite, false, rand.Reader)
		return InitRandoms{Keys: keys}, err
	}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, public := range [][]byte{nil, other.PublicKey()} {
		if _, err := init.Finish(201, answer, func(string) []byte { return public }); refused(err) != wire.CodeKeyUntrusted {
			t.Error(err)
		}
	}
	client, err := init.Finish(201, answer, func(string) []byte { return identity.PublicKey() })
	if err != nil || client.ExpiresMs() != 61_000 || client.String() != "ClientSession("+record.ID+")" {
		t.Fatal(client, err)
	}
	keys, _ := crypto.DrawKeys(crypto.P256, true, rand.Reader)
	offer := Offer{Suites: []crypto.Suite{crypto.P256}, ClientID: "c", Authorization: "Bearer x"}
	if renewal, err := NewClientInit(offer, crypto.P256, keys, client); err != nil || renewal.credential != nil {
		t.Error("a renewal with a credential", err)
	}
	if first, err := NewClientInit(offer, crypto.P256, keys, nil); err != nil || len(first.credential) != 32 {
		t.Error("an init without a credential", err)
	}
}

func TestAProblemIsBounded(t *testing.T) {
	problem := func(code string, length int) []byte {
		text := fmt.Sprintf(`{"code":"%s","type":"urn:sealway:problem:%s"}`, code, code)
		return append([]byte(text), bytes.Repeat([]byte(" "), max(0, length-len(text)))...)
	}
	for at, c := range []struct {
		body  []byte
		valid bool
	}{
		{problem("x", 98304), true}, {problem("x", 98305), false}, {problem(strings.Repeat("x", 64), 0), true},
		{problem(strings.Repeat("x", 65), 0), false}, {problem("", 0), false}, {[]byte(`{"code":"x","type":"x"}`), false}, {[]byte("["), false},
	} {
		if read := ParseProblem(400, c.body, false); (read != nil) != c.valid {
			t.Errorf("%d: %v", at, read)
		}
	}
	for code, misplaced := range map[string][2]bool{"key_retired": {false, true}, "policy": {true, false}, "unknown": {false, false}} {
		for at, sealed := range []bool{false, true} {
			if (&Problem{Code: code, Sealed: sealed}).Misplaced() != misplaced[at] {
				t.Errorf("%s, sealed %v", code, sealed)
			}
		}
	}
}

func TestASealedProblemProvesATimeIfItIsOfTheClock(t *testing.T) {
	for at, c := range []struct {
		problem *Problem
		proven  bool
	}{
		{&Problem{Code: "clock_skew", Sealed: true, more: wire.Members{"server_time_ms": json.Number("1")}}, true},
		{&Problem{Code: "clock_skew", more: wire.Members{"server_time_ms": json.Number("1")}}, false},
		{&Problem{Code: "clock_skew", Sealed: true}, false},
		{&Problem{Code: "policy", Sealed: true, more: wire.Members{"server_time_ms": json.Number("1")}}, false},
	} {
		if OneShotCall("hpke:x", nil, Line{}, "1", "n").Proven(c.problem) != c.proven {
			t.Error(at)
		}
	}
}

func TestADocumentHasDifferentKeysWithTimesInOrder(t *testing.T) {
	key := func(name byte, from, until, after int) string {
		config := wire.EncodeBase64([]byte{name, 0xff, 0xff, 1, 0, 4, 0, 1, 0, 2})
		return fmt.Sprintf(`{"config":"%s","not_before_ms":%d,"use_until_ms":%d,"not_after_ms":%d}`, config, from, until, after)
	}
	for keys, code := range map[string]wire.Code{
		key(1, 5, 5, 5) + "," + key(2, 5, 6, 7): "", key(1, 6, 5, 7): wire.CodeFieldInvalid, key(1, 5, 7, 6): wire.CodeFieldInvalid,
		key(1, 5, 6, 7) + "," + key(2, 5, 6, 7) + "," + key(1, 5, 6, 7): wire.CodeFieldInvalid, "1": wire.CodeFieldInvalid,
	} {
		document, err := ParseKeyDocument([]byte(`{"issued_ms":1,"expires_ms":2,"keys":[` + keys + `]}`))
		if refused(err) != code || err == nil && len(document.Kids()) != 2 {
			t.Errorf("%s: %v", keys, err)
		}
	}
	config, _ := ParseKeyConfig([]byte{1, 0, 0x20, 1, 0, 4, 0, 1, 0, 2})
	if config != nil {
		t.Error("a key of another length than its KEM's")
	}
	config, err := ParseKeyConfig(append(append([]byte{1, 0, 0x20}, make([]byte, 32)...), suitesOfConfig...))
	if err != nil || config.KEM != crypto.KEMX25519 || len(config.Public) != 32 || !ValidKeyKid(config.Kid()) {
		t.Fatal(config, err)
	}
	for _, other := range []string{"", "hpke:", config.Name(), config.Kid() + "0", "HPKE:" + config.Name(), "session:" + config.Name()} {
		if ValidKeyKid(other) {
			t.Error(other)
		}
	}
	document := &KeyDocument{Keys: []DocumentKey{{config, 5, 7, 9}}}
	for ms, used := range map[uint64]bool{4: false, 5: true, 6: true, 7: false} {
		for _, c := range []struct {
			kems []crypto.KEM
			kids []string
			has  bool
		}{{crypto.KEMs(), nil, true}, {crypto.KEMs(), []string{config.Kid()}, true}, {crypto.KEMs(), []string{"hpke:x"}, false}, {nil, nil, false}} {
			if (document.Choose(ms, c.kems, c.kids) != nil) != (used && c.has) {
				t.Errorf("at %d: %v", ms, c)
			}
		}
	}
	if _, err := ParseKeyConfig(append([]byte{1, 0, 0x21}, suitesOfConfig...)); refused(err) != wire.CodeFieldInvalid {
		t.Error("a key of no bytes", err)
	}
}

func TestAStreamInAHeaderAndATargetAreBounded(t *testing.T) {
	for length, code := range map[int]wire.Code{0: "", 8192: "", 8196: wire.CodeHeaderInvalid} {
		data, err := sealedHeader(wire.HeaderList{{Name: "X-Sealed", Value: strings.Repeat("A", length)}})
		if refused(err) != code || (data == nil) != (err != nil) {
			t.Errorf("%d characters: %v", length, err)
		}
	}
	if data, err := sealedHeader(wire.HeaderList{}); data != nil || err != nil {
		t.Error("a header that is not there", err)
	}
	for length, code := range map[int]wire.Code{8192: "", 8193: wire.CodeHeaderInvalid} {
		headers := wire.HeaderList{{Name: "X-Seal", Value: "3"}, {Name: "X-Kid", Value: "session:x"}, {Name: "X-Idempotency-Key", Value: "1.0123456789abcdef"}}
		if _, err := ParseRequest(headers, Line{"GET", strings.Repeat("/", length)}, 1, ReplayPolicy{}); refused(err) != code {
			t.Errorf("a target of %d: %v", length, err)
		}
	}
}

func TestTheCompatWiresHaveOtherHeadersAndBounds(t *testing.T) {
	wire2 := wire.HeaderList{{Name: "X-Kid", Value: "session:x"}, {Name: "X-ClientId", Value: "c"}, {Name: "X-Idempotency-Key", Value: "1.n"}}
	for _, header := range []wire.Header{{}, {Name: "X-Sealed", Value: "*"}} {
		request, err := ParseRequest(append(wire2, header, header), Line{"POST", strings.Repeat("/", 8193) + "?query"}, 1, ReplayPolicy{})
		if err != nil || request.sealed != nil || request.line.Target != strings.Repeat("/", 8193) {
			t.Error(header, err)
		}
	}
	wire1 := wire.HeaderList{{Name: "X-Kid", Value: "session:x"}, {Name: "X-Nonce", Value: "n"}, {Name: "X-Timestamp", Value: "1"}, {Name: "X-Enc-Alg", Value: "A256GCM"},
		{Name: "X-IV", Value: wire.EncodeBase64(make([]byte, 12))}, {Name: "X-Tag", Value: wire.EncodeBase64(make([]byte, 16))}, {Name: "X-AAD", Value: "AA=="}}
	for length, code := range map[int]wire.Code{8192: "", 8193: wire.CodeBodyTooLarge} {
		if _, err := ParseRequest(wire1, Line{"POST", strings.Repeat("/", length)}, 1, ReplayPolicy{}); refused(err) != code {
			t.Errorf("a path of %d: %v", length, err)
		}
	}
}

func TestARequestOfAKeyBeginsWithModePSKIDAndEnc(t *testing.T) {
	private, _ := crypto.DrawP256(rand.Reader)
	config, err := ParseKeyConfig(slices.Concat([]byte{1, 0, 0x10}, private.PublicKey().Bytes(), suitesOfConfig))
	if err != nil {
		t.Fatal(err)
	}
	for id, mode := range map[string]byte{"": 0, "shop": 1} {
		one, err := NewOneShot(config, id, Key{1})
		if err != nil {
			t.Fatal(err)
		}
		ephemeral, _ := crypto.DrawEphemeral(crypto.KEMP256, rand.Reader, nil)
		_, sealer, _, err := one.Seal(Line{"POST", "/"}, "", 1, [16]byte{}, ephemeral)
		if err != nil || len(sealer.lead) != one.LeadLen() || cap(sealer.lead) != one.LeadLen() || one.LeadLen() != 2+len(id)+65 ||
			!bytes.HasPrefix(sealer.lead, append([]byte{mode, byte(len(id))}, id...)) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := NewOneShot(config, "a b", Key{}); refused(err) != wire.CodeFieldInvalid {
		t.Error("an id with a space", err)
	}
	unknown, _ := ParseKeyConfig(slices.Concat([]byte{1, 0xff, 0xff, 1}, suitesOfConfig))
	if _, err := NewOneShot(unknown, "", Key{}); refused(err) != wire.CodePublicKeyInvalid {
		t.Error("a key of an unknown KEM", err)
	}
}
