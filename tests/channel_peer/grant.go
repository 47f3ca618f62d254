package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// What the control plane gives to an endpoint.
type grant struct {
	TunnelURL     string   `json:"tunnel_url"`
	ChannelID     string   `json:"channel_id"`
	InitExp       int64    `json:"channel_init_expire_at_unix_s"`
	IdleTimeout   int32    `json:"idle_timeout_seconds"`
	Role          int      `json:"role"`
	Token         string   `json:"token"`
	PSK           string   `json:"e2ee_psk_b64u"`
	AllowedSuites []uint16 `json:"allowed_suites"`
	DefaultSuite  uint16   `json:"default_suite"`
}

// The same without a tunnel.
type directInfo struct {
	URL          string `json:"ws_url"`
	ChannelID    string `json:"channel_id"`
	PSK          string `json:"e2ee_psk_b64u"`
	DefaultSuite uint16 `json:"default_suite"`
	InitExp      int64  `json:"channel_init_expire_at_unix_s"`
}

func fromFile(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func random(len int) []byte {
	made := make([]byte, len)
	_, _ = rand.Read(made)
	return made
}

// What a token says, in the order in which issuers write it.
type claims struct {
	Kid       string `json:"kid"`
	Aud       string `json:"aud"`
	Iss       string `json:"iss,omitempty"`
	ChannelID string `json:"channel_id"`
	Role      int    `json:"role"`
	TokenID   string `json:"token_id"`
	InitExp   int64  `json:"init_exp"`
	Iat       int64  `json:"iat"`
	Exp       int64  `json:"exp"`
}

func (c *claims) sign(key ed25519.PrivateKey) (string, error) {
	payload, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	said := "FST1." + b64u.EncodeToString(payload)
	return said + "." + b64u.EncodeToString(ed25519.Sign(key, []byte(said))), nil
}

// Who issues grants, as the demonstration of v1 did.
type issuer struct {
	key           ed25519.PrivateKey
	url, aud, iss string
	suite         uint16
}

func newIssuer(url, aud, iss string, suite uint16) (*issuer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return &issuer{key, url, aud, iss, suite}, err
}

// What the tunnel needs to know of it.
func (i *issuer) keyset() any {
	public := b64u.EncodeToString(i.key.Public().(ed25519.PublicKey))
	return map[string]any{"keys": []any{map[string]any{"kid": "k1", "pubkey_b64u": public}}}
}

// The grants of a fresh channel, for the client and for the server.
func (i *issuer) grants(now time.Time) (pair [2]grant, err error) {
	id, psk, initExp := b64u.EncodeToString(random(24)), b64u.EncodeToString(random(32)), now.Unix()+120
	for at := range pair {
		said := claims{"k1", i.aud, i.iss, id, at + 1, b64u.EncodeToString(random(24)), initExp, now.Unix(), now.Unix() + 60}
		token, err := said.sign(i.key)
		if err != nil {
			return pair, err
		}
		pair[at] = grant{i.url, id, initExp, 60, at + 1, token, psk, []uint16{i.suite}, i.suite}
	}
	return pair, nil
}

// Writes the keyset and, once the tunnel's address is known, grants: `keys.json`, `client.json`, `server.json`.
func writeJSON(file string, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
