package protocol

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

func (h hexBytes) key() (key Key) {
	copy(key[:], h)
	return key
}

type about struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Comment string `json:"comment"`
	Spec    string `json:"spec"`
}

type sealedRecord struct {
	Sender    string   `json:"sender"`
	Kind      string   `json:"kind"`
	Content   hexBytes `json:"content_hex"`
	Plaintext hexBytes `json:"plaintext_hex"`
	Message   hexBytes `json:"message_hex"`
}

// strictly reads JSON and refuses members that the type has not.
func strictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

var runners = map[string]func(*testing.T, []byte){
	"channel-v1": runV1, "channel-v1-transcript": runV1Transcript, "channel-v1-record": runV1Record,
	"noise": runNoise, "channel-native": runNative,
}

func TestEveryVectorOfChannels(t *testing.T) {
	files, err := filepath.Glob("../../../../vectors/channel/*")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no vectors:", err)
	}
	ran := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var said about
		if err := json.Unmarshal(text, &said); err != nil {
			t.Errorf("%s is no scenario: %v", file, err)
			continue
		}
		run, known := runners[said.Type]
		if !known {
			t.Errorf("%s has the type %q, which nobody reads", file, said.Type)
			continue
		}
		ran[said.Type]++
		t.Run(said.Name, func(t *testing.T) { run(t, text) })
	}
	for kind := range runners {
		if ran[kind] == 0 {
			t.Errorf("no vector of type %s ran", kind)
		}
	}
	t.Logf("ran %d files: %v", len(files), ran)
	t.Log("of the hybrid scenarios the ML-KEM ciphertext and its secret are taken as given: crypto/mlkem reads seeds, " +
		"and the vectors hold an expanded key")
}

func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %x, and the vector says %x", what, got, want)
	}
}

func sameJSON(t *testing.T, what string, frame []byte, want string) {
	t.Helper()
	var one, other any
	if json.Unmarshal(frame[handshakeHeaderLen:], &one) != nil || json.Unmarshal([]byte(want), &other) != nil {
		t.Fatalf("%s is no JSON", what)
	}
	if !reflect.DeepEqual(one, other) {
		t.Errorf("%s: %s, and the vector says %s", what, frame[handshakeHeaderLen:], want)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(made T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
}

type v1Scenario struct {
	about
	Suite         Suite          `json:"suite"`
	ClientFeature uint32         `json:"client_features"`
	ServerFeature uint32         `json:"server_features"`
	ChannelID     string         `json:"channel_id"`
	ClientNonce   hexBytes       `json:"client_nonce_hex"`
	ServerNonce   hexBytes       `json:"server_nonce_hex"`
	Transcript    hexBytes       `json:"transcript_hex"`
	PSK           hexBytes       `json:"psk_hex"`
	ClientPrivate hexBytes       `json:"client_private_hex"`
	ServerPrivate hexBytes       `json:"server_private_hex"`
	IDRandom      hexBytes       `json:"handshake_id_random_hex"`
	TimestampS    uint64         `json:"timestamp_s"`
	Shared        hexBytes       `json:"shared_hex"`
	AuthTag       hexBytes       `json:"auth_tag_hex"`
	ClientKey     hexBytes       `json:"client_key_hex"`
	ServerKey     hexBytes       `json:"server_key_hex"`
	RekeyBase     hexBytes       `json:"rekey_base_hex"`
	ClientPrefix  hexBytes       `json:"client_nonce_prefix_hex"`
	ServerPrefix  hexBytes       `json:"server_nonce_prefix_hex"`
	Init          string         `json:"init"`
	Resp          string         `json:"resp"`
	Ack           string         `json:"ack"`
	Records       []sealedRecord `json:"records"`
}

func runV1(t *testing.T, text []byte) {
	var v v1Scenario
	if err := strictly(text, &v); err != nil {
		t.Fatal(err)
	}
	settings := NewSettings(v.ChannelID, v.PSK.key(), v.Suite, v.TimestampS+60)
	ofClient, ofServer := *settings, *settings
	ofClient.Features, ofServer.Features = v.ClientFeature, v.ServerFeature
	clientRandoms := &Randoms{Nonce: v.ClientNonce.key(), Ephemeral: v.ClientPrivate.key()}
	serverRandoms := &Randoms{Nonce: v.ServerNonce.key(), Ephemeral: v.ServerPrivate.key()}
	copy(serverRandoms.HandshakeID[:], v.IDRandom)
	client, init, err := NewClient(&ofClient, clientRandoms)
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "init", init, v.Init)
	server := must[*Handshake](t)(NewServer(&ofServer, serverRandoms))
	resp := step(t, server, init, v.TimestampS, false)
	sameJSON(t, "resp", resp, v.Resp)
	ack := step(t, client, resp, v.TimestampS, false)
	sameJSON(t, "ack", ack, v.Ack)
	checkV1Keys(t, &v)
	ping := step(t, server, ack, v.TimestampS, true)
	same(t, "the server's ping", ping, v.Records[0].Message)
	step(t, client, ping, v.TimestampS, true)
	exchange(t, client, server, v.Records, v.Records[0].Sender)
}

// checkV1Keys holds every value between agreement and records against the vector.
func checkV1Keys(t *testing.T, v *v1Scenario) {
	t.Helper()
	clientKey, serverKey := v.ClientPrivate.key(), v.ServerPrivate.key()
	own := must[*ecdhPrivate](t)(v.Suite.curve().private(&clientKey, ""))
	peer := must[*ecdhPrivate](t)(v.Suite.curve().private(&serverKey, ""))
	shared := must[[]byte](t)(agree(own, peer.PublicKey()))
	same(t, "shared", shared, v.Shared)
	th := (&v1Transcript{
		v.Suite, v.ClientFeature, v.ServerFeature, v.ChannelID, v.ClientNonce, v.ServerNonce,
		own.PublicKey().Bytes(), peer.PublicKey().Bytes(),
	}).hash()
	same(t, "transcript", th[:], v.Transcript)
	psk := v.PSK.key()
	same(t, "tag", v1AuthTag(&psk, th[:], v.TimestampS), v.AuthTag)
	client, server, err := v1Directions(&psk, shared, th)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "client's key", client.key[:], v.ClientKey)
	same(t, "server's key", server.key[:], v.ServerKey)
	same(t, "rekey base", client.rekeyBase[:], v.RekeyBase)
	same(t, "client's prefix", client.prefix[:], v.ClientPrefix)
	same(t, "server's prefix", server.prefix[:], v.ServerPrefix)
}

