package sealway

import (
	"errors"
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
	_, noPin := PinKeys()
	_, noRoot := PinRoot("", "")
	_, noAuthority := NewAuthority("", "0123456789abcdef", nil)
	_, noSecret := NewAuthority(url, "", nil)
	for name, err := range map[string]error{
		"session URL is missing": transport("", Config{}),
		"session URL is not":     transport("https://user:hunter2@a.example", Config{}),
		"session URL is not ":    transport("ftp://a.example", Config{}),
		"Config.ServerURL":       transport(url, Config{ServerURL: "a.example"}),
		"Config.Wire":            transport(url, Config{Wire: 4}),
		"Config.ClientID":        transport(url, Config{ClientID: "a|b"}),
		"Config.InitPath":        transport(url, Config{InitPath: "/init"}),
		"Config.TTL":             transport(url, Config{TTL: -1}),
		"Config.InitTimeout":     transport(url, Config{InitTimeout: -1}),
		"BodyMax":                transport(url, Config{BodyMax: -1}),
		"Config.Suites":          transport(url, Config{Suites: []crypto.Suite{"P0"}}),
		"MiddlewareConfig.Store": noStore,
		"Routes":                 middleware(MiddlewareConfig{Routes: []Route{{Path: "x"}}}),
		"Wires":                  middleware(MiddlewareConfig{Wires: []wire.Version{4}}),
		"WindowMs":               middleware(MiddlewareConfig{WindowMs: 1 << 40}),
		"StoreTimeout":           middleware(MiddlewareConfig{StoreTimeout: -time.Second}),
		"BodyTimeout":            middleware(MiddlewareConfig{BodyTimeout: -time.Second}),
		"AnswerMax":              middleware(MiddlewareConfig{AnswerMax: -1}),
		"BufferedBytesMax":       middleware(MiddlewareConfig{BufferedBytesMax: 5}),
		"keys can be pinned":     noPin,
		"a pin is":               noRoot,
		"authority's URL":        noAuthority,
		"authority's secret":     noSecret,
	} {
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), strings.TrimSpace(name)) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
