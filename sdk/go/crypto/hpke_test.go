package crypto

import (
	"bytes"
	"crypto/ecdh"
	"crypto/mlkem"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sealway.dev/go/wire"
)

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Values of RFC 9180, appendix A.1.2.
func TestTheScheduleOfModePSKIsThatOfRFC9180(t *testing.T) {
	key, err := ecdh.X25519().NewPrivateKey(unhex(t, "463426a9ffb42bb17dbe6044b9abd1d4e4d95f9041cef0e99d7824eef2b6f588"))
	if err != nil {
		t.Fatal(err)
	}
	public := unhex(t, "9fed7e8c17387560e92cc6462a68049657246a09bfa8ade7aefe589672016366")
	enc, exporter, err := setupSender(KEMX25519, 1, public, []byte("Ode on a Grecian Urn"),
		unhex(t, "0247fd33b913760fa1fa51e1892d9f307fbe65eb171e8132c2af18555a738b82"), []byte("Ennyn Durin aran Moria"), Ephemeral{Keys: Keys{X25519: key}})
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(enc); got != "0ad0950d9fb9588e59690b74f1237ecdf1d775cd60be2eca57af5a4b0471c91b" {
		t.Error("enc ", got)
	}
	if got := hex.EncodeToString(exporter.secret); got != "3d76025dbbedc49448ec3f9080a1abab6b06e91c0b11ad23c912f043a0ee7655" {
		t.Error("exporter_secret ", got)
	}
}

func TestASenderRejectsAnInvalidPublicKeyAndHalfOfAPSK(t *testing.T) {
	ephemeral := func(kem KEM) Ephemeral {
		made, err := DrawEphemeral(kem, rand.Reader, EncapsulationKey.Encapsulate)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	point, _ := ecdh.P256().GenerateKey(rand.Reader)
	x25519, _ := ecdh.X25519().GenerateKey(rand.Reader)
	kem, _ := mlkem.GenerateKey768()
	ek, p256, x := kem.EncapsulationKey().Bytes(), point.PublicKey().Bytes(), x25519.PublicKey().Bytes()
	valid := map[KEM][]byte{KEMX25519: x, KEMP256: p256, KEMXWing: append(bytes.Clone(ek), x...), KEMMLKEM768P256: append(bytes.Clone(ek), p256...)}
	outOfRange := bytes.Repeat([]byte{0xff}, len(ek))
	offCurve := bytes.Clone(p256)
	offCurve[64] ^= 1
	invalid := map[KEM][][]byte{
		KEMX25519:       {make([]byte, 32), append([]byte{1}, make([]byte, 31)...)},
		KEMP256:         {offCurve, append([]byte{2 + p256[64]&1}, p256[1:33]...), make([]byte, 65), {0}},
		KEMXWing:        {append(bytes.Clone(ek), make([]byte, 32)...), append(bytes.Clone(outOfRange), x...)},
		KEMMLKEM768P256: {append(bytes.Clone(ek), offCurve...), append(bytes.Clone(outOfRange), p256...)},
	}
	for _, kem := range KEMs() {
		public := valid[kem]
		if len(public) != kem.PublicLen() {
			t.Fatalf("%v: %d", kem, kem.PublicLen())
		}
		enc, exporter, err := SetupSender(kem, public, nil, nil, nil, ephemeral(kem))
		if err != nil || len(enc) != kem.EncLen() || strings.Contains(fmt.Sprintf("%+v %d", exporter, exporter), fmt.Sprint(exporter.secret[0], exporter.secret[1])) {
			t.Fatalf("%v: %v, %d bytes", kem, err, len(enc))
		}
		for n, public := range append(invalid[kem], public[1:], append(bytes.Clone(public), 0), nil) {
			if _, _, err := SetupSender(kem, public, nil, nil, nil, ephemeral(kem)); !errors.Is(err, wire.CodePublicKeyInvalid) {
				t.Errorf("%v, %d: %v", kem, n, err)
			}
		}
		for _, psk := range [][2][]byte{{make([]byte, 31), []byte("a")}, {make([]byte, 32), nil}, {nil, []byte("a")}} {
			if _, _, err := SetupSender(kem, public, nil, psk[0], psk[1], ephemeral(kem)); !errors.Is(err, wire.CodeProvider) {
				t.Errorf("%v, a psk of %d with an id of %d bytes: %v", kem, len(psk[0]), len(psk[1]), err)
			}
		}
	}
	if unknown := KEM(0x21); unknown.PublicLen() != 0 || unknown.EncLen() != 0 || unknown.String() != "KEM 0x0021" {
		t.Error(unknown)
	}
}