func step(t *testing.T, side *Handshake, message []byte, nowS uint64, ends bool) []byte {
	t.Helper()
	answer, done, err := side.Read(message, nowS)
	if err != nil || done != ends {
		t.Fatalf("done is %v: %v", done, err)
	}
	return answer
}

var kinds = map[string]Kind{"data": Data, "ping": Ping, "pong": Pong, "rekey": Rekey, "close": Close}

// exchange makes and opens every record. The first of confirming went out with the handshake.
func exchange(t *testing.T, client, server *Handshake, records []sealedRecord, confirming string) {
	t.Helper()
	sealers, openers := map[string]*Sealer{}, map[string]*Opener{}
	for name, side := range map[string]*Handshake{"client": client, "server": server} {
		other := map[string]string{"client": "server", "server": "client"}[name]
		sealer, opener, err := side.Records()
		if err != nil {
			t.Fatal(err)
		}
		sealers[name], openers[other] = sealer, opener
	}
	if records[0].Sender != confirming {
		t.Fatal("the first record is not the one that confirms")
	}
	for at, record := range records[1:] {
		plain := append(record.Plaintext, record.Content...)
		said := Content{Kind: kinds[record.Kind]}
		switch said.Kind {
		case Data:
			said.Data = plain
		case Ping, Pong:
			for _, b := range plain {
				said.Number = said.Number<<8 | uint64(b)
			}
		case Close:
			said.Code, said.Reason = uint16(plain[0])<<8|uint16(plain[1]), string(plain[2:])
		}
		made, err := sealers[record.Sender].Seal(nil, &said, 0)
		if err != nil {
			t.Fatalf("record %d: %v", at+1, err)
		}
		same(t, "record "+record.Kind, made, record.Message)
		opened, err := openers[record.Sender].Open(bytes.Clone(record.Message))
		if err != nil {
			t.Fatalf("record %d: %v", at+1, err)
		}
		if opened.Kind != said.Kind || !bytes.Equal(opened.Data, said.Data) || opened.Number != said.Number ||
			opened.Code != said.Code || opened.Reason != said.Reason {
			t.Errorf("record %d opens as %+v, not as %+v", at+1, opened, said)
		}
	}
}

func runV1Transcript(t *testing.T, text []byte) {
	var v struct {
		about
		Suite        Suite    `json:"suite"`
		Client       uint32   `json:"client_features"`
		Server       uint32   `json:"server_features"`
		ChannelID    string   `json:"channel_id"`
		NonceC       hexBytes `json:"client_nonce_hex"`
		NonceS       hexBytes `json:"server_nonce_hex"`
		Transcript   hexBytes `json:"transcript_hex"`
		ClientPublic hexBytes `json:"client_public_hex"`
		ServerPublic hexBytes `json:"server_public_hex"`
	}
	if err := strictly(text, &v); err != nil {
		t.Fatal(err)
	}
	th := (&v1Transcript{v.Suite, v.Client, v.Server, v.ChannelID, v.NonceC, v.NonceS, v.ClientPublic, v.ServerPublic}).hash()
	same(t, "transcript", th[:], v.Transcript)
}

func runV1Record(t *testing.T, text []byte) {
	var v struct {
		about
		Key       hexBytes `json:"key_hex"`
		Prefix    hexBytes `json:"nonce_prefix_hex"`
		Kind      string   `json:"kind"`
		Seq       uint64   `json:"seq"`
		Plaintext hexBytes `json:"plaintext_hex"`
		Message   hexBytes `json:"message_hex"`
	}
	if err := strictly(text, &v); err != nil {
		t.Fatal(err)
	}
	direction := func() *v1Direction {
		return &v1Direction{key: v.Key.key(), prefix: [4]byte(v.Prefix), number: fromClient}
	}
	sealer, opener, err := newV1Records(direction(), direction(), RecordMax)
	if err != nil {
		t.Fatal(err)
	}
	sealer.inner.(*v1Sealer).sequence.used = v.Seq - 1
	opener.inner.(*v1Opener).sequence.used = v.Seq - 1
	made := must[[]byte](t)(sealer.Seal(nil, &Content{Kind: kinds[v.Kind], Data: v.Plaintext}, 0))
	same(t, "record", made, v.Message)
	opened := must[Content](t)(opener.Open(made))
	same(t, "plaintext", opened.Data, v.Plaintext)
}

func TestAVectorWithAnUnreadMemberFails(t *testing.T) {
	var v v1Scenario
	if strictly([]byte(`{"type":"channel-v1","news":1}`), &v) == nil {
		t.Error("it was read")
	}
	if errors.Is(&Error{Code: RecordContent}, &Error{Code: RecordFlags}) {
		t.Error("codes are one another's")
	}
}
