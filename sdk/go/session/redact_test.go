package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// TestNothingWithAKeyPrintsIt formats everything that holds a key, in every way that a log may.
func TestNothingWithAKeyPrintsIt(t *testing.T) {
	secret := session.Key([]byte("SECRETSECRETSECRETSECRETSECRETSE"))
	record := &session.Record{ID: "S-" + strings.Repeat("0", 32), Wire: wire.Wire3, ClientID: "c", Auth: session.AuthNone, ExpiresMs: 1 << 50, Key: secret}
	server := must(session.NewSession(record))(t)
	identity := must(crypto.ParseIdentity(secret[:]))(t)
	keys := crypto.Keys{P256: p256Key(t, secret[:])}
	init := must(session.NewClientInit(session.Offer{Suites: []crypto.Suite{crypto.P256}, ClientID: "c"}, crypto.P256, keys, nil))(t)
	old := begun(t, wire.Wire2, false, &record.ClientID, secret[:])
	reply := session.NewReply(server, session.Line{}, "n")
	_, sealer, err := reply.SealFrames(200, "", 1, [16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	config := must(session.ParseKeyConfig(append(append([]byte{1, 0, 0x20, 9}, make([]byte, 31)...), 0, 4, 0, 1, 0, 2)))(t)
	one := must(session.NewOneShot(config, "shop", secret))(t)
	for _, value := range []any{secret, &secret, record, *record, server, identity, keys, crypto.Ephemeral{Keys: keys}, init, old, sealer, one} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
			text := fmt.Sprintf(format, value)
			for _, trace := range []string{"SECRET", "534543524554", "83 69 67 82", "0x53, 0x45, 0x43"} {
				if strings.Contains(strings.ToUpper(text), strings.ToUpper(trace)) {
					t.Errorf("%T shows its key by %s: %s", value, format, text)
				}
			}
		}
		var out strings.Builder
		slog.New(slog.NewJSONHandler(&out, nil)).Info("", "value", value)
		data, _ := json.Marshal(value)
		for _, text := range []string{out.String(), string(data)} {
			if strings.Contains(text, "SECRET") || strings.Contains(text, "U0VDUkVU") || strings.Contains(text, "83,69,67") {
				t.Errorf("%T shows its key in JSON: %s", value, text)
			}
		}
	}
}

func TestAWipedSessionHasNoKeyAndDoesNothing(t *testing.T) {
	identity := must(crypto.ParseIdentity(append(make([]byte, 31), 7)))(t)
	keys := crypto.Keys{P256: p256Key(t, append(make([]byte, 31), 8))}
	init := must(session.NewClientInit(session.Offer{Suites: []crypto.Suite{crypto.P256}, ClientID: "c"}, crypto.P256, keys, nil))(t)
	request := must(session.ParseInitRequest(init.Body()))(t)
	terms := session.Terms{Suites: crypto.Suites(), Identities: []session.Identity{{Key: identity, NotAfterMs: 1 << 50}}, ExpiresInSec: 60, Auth: session.AuthNone}
	answer, record, err := session.AgreeInit(request, terms, nil, func(crypto.Suite) (session.InitRandoms, error) {
		return session.InitRandoms{Keys: crypto.Keys{P256: p256Key(t, append(make([]byte, 31), 9))}}, nil
	}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	client := must(init.Finish(201, answer, trusts(identity.PublicKey())))(t)
	line := session.Line{Method: "GET", Target: "/"}
	_, _, pending, err := client.Seal(line, "", 1000, [16]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	if !session.HasKeys(client) {
		t.Fatal("no keys to wipe")
	}
	client.Wipe()
	record.Key.Wipe()
	if session.HasKeys(client) || record.Key != (session.Key{}) {
		t.Fatal("keys are left")
	}
	if _, _, _, err := client.Seal(line, "", 1000, [16]byte{2}); !errors.Is(err, wire.CodeProvider) {
		t.Fatal(err)
	}
	headers := wire.HeaderList{{Name: "X-Seal", Value: "3"}, {Name: "X-Kid", Value: wire.Kid(client.ID())}, {Name: "X-Idempotency-Key", Value: "1000.r-0123456789abcdef"}}
	if _, _, err := pending.Open(headers, 200); !errors.Is(err, wire.CodeProvider) {
		t.Fatal(err)
	}
}
