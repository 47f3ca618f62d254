package session

import (
	"encoding/json"
	"fmt"
	"io"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// Auth says how a client was recognised.
type Auth string

// The ways. Empty is none.
const (
	AuthNone        Auth = "none"
	AuthBearer      Auth = "bearer"
	AuthDPoP        Auth = "dpop"
	AuthCertificate Auth = "certificate"
)

func validAuth(text string) bool {
	switch Auth(text) {
	case AuthNone, AuthBearer, AuthDPoP, AuthCertificate:
		return true
	}
	return false
}

// Key is a session's one secret: the AES key of wires 1 and 2, the prk of wire 3. It does not print.
type Key [wire.KeyLen]byte

// String shows nothing.
func (Key) String() string { return "Key(redacted)" }

// Format is String, whatever the verb: no verb shows a key.
func (v Key) Format(state fmt.State, _ rune) { io.WriteString(state, v.String()) }

// MarshalJSON refuses, so that no log gets it by accident. [Record.Encode] writes it.
func (Key) MarshalJSON() ([]byte, error) { return []byte(`"redacted"`), nil }

// Wipe overwrites it.
func (k *Key) Wipe() { clear(k[:]) }

// Record is a server's session. spec/session.md#authority-endpoints
type Record struct {
	ID   string
	Wire wire.Version
	// ClientID is empty on wire 1.
	ClientID string
	// Subject and Tenant are empty where nobody said.
	Subject, Tenant string
	Auth            Auth
	// CreatedMs is when the session was agreed; of a renewed one, when the first of its chain was.
	CreatedMs, ExpiresMs uint64
	Key                  Key
}

// Anonymous says whether it came from /session/init/anon.
func (r *Record) Anonymous() bool { return len(r.ID) > 0 && r.ID[0] == 'A' }

// Expired says whether its time is over.
func (r *Record) Expired(nowMs uint64) bool { return nowMs >= r.ExpiresMs }

// Exporter gives wire 3's exporter, which a renewal mixes in.
func (r *Record) Exporter() []byte { return crypto.Expand(r.Key[:], 32, []byte("sealway/3 exporter")) }

type recordJSON struct {
	ID        string  `json:"id"`
	Wire      uint8   `json:"wire"`
	ClientID  *string `json:"client_id"`
	Subject   *string `json:"subject"`
	CreatedMs uint64  `json:"created_ms"`
	ExpiresMs uint64  `json:"expires_ms"`
	Key       string  `json:"key"`
	Tenant    *string `json:"tenant,omitempty"`
	Auth      string  `json:"auth,omitempty"`
}

func textOrNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Encode writes the JSON form of spec/session.md#authority-endpoints, with the key.
func (r *Record) Encode() []byte {
	auth := r.Auth
	if auth == AuthNone {
		auth = ""
	}
	// Marshalling these types cannot fail.
	data, _ := json.Marshal(recordJSON{r.ID, uint8(r.Wire), textOrNil(r.ClientID), textOrNil(r.Subject), r.CreatedMs, r.ExpiresMs,
		wire.EncodeBase64(r.Key[:]), textOrNil(r.Tenant), string(auth)})
	return data
}

// DecodeRecord reads that form; anything else is field_invalid with the member's name, or json_invalid.
func DecodeRecord(data []byte) (*Record, error) {
	members, err := wire.ParseObject(data)
	if err != nil {
		return nil, err
	}
	return RecordOf(members)
}

// RecordOf reads that form from members that were read before.
func RecordOf(members wire.Members) (*Record, error) {
	bad := func(name string) error { return &wire.Error{Code: wire.CodeFieldInvalid, Name: name} }
	record := &Record{Auth: AuthNone}
	var ok bool
	if record.ID, ok = members.Text("id"); !ok || !wire.ValidSessionID(record.ID) {
		return nil, bad("id")
	}
	version, ok := wire.Whole(members["wire"], 3)
	if !ok || version < 1 {
		return nil, bad("wire")
	}
	record.Wire = wire.Version(version)
	for name, into := range map[string]*string{"client_id": &record.ClientID, "subject": &record.Subject, "tenant": &record.Tenant} {
		if *into, ok = members.Text(name); !ok && members.Has(name) {
			return nil, bad(name)
		}
	}
	if record.Wire != wire.Wire1 && !wire.ValidClientID(record.ClientID) {
		return nil, bad("client_id")
	}
	if auth, there := members.Text("auth"); there && validAuth(auth) {
		record.Auth = Auth(auth)
	} else if members.Has("auth") {
		return nil, bad("auth")
	}
	if record.CreatedMs, ok = wire.Whole(members["created_ms"], 1<<62); !ok {
		return nil, bad("created_ms")
	}
	if record.ExpiresMs, ok = wire.Whole(members["expires_ms"], 1<<62); !ok {
		return nil, bad("expires_ms")
	}
	key, ok := members.Base64("key")
	if !ok || len(key) != wire.KeyLen {
		return nil, bad("key")
	}
	record.Key = Key(key)
	clear(key)
	return record, nil
}
