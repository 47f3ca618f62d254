package redisstore

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

type rowVector struct {
	Type string `json:"type"`
	Name string `json:"name"`
	Keks []struct {
		ID  string `json:"id"`
		Key string `json:"key_hex"`
	} `json:"keks"`
	Session *struct {
		ID        string       `json:"id"`
		Wire      wire.Version `json:"wire"`
		ClientID  string       `json:"client_id"`
		Subject   string       `json:"subject"`
		Tenant    string       `json:"tenant"`
		Auth      session.Auth `json:"auth"`
		Lineage   string       `json:"lineage"`
		CreatedMs uint64       `json:"created_ms"`
		ExpiresMs uint64       `json:"expires_ms"`
		Key       string       `json:"key_hex"`
	} `json:"session"`
	SessionID     string `json:"session_id"`
	Value         string `json:"value_hex"`
	AAD           string `json:"aad_hex"`
	AcceptUntilMs uint64 `json:"accept_until_ms"`
	Reason        string `json:"reason"`
}

func unhex(t *testing.T, text string) []byte {
	data, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestEveryRowOfTheVectorsIsReadOrRefusedAsTheySay(t *testing.T) {
	files, _ := filepath.Glob("../../../vectors/store/row*.json")
	counts := map[string]int{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var v rowVector
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(file, err)
		}
		counts[v.Type]++
		var lines []string
		for _, kek := range v.Keks {
			lines = append(lines, kek.ID+" "+wire.EncodeBase64(unhex(t, kek.Key)))
		}
		keys, err := newKeys("", strings.Join(lines, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		id := v.SessionID
		if v.Session != nil {
			id = v.Session.ID
		}
		parsed, err := parseRow(id, unhex(t, v.Value), v.AcceptUntilMs)
		if err == nil {
			parsed.record.Key, err = keys.unwrap(parsed)
		}
		if v.Reason != "" {
			// A missing session is 401, every other error 503.
			if err == nil || errors.Is(err, wire.CodeSessionUnknown) != (v.Reason == "unauthenticated") {
				t.Errorf("%s (%s): %v", v.Name, v.Reason, err)
			}
			continue
		}
		want := session.Record{ID: id, Wire: v.Session.Wire, ClientID: v.Session.ClientID, Subject: v.Session.Subject, Tenant: v.Session.Tenant,
			Auth: v.Session.Auth, CreatedMs: v.Session.CreatedMs, ExpiresMs: v.Session.ExpiresMs, Key: session.Key(unhex(t, v.Session.Key))}
		if err != nil || parsed.record != want || parsed.lineage != v.Session.Lineage {
			t.Errorf("%s: %v %+v", v.Name, err, parsed)
		}
		if v.AAD != "" && !bytes.Equal(parsed.aad, unhex(t, v.AAD)) {
			t.Errorf("%s: another aad", v.Name)
		}
	}
	for _, kind := range []string{"row", "row-old", "row-refused"} {
		if counts[kind] == 0 {
			t.Errorf("no vectors of type %s", kind)
		}
	}
}
