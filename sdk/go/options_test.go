package sealway

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

func TestAnOptionThatIsMissingOrOutOfBoundsIsNamed(t *testing.T) {
	const url = "https://a.example"
	transport := func(url string, config Config) error {
		_, err := NewTransport(url, config)
		return err
	}
	middleware := func(config MiddlewareConfig) error {
		config.Store = NewMemoryStore(1)
		_, err := NewMiddleware(config)
		return err
	}
	_, noStore := NewMiddleware(MiddlewareConfig{})
	_, noAuthority := NewAuthorityStore("", "0123456789abcdef", nil)
	_, noSecret := NewAuthorityStore(url, "", nil)
	kid := "hpke:" + strings.Repeat("0", 32)
	config := newOneShotServiceKey(t, crypto.KEMX25519).base64()
	for name, err := range map[string]error{
		"service's URL is missing": transport("", Config{}),
		"service's URL is not":     transport("https://user:hunter2@a.example", Config{}),
		"service's URL is not ":    transport("ftp://a.example", Config{}),
		"Config.AuthorityURL":      transport(url, Config{AuthorityURL: "a.example"}),
		"Config.Wire":              transport(url, Config{Wire: 5}),
		"Config.ClientID":          transport(url, Config{ClientID: "a|b"}),
		"Config.Trust is missing":  transport(url, Config{}),
		"Config.TTL":               transport(url, Config{TTL: -1}),
		"Config.ConnectTimeout":    transport(url, Config{ConnectTimeout: 1, Base: http.DefaultTransport}),
		"Config.AnswerMaxBytes":    transport(url, Config{AnswerMaxBytes: -1}),
		"Config.RequestMaxBytes":   transport(url, Config{RequestMaxBytes: -1}),
		"Config.Suites":            transport(url, Config{Suites: []crypto.Suite{"P0"}}),
		"MiddlewareConfig.Store":   noStore,
		"Routes":                   middleware(MiddlewareConfig{Routes: []Route{{Path: "x"}}}),
		"Wires":                    middleware(MiddlewareConfig{Wires: []wire.Version{4}}),
		"Window":                   middleware(MiddlewareConfig{Window: 1 << 60}),
		"StoreTimeout":             middleware(MiddlewareConfig{StoreTimeout: -time.Second}),
		"BodyTimeout":              middleware(MiddlewareConfig{BodyTimeout: -time.Second}),
		"AnswerMaxBytes":           middleware(MiddlewareConfig{AnswerMaxBytes: -1}),
		"BufferedMaxBytes":         middleware(MiddlewareConfig{BufferedMaxBytes: 5}),
		"can be pinned":            transport(url, Config{Trust: TrustPins()}),
		"a pin is":                 transport(url, Config{Trust: TrustRoot("", nil)}),
		"authority's URL":          noAuthority,
		"authority's secret":       noSecret,

		"Config.Trust is missing, or of wire 3": transport(url, Config{Wire: 4}),
		"or of wire 3":                          transport(url, Config{Wire: 4, Trust: TrustFirstUse(nil)}),
		"or of wire 4":                          transport(url, Config{Trust: TrustKids(kid)}),
		"TrustKids has 0 keys":                  transport(url, Config{Wire: 4, Trust: TrustKids()}),
		"TrustKids has 17 keys":                 transport(url, Config{Wire: 4, Trust: TrustKids(slices.Repeat([]string{kid}, 17)...)}),
		`TrustKids: "hpke:ABC" is no kid`:       transport(url, Config{Wire: 4, Trust: TrustKids("hpke:ABC")}),
		"TrustKeyConfigs: key 2 is no":          transport(url, Config{Wire: 4, Trust: TrustKeyConfigs(config, "AAAA")}),
		"no key of a KEM of Config.KEMs":        transport(url, Config{Wire: 4, Trust: TrustKeyConfigs(config), KEMs: []crypto.KEM{crypto.KEMP256}}),
		"Config.KEMs: KEM 0x0021 is unknown":    transport(url, Config{Wire: 4, Trust: TrustKids(kid), KEMs: []crypto.KEM{0x21}}),
		"Config.PSK and Config.KEMs are of":     transport(url, Config{Trust: TrustFirstUse(nil), PSK: PSK{"a", make([]byte, 32)}}),
		"Config.PSK has an ID":                  transport(url, Config{Wire: 4, Trust: TrustKids(kid), PSK: PSK{"a b", make([]byte, 32)}}),
		"and a Key of 32 bytes":                 transport(url, Config{Wire: 4, Trust: TrustKids(kid), PSK: PSK{"hunter2", []byte("hunter2")}}),
		"are of sessions, and wire 4 has none":  transport(url, Config{Wire: 4, Trust: TrustKids(kid), TTL: time.Minute}),

		"Config.InitPath is /init: it is /session/init, /session/init/anon (wire 1) or /v1/session/init (wire 2)": transport(url, Config{InitPath: "/init"}),
		"Config.InitPath is /v1/session/init:": transport(url, Config{Wire: 1, InitPath: "/v1/session/init"}),
	} {
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), strings.TrimSpace(name)) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
