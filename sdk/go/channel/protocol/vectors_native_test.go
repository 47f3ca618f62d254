package protocol

import (
	"bytes"
	"crypto/ecdh"
	"errors"
	"testing"
)

type ecdhPrivate = ecdh.PrivateKey

func suiteNamed(t *testing.T, name string) Suite {
	t.Helper()
	for id := range uint16(0x200) {
		if suite, err := ParseSuite(id); err == nil && suite.String() == name {
			return suite
		}
	}
	t.Fatalf("no suite is called %s", name)
	return 0
}

func runNoise(t *testing.T, text []byte) {
	var v struct {
		about
		NoiseName       string   `json:"noise_name"`
		Prologue        hexBytes `json:"prologue_hex"`
		PSK             hexBytes `json:"psk_hex"`
		ClientStatic    hexBytes `json:"client_static_hex"`
		ServerStatic    hexBytes `json:"server_static_hex"`
		ClientEphemeral hexBytes `json:"client_ephemeral_hex"`
		ServerEphemeral hexBytes `json:"server_ephemeral_hex"`
		Messages        []struct {
			Payload hexBytes `json:"payload_hex"`
			Message hexBytes `json:"message_hex"`
		} `json:"messages"`
		HandshakeHash hexBytes `json:"handshake_hash_hex"`
		ClientKey     hexBytes `json:"client_key_hex"`
		ServerKey     hexBytes `json:"server_key_hex"`
	}
	if err := strictly(text, &v); err != nil {
		t.Fatal(err)
	}
	suite, psk := suiteNamed(t, v.NoiseName), v.PSK.key()
	private := func(raw hexBytes) *ecdh.PrivateKey {
		if len(raw) == 0 {
			return nil
		}
		key := raw.key()
		return must[*ecdh.PrivateKey](t)(suite.curve().private(&key, ""))
	}
	public := func(key *ecdh.PrivateKey) *ecdh.PublicKey {
		if key == nil {
			return nil
		}
		return key.PublicKey()
	}
	ofClient, ofServer := private(v.ClientStatic), private(v.ServerStatic)
	client := must[*noise](t)(newNoise(suite, true, v.Prologue, &psk, private(v.ClientEphemeral), ofClient, public(ofServer)))
	server := must[*noise](t)(newNoise(suite, false, v.Prologue, &psk, private(v.ServerEphemeral), ofServer, public(ofClient)))
	for at, message := range v.Messages {
		if client.isFinished() {
			// The published file continues with records under the keys of the handshake, which are compared below.
			break
		}
		writer, reader := client, server
		if at%2 == 1 {
			writer, reader = server, client
		}
		same(t, "message", must[[]byte](t)(writer.write(nil, message.Payload)), message.Message)
		same(t, "payload", must[[]byte](t)(reader.read(message.Message)), message.Payload)
	}
	same(t, "the client's hash", client.h[:], v.HandshakeHash)
	same(t, "the server's hash", server.h[:], v.HandshakeHash)
	for _, side := range []*noise{client, server} {
		one, other, err := side.split()
		if err != nil {
			t.Fatal(err)
		}
		same(t, "the client's key", one[:], v.ClientKey)
		same(t, "the server's key", other[:], v.ServerKey)
	}
}

type nativeScenario struct {
	about
	Suite           Suite    `json:"suite"`
	NoiseName       string   `json:"noise_name"`
	ChannelID       string   `json:"channel_id"`
	PSK             hexBytes `json:"psk_hex"`
	InitExpiresS    uint64   `json:"init_expires_s"`
	Audience        string   `json:"audience"`
	Issuer          string   `json:"issuer"`
	AllowedSuites   []uint16 `json:"allowed_suites"`
	Prologue        hexBytes `json:"prologue_hex"`
	ClientStatic    hexBytes `json:"client_static_hex"`
	ServerStatic    hexBytes `json:"server_static_hex"`
	ClientEphemeral hexBytes `json:"client_ephemeral_hex"`
	ServerEphemeral hexBytes `json:"server_ephemeral_hex"`
	KEMPrivate      hexBytes `json:"kem_private_hex"`
	KEMCiphertext   hexBytes `json:"kem_ciphertext_hex"`
	KEMSecret       hexBytes `json:"kem_secret_hex"`
	RekeyAfter      uint64   `json:"rekey_after_records"`
	PadTo           int      `json:"pad_to"`
	Messages        []struct {
		Sender  string   `json:"sender"`
		Message hexBytes `json:"message_hex"`
	} `json:"messages"`
	ClientKey hexBytes       `json:"client_key_hex"`
	ServerKey hexBytes       `json:"server_key_hex"`
	Records   []sealedRecord `json:"records"`
}

