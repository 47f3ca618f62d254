package sealway

import (
	"errors"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

func TestAKeyOfARootCountsOnlyInTheTimeThatTheRootGaveIt(t *testing.T) {
	now := nowMs()
	hour := uint64(time.Hour.Milliseconds())
	for _, c := range []struct {
		name              string
		notBefore, notEnd uint64
		expires           uint64
		serverOffset      int64 // of the server's clock, in milliseconds
		trusted           bool
	}{
		{"in its time", now - hour, now + hour, now + hour, 0, true},
		{"over", now - 2*hour, now - 1, now + hour, 0, false},
		{"not yet", now + hour, now + 2*hour, now + hour, 0, false},
		{"over, and its thief says an earlier time", now - 2*hour, now - 1, now + hour, -int64(hour), false},
		{"over by the server's clock alone", now - hour, now + hour/2, now + 2*hour, int64(hour), false},
		{"begun by the server's clock alone", now + hour/2, now + 3*hour, now + 3*hour, int64(hour), true},
		{"the set is over by the server's clock", now - hour, now + 5*hour, now + hour/2, int64(hour), false},
	} {
		s := newService(t, http.HandlerFunc(echo))
		s.offsetMs.Store(c.serverOffset)
		root := newIdentity(t)
		set := timedSet(t, root, now-hour, c.expires, timedKey{s.identity, c.notBefore, c.notEnd})
		s.Config.Handler = serveKeySet(s.Config.Handler, &set)
		trust := TrustRoot(wire.EncodeBase64(root.PublicKey()), NewFileTrustStore(filepath.Join(t.TempDir(), "roots")))
		_, _, err := do(t, s.transport(t, func(c *Config) { c.Trust = trust }), "GET", s.URL+"/", "")
		if c.trusted && err != nil || !c.trusted && (!errors.Is(err, wire.CodeKeyUntrusted) || !errorsAsTrust(err)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestAKeyThatWasTakenLongAgoIsLookedAtAgainAtEachInit(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	root, now := newIdentity(t), nowMs()
	hour := uint64(time.Hour.Milliseconds())
	asked := 0
	set := timedSet(t, root, now-hour, now+20*hour, timedKey{s.identity, now - hour, now + hour})
	handler := serveKeySet(s.Config.Handler, &set)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == KeySetPath {
			asked++
		}
		handler.ServeHTTP(w, r)
	})
	transport := s.transport(t, func(c *Config) { c.Trust = TrustRoot(wire.EncodeBase64(root.PublicKey()), nil) })
	again := func() error {
		transport.native.forget()
		_, err := transport.Session(t.Context())
		return err
	}
	for range 2 {
		if err := again(); err != nil || asked != 1 {
			t.Fatal(err, asked)
		}
	}
	// The key is over by now; the set is asked for once more, and has it no longer.
	s.offsetMs.Store(int64(2 * hour))
	if err := again(); !errors.Is(err, wire.CodeKeyUntrusted) || asked != 2 {
		t.Fatal(err, asked)
	}
	set = timedSet(t, root, now, now+20*hour, timedKey{s.identity, now - hour, now + 10*hour})
	if err := again(); err != nil || asked != 3 {
		t.Fatal(err, asked)
	}
}

// timedKey is a key of a set, and when it signs.
type timedKey struct {
	key                 crypto.Signer
	notBeforeMs, endsMs uint64
}
