package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// codeOf returns the code of an error; none without an error.
func codeOf(err error) wire.Code {
	var refused *wire.Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	if err != nil {
		return "no code"
	}
	return ""
}

func TestAKeySetHas64KiBAtMost(t *testing.T) {
	set := `{"issued_ms":1,"expires_ms":2,"keys":[]}`
	for length, code := range map[int]wire.Code{len(set): "", 65536: "", 65537: wire.CodeBodyTooLarge} {
		if _, err := session.ParseKeySet([]byte(set + strings.Repeat(" ", length-len(set)))); codeOf(err) != code {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}

func TestAKeySetNamesItsRootByAnIDBesideASignature(t *testing.T) {
	id := strings.Repeat("0", 32)
	rooted := func(length int) string {
		return `,"root_key_id":"` + id + `","root_signature":"` + wire.EncodeBase64(make([]byte, length)) + `"`
	}
	for members, code := range map[string]wire.Code{
		"": "", `,"root_key_id":null,"root_signature":null`: "",
		`,"root_key_id":"` + id + `","root_signature":"AA=="`:  "",
		`,"root_key_id":"` + id + `"`:                          wire.CodeFieldInvalid,
		`,"root_signature":"AA=="`:                             wire.CodeFieldInvalid,
		`,"root_key_id":"` + id + `0","root_signature":"AA=="`: wire.CodeFieldInvalid,
		`,"root_key_id":"","root_signature":"AA=="`:            wire.CodeFieldInvalid,
		`,"root_key_id":1,"root_signature":"AA=="`:             wire.CodeFieldInvalid,
		`,"root_key_id":"` + id + `","root_signature":"AB=="`:  wire.CodeFieldInvalid,
		`,"root_key_id":"` + id + `","root_signature":1`:       wire.CodeFieldInvalid,
		rooted(8192): "", rooted(8193): wire.CodeFieldInvalid,
		`,"root_key_id":1`:    wire.CodeFieldInvalid,
		`,"root_signature":1`: wire.CodeFieldInvalid,
	} {
		if _, err := session.ParseKeySet(fmt.Appendf(nil, `{"issued_ms":1,"expires_ms":2,"keys":[]%s}`, members)); codeOf(err) != code {
			t.Errorf("%s: %v", members, err)
		}
	}
}

func TestAKeySetHasAKeyOnce(t *testing.T) {
	key := func(public byte) string {
		id := crypto.KeyID([]byte{public})
		return fmt.Sprintf(`{"key_id":"%s","alg":"x","public_key":"%s","not_before_ms":0,"not_after_ms":1}`, id, wire.EncodeBase64([]byte{public}))
	}
	for keys, code := range map[string]wire.Code{key(1) + "," + key(2): "", key(1) + "," + key(2) + "," + key(1): wire.CodeFieldInvalid} {
		if _, err := session.ParseKeySet([]byte(`{"issued_ms":1,"expires_ms":2,"keys":[` + keys + `]}`)); codeOf(err) != code {
			t.Errorf("%s: %v", keys, err)
		}
	}
}

func TestAClaimIsReleasedByItsOwnReservation(t *testing.T) {
	policy := session.ReplayPolicy{WindowMs: 10}
	one, other := policy.Claim([16]byte{0: 0xab, 15: 1}, true, 100, 100), policy.Claim([16]byte{2}, true, 100, 100)
	guard := session.NewClaimGuard(one, "the value")
	if value, err := guard.Release(session.Reserved(other)); codeOf(err) != wire.CodeReservationMismatch || value != "" {
		t.Errorf("%s, %v", value, err)
	}
	if value, err := guard.Release(session.Reserved(one)); err != nil || value != "the value" {
		t.Errorf("%s, %v", value, err)
	}
	want := "ClaimGuard(ab" + strings.Repeat("0", 28) + "01)"
	for _, verb := range []string{"%s", "%v", "%+v", "%#v", "%x"} {
		if got := fmt.Sprintf(verb, guard); got != want {
			t.Errorf("%s: %s", verb, got)
		}
	}
}

func TestAClaimIsKeptForTwiceItsWindow(t *testing.T) {
	for _, c := range []struct {
		policy                   session.ReplayPolicy
		window, kept, keptWindow uint64
	}{
		{session.ReplayPolicy{}, 300_000, 600_001, 300_000},
		{session.ReplayPolicy{WindowMs: 1}, 1, 3, 1},
		{session.ReplayPolicy{WindowMs: 86_400_001}, 86_400_000, 172_800_001, 86_400_000},
		{session.ReplayPolicy{WindowMs: 10, NonceTTLMs: 19}, 10, 21, 10},
		{session.ReplayPolicy{WindowMs: 10, NonceTTLMs: 100}, 10, 101, 50},
	} {
		claim := c.policy.Claim([16]byte{}, false, 50, 1000)
		if c.policy.Window() != c.window || claim.KeptMs != c.kept || claim.ExpiresMs != 1000+c.kept || claim.WindowMs() != c.keptWindow || claim.StampMs != 50 {
			t.Errorf("%+v: window %d, %+v, kept for a window of %d", c.policy, c.policy.Window(), claim, claim.WindowMs())
		}
		for stamp, code := range map[uint64]wire.Code{0: "", 2 * c.window: "", 2*c.window + 1: wire.CodeTimestampOutsideWindow} {
			if err := c.policy.Check(stamp, c.window); codeOf(err) != code {
				t.Errorf("%+v: %d at %d: %v", c.policy, stamp, c.window, err)
			}
		}
	}
	if window := (session.Claim{}).WindowMs(); window != 86_400_000 {
		t.Errorf("a claim that no policy made is kept for %d", window)
	}
}