// fixedKEM stands in for a key that the platform cannot read: FIPS 203's expanded key holds the public one behind the secret
// vector, 384 k bytes.
type fixedKEM struct{ v *nativeScenario }

func (g fixedKEM) EncapsulationKey() []byte {
	return bytes.Clone(g.v.KEMPrivate[1152 : 1152+kemPublicLen])
}

func (g fixedKEM) Decapsulate(ciphertext []byte) ([]byte, error) {
	if !bytes.Equal(ciphertext, g.v.KEMCiphertext) {
		return nil, errors.New("another ciphertext than the vector's")
	}
	return bytes.Clone(g.v.KEMSecret), nil
}

func (v *nativeScenario) settings(t *testing.T, isClient bool) *Settings {
	t.Helper()
	made := NewSettings(v.ChannelID, v.PSK.key(), v.Suite, v.InitExpiresS)
	made.AllowedSuites = v.AllowedSuites
	made.RekeyAfterRecords, made.PadTo = v.RekeyAfter, v.PadTo
	made.Bind(v.Audience, v.Issuer)
	if !v.Suite.HasStaticKeys() {
		return made
	}
	own, peer := v.ClientStatic.key(), v.ServerStatic.key()
	if !isClient {
		own, peer = peer, own
	}
	made.LocalStatic = &own
	made.PeerStatic = must[[]byte](t)(PublicKey(v.Suite, &peer))
	return made
}

func runNative(t *testing.T, text []byte) {
	var v nativeScenario
	if err := strictly(text, &v); err != nil {
		t.Fatal(err)
	}
	if v.Suite.String() != v.NoiseName {
		t.Fatalf("suite %d is called %s", v.Suite, v.Suite)
	}
	same(t, "prologue", prologue(v.settings(t, true)), v.Prologue)
	clientRandoms := &Randoms{Ephemeral: v.ClientEphemeral.key(), Decapsulator: fixedKEM{&v}}
	serverRandoms := &Randoms{Ephemeral: v.ServerEphemeral.key()}
	serverRandoms.Encapsulate = func([]byte) ([]byte, []byte, error) {
		return bytes.Clone(v.KEMSecret), bytes.Clone(v.KEMCiphertext), nil
	}
	client, message, err := NewClient(v.settings(t, true), clientRandoms)
	if err != nil {
		t.Fatal(err)
	}
	server := must[*Handshake](t)(NewServer(v.settings(t, false), serverRandoms))
	sides := map[string]*Handshake{"client": server, "server": client}
	done := false
	for at, expected := range v.Messages {
		if done {
			t.Fatal("done before the last message")
		}
		same(t, "message", message, expected.Message)
		message, done, err = sides[expected.Sender].Read(expected.Message, v.InitExpiresS)
		if err != nil || done != (at == len(v.Messages)-1) {
			t.Fatalf("message %d: done is %v: %v", at, done, err)
		}
	}
	// The reader of the last message confirms; the other end accepts.
	confirming := v.Records[0].Sender
	same(t, "the ping that confirms", message, v.Records[0].Message)
	if _, done, err = sides[confirming].Read(message, v.InitExpiresS); err != nil || !done {
		t.Fatal("it confirms nothing:", err)
	}
	checkNativeKeys(t, &v)
	exchange(t, client, server, v.Records, confirming)
}

// checkNativeKeys plays the Noise messages once more for the keys alone: those of the records have been used by now.
func checkNativeKeys(t *testing.T, v *nativeScenario) {
	t.Helper()
	randoms := &Randoms{Ephemeral: v.ClientEphemeral.key(), Decapsulator: fixedKEM{v}}
	settings := v.settings(t, true)
	state, _, err := beginNativeClient(settings, randoms)
	if err != nil {
		t.Fatal(err)
	}
	client := state.(*native)
	payload := v.Messages[1].Message[handshakeHeaderLen:]
	if v.Suite.IsHybrid() {
		payload = hexBytes(must[[]byte](t)(client.decapsulate(payload)))
	}
	must[[]byte](t)(client.noise.read(payload))
	if !client.noise.isFinished() {
		must[[]byte](t)(client.noise.write(nil, nil))
	}
	one, other, err := client.noise.split()
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the client's key", one[:], v.ClientKey)
	same(t, "the server's key", other[:], v.ServerKey)
}
