package relay

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// Forms of tokens, by their prefix.
const (
	// Fst1 is that of v1 up to January 2026, and of the native profile.
	Fst1 = "FST1"
	// Fst2 is that of later v1: the idle time is there and above 0, the role 1 or 2, names are not empty.
	Fst2 = "FST2"
)

// SkewS is how far clocks may be apart, and LifetimeMaxS the longest token, in seconds.
const (
	SkewS        = 30
	LifetimeMaxS = 3600
)

// ErrToken is the error of every rejected token; it does not say more.
var ErrToken = errors.New("invalid token")

// Claims are what a token says. Times are seconds of the epoch. spec/relay.md#tokens
type Claims struct {
	// Form is Fst1 where it is empty.
	Form         string `json:"-"`
	KID          string `json:"kid"`
	Audience     string `json:"aud"`
	Issuer       string `json:"iss,omitempty"`
	ChannelID    string `json:"channel_id"`
	Role         Role   `json:"role"`
	TokenID      string `json:"token_id"`
	InitExpiresS int64  `json:"init_exp"`
	IdleTimeoutS int32  `json:"idle_timeout_seconds,omitempty"`
	IssuedS      int64  `json:"iat"`
	ExpiresS     int64  `json:"exp"`
}

// Sign makes a token of claims, by the key that they name.
func Sign(claims *Claims, key ed25519.PrivateKey) (Token, error) {
	var payload bytes.Buffer
	if err := json.NewEncoder(&payload).Encode(claims); err != nil {
		return "", err
	}
	form := claims.Form
	if form == "" {
		form = Fst1
	}
	signed := form + "." + b64u.EncodeToString(bytes.TrimSuffix(payload.Bytes(), []byte("\n")))
	return Token(signed + "." + b64u.EncodeToString(ed25519.Sign(key, []byte(signed)))), nil
}

// TokenPolicy lists the issuer keys, audiences and issuers that a relay accepts. An empty list accepts all.
type TokenPolicy struct {
	Keys      map[string]ed25519.PublicKey
	Audiences []string
	Issuers   []string
}

// Verify holds a token against what is expected at nowS, seconds of the epoch, in the order of the spec. The error is ErrToken
// whatever failed.
func Verify(token Token, expected *TokenPolicy, nowS int64) (*Claims, error) {
	parts := tokenParts(token)
	if parts == nil {
		return nil, ErrToken
	}
	payload, isPayload := decodeB64u(parts[1])
	signature, isSignature := decodeB64u(parts[2])
	if !isPayload || !isSignature {
		return nil, ErrToken
	}
	claims, err := parseClaims(parts[0], payload)
	if err != nil {
		return nil, ErrToken
	}
	key, known := expected.Keys[claims.KID]
	if !known || len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, []byte(parts[0]+"."+parts[1]), signature) {
		return nil, ErrToken
	}
	isOne := func(of []string, value string) bool { return len(of) == 0 || slices.Contains(of, value) }
	holds := isOne(expected.Audiences, claims.Audience) && isOne(expected.Issuers, claims.Issuer) &&
		claims.IssuedS <= nowS+SkewS && claims.ExpiresS >= nowS-SkewS && claims.InitExpiresS >= nowS-SkewS &&
		claims.ExpiresS <= claims.InitExpiresS && claims.ExpiresS-claims.IssuedS <= LifetimeMaxS
	if !holds {
		return nil, ErrToken
	}
	return claims, nil
}

// ReadUnverified gives what a token says to an endpoint, which was given it by its control plane and holds no key.
func ReadUnverified(token Token) (*Claims, error) {
	parts := tokenParts(token)
	if parts == nil {
		return nil, ErrToken
	}
	payload, is := decodeB64u(parts[1])
	if !is {
		return nil, ErrToken
	}
	return parseClaims(parts[0], payload)
}

// tokenParts are form, payload and signature; nil where there are others.
func tokenParts(token Token) []string {
	parts := strings.Split(string(token), ".")
	if len(parts) != 3 || parts[0] != Fst1 && parts[0] != Fst2 {
		return nil
	}
	return parts
}

func parseClaims(form string, payload []byte) (*Claims, error) {
	said, err := parseObject(payload)
	if err != nil {
		return nil, ErrToken
	}
	role := said.whole("role", 16)
	made := &Claims{
		KID: said.text("kid"), Audience: said.text("aud"), Issuer: said.text("iss"), ChannelID: said.text("channel_id"),
		Role: Role(role), TokenID: said.text("token_id"), InitExpiresS: said.whole("init_exp", 64),
		IdleTimeoutS: int32(said.whole("idle_timeout_seconds", 32)), IssuedS: said.whole("iat", 64),
		ExpiresS: said.whole("exp", 64),
	}
	if said.bad != "" || role < 0 || role > 255 {
		return nil, ErrToken
	}
	if form == Fst2 {
		made.Form = form
		if !made.isFst2() {
			return nil, ErrToken
		}
	}
	return made, nil
}

// isFst2 says whether all is there that Fst2 must say beside what Fst1 does.
func (c *Claims) isFst2() bool {
	for _, name := range []string{c.KID, c.ChannelID, c.TokenID} {
		if strings.TrimSpace(name) == "" {
			return false
		}
	}
	return c.IdleTimeoutS > 0 && (c.Role == 1 || c.Role == 2) && c.IssuedS <= c.ExpiresS
}
