package relay

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryVectorOfTokens(t *testing.T) {
	files, err := filepath.Glob("../../../../vectors/relay/*")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no vectors:", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var v struct {
			Type   string `json:"type"`
			Seed   string `json:"seed_hex"`
			Claims Claims `json:"claims"`
			Token  string `json:"token"`
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&v); err != nil || v.Type != "token" {
			t.Fatalf("%s: type %q: %v", file, v.Type, err)
		}
		seed, err := hex.DecodeString(v.Seed)
		if err != nil {
			t.Fatal(err)
		}
		key := ed25519.NewKeyFromSeed(seed)
		if strings.HasPrefix(v.Token, Fst2) {
			v.Claims.Form = Fst2
		}
		if made, err := Sign(&v.Claims, key); err != nil || string(made) != v.Token {
			t.Errorf("%s: another token comes out: %v", file, err)
		}
		expected := &TokenPolicy{Keys: map[string]ed25519.PublicKey{v.Claims.KID: key.Public().(ed25519.PublicKey)}}
		got, err := Verify(Token(v.Token), expected, v.Claims.IssuedS)
		if err != nil || *got != v.Claims {
			t.Errorf("%s: it verifies as %+v: %v", file, got, err)
		}
	}
	t.Logf("ran %d files", len(files))
}

func TestEveryClaimOfATokenIsChecked(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	good := Claims{KID: "k", Audience: "a", Issuer: "i", ChannelID: "c", Role: 1, TokenID: "t", InitExpiresS: 200, IssuedS: 100, ExpiresS: 160}
	expected := &TokenPolicy{map[string]ed25519.PublicKey{"k": key.Public().(ed25519.PublicKey)}, []string{"a"}, []string{"i"}}
	sign := func(change func(*Claims)) Token {
		changed := good
		change(&changed)
		token, err := Sign(&changed, key)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	if _, err := Verify(sign(func(*Claims) {}), expected, 100); err != nil {
		t.Fatal("a good one:", err)
	}
	for name, change := range map[string]func(*Claims){
		"another key":      func(c *Claims) { c.KID = "other" },
		"another audience": func(c *Claims) { c.Audience = "b" },
		"another issuer":   func(c *Claims) { c.Issuer = "j" },
		"from the future":  func(c *Claims) { c.IssuedS = 131 },
		"over":             func(c *Claims) { c.ExpiresS = 69 },
		"beyond the grant": func(c *Claims) { c.ExpiresS = 201 },
		"the grant's end":  func(c *Claims) { c.InitExpiresS, c.ExpiresS = 69, 69 },
		"too long":         func(c *Claims) { c.InitExpiresS, c.ExpiresS = 9000, 100+LifetimeMaxS+1 },
		"later, no idle":   func(c *Claims) { c.Form = Fst2 },
		"later, no role":   func(c *Claims) { c.Form, c.IdleTimeoutS, c.Role = Fst2, 60, 3 },
		"later, no id":     func(c *Claims) { c.Form, c.IdleTimeoutS, c.TokenID = Fst2, 60, " " },
		"later, backwards": func(c *Claims) { c.Form, c.IdleTimeoutS, c.IssuedS, c.ExpiresS = Fst2, 60, 120, 110 },
		"an unknown form":  func(c *Claims) { c.Form = "FST3" },
	} {
		if _, err := Verify(sign(change), expected, 100); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	token := sign(func(*Claims) {})
	for _, bad := range []Token{"", "FST1", "FST2" + token[4:], token + ".", token[:len(token)-1], token + "\n", token[:30] + "A" + token[31:]} {
		if _, err := Verify(bad, expected, 100); err == nil {
			t.Error("a token that is none was taken")
		}
	}
}

func grantText(change func(map[string]any)) []byte {
	members := map[string]any{
		"tunnel_url": "ws://127.0.0.1:1/ws", "channel_id": "c", "channel_init_expire_at_unix_s": 10, "role": 1,
		"idle_timeout_seconds": 60, "token": "FST1.SECRETTOKEN.x",
		"e2ee_psk_b64u":  base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)),
		"allowed_suites": []int{0x104}, "default_suite": 0x104, "unknown": []any{},
	}
	change(members)
	text, _ := json.Marshal(members)
	return text
}

func TestAMalformedGrantIsRejectedWithTheMemberAtFault(t *testing.T) {
	grant, err := ParseGrant(grantText(func(map[string]any) {}))
	if err != nil || grant.Role != Client || grant.PSK[0] != 7 || !grant.IsNative() {
		t.Fatalf("%v: %v", grant, err)
	}
	for member, value := range map[string]any{
		"tunnel_url": nil, "channel_id": 7, "role": 3, "token": "", "e2ee_psk_b64u": "AAAA", "default_suite": 0,
		"allowed_suites": []int{1, 0x104}, "peer_static_b64u": "A=",
	} {
		_, err := ParseGrant(grantText(func(m map[string]any) { m[member] = value }))
		if err == nil || !strings.Contains(err.Error(), member) {
			t.Errorf("%s: %v", member, err)
		}
	}
	if _, err := ParseGrant(bytes.Repeat([]byte(" "), grantMax+1)); err == nil {
		t.Error("a grant without end was read")
	}
}

func TestAGrantIsPrintedWithoutItsSecrets(t *testing.T) {
	grant, err := ParseGrant(grantText(func(map[string]any) {}))
	if err != nil {
		t.Fatal(err)
	}
	asJSON, _ := json.Marshal(grant)
	for _, shown := range []string{
		fmt.Sprintf("%v %+v %#v %s", grant, grant, grant, grant), fmt.Sprintf("%v %x %q", grant.Token, grant.PSK, grant.PSK),
		fmt.Sprintf("%+v", *grant), string(asJSON),
	} {
		if strings.Contains(shown, "SECRET") || strings.Contains(shown, "0707") || strings.Contains(shown, "7, 7") || strings.Contains(shown, "7 7") {
			t.Errorf("a secret shows: %s", shown)
		}
	}
}
