package sealway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// Two keyrings of one file stand for two processes: each has read the file before the other writes.

const sharedOrigin = "https://a.example:443"

// meets has a keyring take a key set of these keys, and remember an answer that the first of them signed.
func meets(t *testing.T, ring *keyring, keys ...crypto.Signer) error {
	t.Helper()
	answer := &session.InitAnswer{KeyID: crypto.KeyID(keys[0].PublicKey())}
	for _, key := range keys {
		answer.KeyIDs = append(answer.KeyIDs, crypto.KeyID(key.PublicKey()))
	}
	if err := ring.take(signedSet(t, newIdentity(t), 1, 2, keys...), 1); err != nil {
		t.Fatal(err)
	}
	return ring.remember(answer)
}

func keptKeys(t *testing.T, file string) map[string][]byte {
	t.Helper()
	line := must(NewFileTrustStore(file).Line(sharedOrigin))
	keys, _, err := parseTrustLine(line)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return keys
}

func TestWhatAnotherProcessMetFirstIsNotOverwritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "known")
	one, other := must(newKeyring(TrustFirstUse(NewFileTrustStore(file)), nil, sharedOrigin)), must(newKeyring(TrustFirstUse(NewFileTrustStore(file)), nil, sharedOrigin))
	genuine, next, further, impostor := newIdentity(t), newIdentity(t), newIdentity(t), newIdentity(t)
	if err := meets(t, one, genuine, next); err != nil {
		t.Fatal(err)
	}
	var trust *TrustError
	if err := meets(t, other, impostor); !errors.Is(err, wire.CodeKeyUntrusted) || !errors.As(err, &trust) || !strings.Contains(err.Error(), "another service or an impostor") {
		t.Fatal(err)
	}
	if kept := keptKeys(t, file); len(kept) != 2 || kept[crypto.KeyID(genuine.PublicKey())] == nil {
		t.Fatal("what was met is gone: ", kept)
	}
	// The genuine service counts, and no key goes that the other process knows.
	if err := meets(t, other, genuine, further); err != nil {
		t.Fatal(err)
	}
	if err := meets(t, one, genuine, newIdentity(t)); err != nil {
		t.Fatal(err)
	}
	if kept := keptKeys(t, file); len(kept) != 4 || kept[crypto.KeyID(next.PublicKey())] == nil || kept[crypto.KeyID(further.PublicKey())] == nil {
		t.Fatal("a key is gone: ", kept)
	}
	// Another pin in place of all that this process knows is not undone by it.
	replaced := sharedOrigin + " " + crypto.KeyID(impostor.PublicKey()) + ":" + wire.EncodeBase64(impostor.PublicKey()) + "\n"
	if err := os.WriteFile(file, []byte(replaced), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := meets(t, one, genuine, newIdentity(t)); !errors.Is(err, wire.CodeKeyUntrusted) {
		t.Fatal(err)
	}
	if kept := keptKeys(t, file); len(kept) != 1 {
		t.Fatal(kept)
	}
}

// offCurve has a public key that is no point.
type offCurve struct{ crypto.Signer }

func (o offCurve) PublicKey() []byte {
	public := slices.Clone(o.Signer.PublicKey())
	public[64] ^= 1
	return public
}

func TestAKeyOffTheCurveIsNotKept(t *testing.T) {
	file, genuine := filepath.Join(t.TempDir(), "known"), newIdentity(t)
	ring := must(newKeyring(TrustFirstUse(NewFileTrustStore(file)), nil, sharedOrigin))
	if err := meets(t, ring, genuine, offCurve{newIdentity(t)}); err != nil {
		t.Fatal(err)
	}
	if kept := keptKeys(t, file); len(kept) != 1 || kept[crypto.KeyID(genuine.PublicKey())] == nil {
		t.Fatal(kept)
	}
}

func TestTheTimeOfARootsSetNeverGoesBackForAnyProcess(t *testing.T) {
	file, root, key, far := filepath.Join(t.TempDir(), "roots"), newIdentity(t), newIdentity(t), uint64(1)<<49
	trust := TrustRoot(wire.EncodeBase64(root.PublicKey()), NewFileTrustStore(file))
	one, other := must(newKeyring(trust, nil, sharedOrigin)), must(newKeyring(trust, nil, sharedOrigin))
	take := func(ring *keyring, issuedMs uint64) error {
		return ring.take(signedSet(t, root, issuedMs, far, key), 1)
	}
	for _, step := range []struct {
		ring     *keyring
		issuedMs uint64
		taken    bool
	}{{one, 200, true}, {other, 100, false}, {other, 300, true}, {one, 200, false}, {one, 250, false}, {one, 300, true}, {other, 300, true}} {
		err := take(step.ring, step.issuedMs)
		if step.taken && err != nil || !step.taken && (!errors.Is(err, wire.CodeKeyUntrusted) || !errorsAsTrust(err)) {
			t.Fatal(step.issuedMs, err)
		}
	}
	if line := must(NewFileTrustStore(file).Line(one.stateName())); line != "300" {
		t.Fatal(line)
	}
	if err := os.WriteFile(file, []byte(one.stateName()+" rubbish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := take(one, 400); err == nil || !strings.Contains(err.Error(), file) {
		t.Fatal(err)
	}
}

func TestUpdatesOfOneFileByManyLoseNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "known")
	var all sync.WaitGroup
	for writer := range 8 {
		all.Go(func() {
			own := NewFileTrustStore(file)
			for n := range 20 {
				if err := own.Update(fmt.Sprintf("%d/%d", writer, n), func(string) (string, error) { return "x", nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if text, err := os.ReadFile(file); err != nil || strings.Count(string(text), "\n") != 160 {
		t.Fatal(strings.Count(string(text), "\n"), err)
	}
}
