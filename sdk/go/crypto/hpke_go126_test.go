//go:build go1.26

package crypto

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/mlkem"
	"crypto/mlkem/mlkemtest"
	"crypto/rand"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheHPKEOfTheStandardLibraryExportsTheSameSecrets(t *testing.T) {
	for kem, theirs := range map[KEM]hpke.KEM{KEMXWing: hpke.MLKEM768X25519(), KEMMLKEM768P256: hpke.MLKEM768P256(),
		KEMX25519: hpke.DHKEM(ecdh.X25519()), KEMP256: hpke.DHKEM(ecdh.P256())} {
		private, err := theirs.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		ephemeral, err := DrawEphemeral(kem, rand.Reader, EncapsulationKey.Encapsulate)
		if err != nil {
			t.Fatal(err)
		}
		enc, sender, err := SetupSender(kem, private.PublicKey().Bytes(), []byte("info"), nil, nil, ephemeral)
		if err != nil {
			t.Fatal(kem, err)
		}
		recipient, err := hpke.NewRecipient(enc, private, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("info"))
		if err != nil {
			t.Fatal(kem, err)
		}
		want, err := recipient.Export("sealway/4 c2s", 32)
		if err != nil || !bytes.Equal(sender.Export("sealway/4 c2s", 32), want) {
			t.Errorf("%v: another secret, %v", kem, err)
		}
	}
}

// The vectors of draft-ietf-hpke-pq with HKDF-SHA256, in the sources of the toolchain.
func TestTheHybridsMatchTheVectorsOfTheirDraft(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "src/crypto/hpke/testdata/hpke-pq.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Mode   int
		KEM    KEM    `json:"kem_id"`
		KDF    int    `json:"kdf_id"`
		AEAD   uint16 `json:"aead_id"`
		Info   string `json:"info"`
		IkmE   string `json:"ikmE"`
		Public string `json:"pkRm"`
		Enc    string `json:"enc"`
		Secret string `json:"exporter_secret"`
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	played := 0
	for _, v := range vectors {
		if v.Mode != 0 || v.KDF != 1 || v.KEM.PublicLen() == 0 {
			continue
		}
		played++
		random := unhex(t, v.IkmE)
		group, err := DrawEphemeral(v.KEM, bytes.NewReader(random[32:64]), func(key EncapsulationKey) (secret, ciphertext []byte) {
			secret, ciphertext, err := mlkemtest.Encapsulate768(key.(*mlkem.EncapsulationKey768), random[:32])
			if err != nil {
				t.Fatal(err)
			}
			return secret, ciphertext
		})
		if err != nil {
			t.Fatal(err)
		}
		enc, sender, err := setupSender(v.KEM, v.AEAD, unhex(t, v.Public), unhex(t, v.Info), nil, nil, group)
		if err != nil || !bytes.Equal(enc, unhex(t, v.Enc)) || !bytes.Equal(sender.secret, unhex(t, v.Secret)) {
			t.Errorf("%v: %v, or another enc or exporter_secret", v.KEM, err)
		}
	}
	if played != 2 {
		t.Fatalf("%d of %d vectors played, not 2", played, len(vectors))
	}
}
