package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

type outcome struct {
	seen map[string]any
	err  error
}

// Two endpoints with each other: what the client and what the server saw.
func pair(t *testing.T, suite uint16, client, server options) (c, s outcome) {
	t.Helper()
	psk, end := random(32), time.Now().Unix()+120
	client.part, server.part = 256<<10, 256<<10
	know := func(o *options) *settings {
		return &settings{channelID: "pair", psk: psk, suite: suite, initExp: end, early: o.early, fault: o.fault, now: time.Now}
	}
	done := make(chan outcome, 1)
	listener, err := listen("127.0.0.1:0", func(w *wire) {
		seen, err := server.over(know(&server), w, false)
		done <- outcome{seen, err}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	w, err := dial(fmt.Sprintf("ws://%s/", listener.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	c.seen, c.err = client.over(know(&client), w, true)
	return c, <-done
}

func TestAPairDoesEveryJob(t *testing.T) {
	for _, suite := range []uint16{suiteX25519, suiteP256} {
		for _, client := range []options{
			{job: "rpc", calls: 20},
			// Together less than an endpoint of v1 keeps unread: where windows of more streams are full, it ends by that.
			{job: "echo", bytes: 100_000, streams: 32},
			{job: "bulk", bytes: 5 << 20, rekeyEvery: 7},
			{job: "rekey", calls: 3},
			{job: "idle", pause: 50 * time.Millisecond, ping: 10 * time.Millisecond},
		} {
			c, s := pair(t, suite, client, options{job: "serve", rekeyEvery: 5})
			if c.err != nil || s.err != nil {
				t.Errorf("suite %d, %s: client %v %v, server %v %v", suite, client.job, c.seen, c.err, s.seen, s.err)
			}
			if c.seen["pings"] != int64(0) || s.seen["rekeys_out"] == int64(0) {
				t.Errorf("suite %d, %s: %v and %v", suite, client.job, c.seen, s.seen)
			}
		}
	}
}

func TestARPCClientHearsNoticesAndThatTypesAreUnknown(t *testing.T) {
	c, s := pair(t, suiteX25519, options{job: "rpc", calls: 2}, options{job: "serve"})
	if c.seen["notices"] != 2 || c.seen["unknown_code"] != uint32(404) || c.seen["unknown_message"] != "handler not found" {
		t.Errorf("%v, %v", c.seen, c.err)
	}
	// Four records a message: two writes, each a header and a body. The ping of the start is counted by the client alone.
	if s.seen["records_out"].(int64) < 2*2*4 {
		t.Errorf("%v", s.seen)
	}
}

func TestEarlyAndLateEndpoints(t *testing.T) {
	for _, early := range [][2]bool{{true, true}, {true, false}} {
		c, s := pair(t, suiteX25519, options{job: "rpc", calls: 1, early: early[0]}, options{job: "serve", early: early[1]})
		if c.err != nil || s.err != nil {
			t.Errorf("client early %v, server early %v: %v, %v", early[0], early[1], c.err, s.err)
		}
	}
}

func TestWhatIsWrongIsCutOff(t *testing.T) {
	faults := "text record-tag record-order record-twice record-oversize record-flags record-long record-short record-magic record-empty rekey-old-key"
	for _, fault := range strings.Fields(faults) {
		c, _ := pair(t, suiteX25519, options{job: "fault", fault: fault}, options{job: "serve"})
		if c.err != nil || c.seen["cut_off"] != true {
			t.Errorf("client %s: %v %v", fault, c.seen, c.err)
		}
		_, s := pair(t, suiteX25519, options{job: "serve"}, options{job: "fault", fault: fault})
		if s.err != nil || s.seen["cut_off"] != true {
			t.Errorf("server %s: %v %v", fault, s.seen, s.err)
		}
	}
	faults = "init-channel init-role init-version init-suite key-zero nonce-short padded ack-tag ack-tag-short ack-id ack-stamp ack-key init-other"
	for _, fault := range strings.Fields(faults) {
		c, s := pair(t, suiteX25519, options{job: "rpc", fault: fault}, options{job: "serve"})
		if c.err == nil || s.err == nil || !strings.HasPrefix(s.err.Error(), "handshake") {
			t.Errorf("%s: %v, %v", fault, c.err, s.err)
		}
	}
	for _, fault := range []string{"init-again", "init-suite-zero"} {
		if c, s := pair(t, suiteX25519, options{job: "rpc", fault: fault}, options{job: "serve"}); c.err != nil || s.err != nil {
			t.Errorf("%s: %v, %v", fault, c.err, s.err)
		}
	}
	for _, fault := range []string{"handshake-id-empty", "key-zero", "nonce-short", "padded"} {
		if c, s := pair(t, suiteX25519, options{job: "rpc"}, options{job: "serve", fault: fault}); c.err == nil || s.err == nil {
			t.Errorf("%s: %v, %v", fault, c.err, s.err)
		}
	}
}

// What ours must not fall into: a stream that is not acknowledged ends the session.
func TestAStreamThatNobodyAcknowledgesEndsTheSession(t *testing.T) {
	client := options{job: "mute", pause: 400 * time.Millisecond, openTimeout: 100 * time.Millisecond}
	if c, _ := pair(t, suiteX25519, client, options{job: "deaf"}); c.err == nil {
		t.Error("it went on")
	}
}

func TestATokenIsThatOfTheVector(t *testing.T) {
	var file struct {
		Cases []struct {
			Inputs struct {
				Seed    string `json:"ed25519_seed_hex"`
				Payload claims `json:"payload"`
			} `json:"inputs"`
			Expected struct {
				Token string `json:"token"`
			} `json:"expected"`
		} `json:"cases"`
	}
	load(t, "flowersec_v1_vectors_token.json", &file)
	for _, one := range file.Cases {
		got, err := one.Inputs.Payload.sign(keyOfSeed(t, one.Inputs.Seed))
		if err != nil || got != one.Expected.Token {
			t.Errorf("%s: %v", got, err)
		}
	}
	if len(file.Cases) == 0 {
		t.Error("no case")
	}
}
