package main

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
)

type values map[string]any

func (v values) bytes(t *testing.T, name string) []byte {
	t.Helper()
	text, is := v[name].(string)
	if !is {
		t.Fatalf("%s is not there", name)
	}
	made, err := b64u.DecodeString(text)
	if err != nil {
		t.Fatal(name, err)
	}
	return made
}

func (v values) number(name string) uint64 { return uint64(v[name].(float64)) }

func load(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if string(got) != string(want) {
		t.Errorf("%s: %x, and the vector says %x", what, got, want)
	}
}

func agreed(t *testing.T, suite uint16, v values) []byte {
	t.Helper()
	curve, err := curveOf(suite)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]*ecdh.PrivateKey{}
	for _, side := range []string{"client", "server"} {
		key, err := curve.NewPrivateKey(v.bytes(t, side+"_eph_priv_b64u"))
		if err != nil {
			t.Fatal(err)
		}
		same(t, side+"'s public key", key.PublicKey().Bytes(), v.bytes(t, side+"_eph_pub_b64u"))
		keys[side] = key
	}
	one, err := keys["client"].ECDH(keys["server"].PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	other, err := keys["server"].ECDH(keys["client"].PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "what both sides agree on", one, other)
	return one
}

func hashed(t *testing.T, suite uint16, v values) []byte {
	return (&transcript{
		version: 1, suite: suite, role: 1,
		clientFeatures: uint32(v.number("client_features")), serverFeatures: uint32(v.number("server_features")),
		channelID: v["channel_id"].(string),
		nonceC:    v.bytes(t, "nonce_c_b64u"), nonceS: v.bytes(t, "nonce_s_b64u"),
		clientPub: v.bytes(t, "client_eph_pub_b64u"), serverPub: v.bytes(t, "server_eph_pub_b64u"),
	}).hash()
}

func TestEveryValueOfTheHandshakeOverX25519(t *testing.T) {
	var v values
	load(t, "flowersec_v1_vectors.json", &v)
	shared, th := agreed(t, suiteX25519, v), hashed(t, suiteX25519, v)
	same(t, "shared", shared, v.bytes(t, "shared_secret_b64u"))
	same(t, "transcript", th, v.bytes(t, "transcript_hash_b64u"))
	psk := v.bytes(t, "psk_b64u")
	same(t, "tag", authTag(psk, th, v.number("timestamp_unix_s")), v.bytes(t, "auth_tag_b64u"))
	made, err := derive(psk, shared, th)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "c2s", made.c2sKey, v.bytes(t, "c2s_b64u"))
	same(t, "s2c", made.s2cKey, v.bytes(t, "s2c_b64u"))
	same(t, "rekey base", made.rekeyBase, v.bytes(t, "rekey_b64u"))
	same(t, "c2s prefix", made.c2sPrefix, v.bytes(t, "c2s_np_b64u"))
	same(t, "s2c prefix", made.s2cPrefix, v.bytes(t, "s2c_np_b64u"))
	for which, name := range map[byte]string{clientToServer: "c2s", serverToClient: "s2c"} {
		key, err := nextKey(made.rekeyBase, th, 3, which)
		if err != nil {
			t.Fatal(err)
		}
		same(t, name+" after rekey", key, v.bytes(t, name+"_rekey_at_seq_3_b64u"))
	}
	sender, _, err := directions(made)
	if err != nil {
		t.Fatal(err)
	}
	receiver, _, _ := directions(made)
	for _, record := range []struct {
		name  string
		flags byte
		plain string
	}{
		{"seq1_app_hello", flagApp, "hello"}, {"seq2_ping", flagPing, ""},
		{"seq3_rekey", flagRekey, ""}, {"seq4_app_after_rekey", flagApp, "hello"},
	} {
		want := v.bytes(t, "c2s_record_"+record.name+"_b64u")
		got, err := sender.seal(record.flags, []byte(record.plain))
		if err != nil {
			t.Fatal(err)
		}
		same(t, record.name, got, want)
		flags, plain, err := receiver.open(want)
		if err != nil || flags != record.flags || string(plain) != record.plain {
			t.Errorf("%s opens as %d %q: %v", record.name, flags, plain, err)
		}
	}
}

type vectorCase struct {
	Inputs   values `json:"inputs"`
	Expected values `json:"expected"`
}

func TestEveryValueOfTheHandshakeOverP256(t *testing.T) {
	var cases map[string][]vectorCase
	load(t, "flowersec_v1_vectors_e2ee.json", &cases)
	for _, one := range cases["handshake_p256"] {
		shared, th := agreed(t, suiteP256, one.Inputs), hashed(t, suiteP256, one.Inputs)
		same(t, "shared", shared, one.Expected.bytes(t, "shared_secret_b64u"))
		same(t, "transcript", th, one.Expected.bytes(t, "transcript_hash_b64u"))
		made, err := derive(one.Inputs.bytes(t, "psk_b64u"), shared, th)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "c2s", made.c2sKey, one.Expected.bytes(t, "c2s_key_b64u"))
		same(t, "s2c", made.s2cKey, one.Expected.bytes(t, "s2c_key_b64u"))
		same(t, "c2s prefix", made.c2sPrefix, one.Expected.bytes(t, "c2s_nonce_prefix_b64u"))
		same(t, "s2c prefix", made.s2cPrefix, one.Expected.bytes(t, "s2c_nonce_prefix_b64u"))
		same(t, "rekey base", made.rekeyBase, one.Expected.bytes(t, "rekey_base_b64u"))
	}
	for _, one := range cases["transcript_hash"] {
		same(t, "transcript", hashed(t, uint16(one.Inputs.number("suite")), one.Inputs), one.Expected.bytes(t, "transcript_hash_b64u"))
	}
	for _, one := range cases["record_frame"] {
		aead, err := gcm(one.Inputs.bytes(t, "key_b64u"))
		if err != nil {
			t.Fatal(err)
		}
		d := direction{aead: aead, prefix: one.Inputs.bytes(t, "nonce_prefix_b64u")}
		got := d.sealAt(one.Inputs.number("seq"), byte(one.Inputs.number("flags")), []byte(one.Inputs["plaintext_utf8"].(string)))
		same(t, "record", got, one.Expected.bytes(t, "frame_b64u"))
	}
	if len(cases["handshake_p256"]) == 0 || len(cases["transcript_hash"]) == 0 || len(cases["record_frame"]) == 0 {
		t.Error("a file of vectors has fewer kinds of them than it had")
	}
}

func keyOfSeed(t *testing.T, text string) ed25519.PrivateKey {
	t.Helper()
	seed, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return ed25519.NewKeyFromSeed(seed)
}
