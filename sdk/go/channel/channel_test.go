package channel

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"
)

func TestAnOrderlyCloseReachesThePeerAuthenticated(t *testing.T) {
	client, server := pair(t, 0x104, nil, nil)
	stream, err := client.Open(within(t, 5*time.Second), "talk")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.CloseWith(7, "enough"); err != nil {
		t.Fatal(err)
	}
	<-server.Done()
	if code, reason, said := server.PeerClose(); code != 7 || reason != "enough" || !said {
		t.Errorf("%d %q %v", code, reason, said)
	}
	for _, side := range []*Channel{client, server} {
		if !errors.Is(side.Err(), &Error{Code: "ended"}) {
			t.Error(side.Err())
		}
		if _, err := side.Open(within(t, time.Second), "talk"); !errors.Is(err, &Error{Code: "ended"}) {
			t.Error(err)
		}
	}
	if _, err := stream.Read(make([]byte, 1)); !errors.Is(err, &Error{Code: "ended"}) {
		t.Errorf("a stream ends with its channel, and not in order: %v", err)
	}
	if client.CloseWith(0, string(make([]byte, 124))) == nil {
		t.Error("a reason without end was taken")
	}
}

func TestKeysRotateAutomaticallyAndOnDemand(t *testing.T) {
	for _, suite := range []uint16{1, 0x105} {
		client, server := pair(t, suite, &Options{RekeyAfterRecords: 3}, &Options{RekeyAfterRecords: 2})
		echo(t, server)
		stream, err := client.Open(within(t, 5*time.Second), "echo")
		if err != nil {
			t.Fatal(err)
		}
		for round := range 40 {
			text := fmt.Appendf(nil, "round %d", round)
			if _, err := stream.Write(text); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(text))
			if _, err := io.ReadFull(stream, got); err != nil || !bytes.Equal(got, text) {
				t.Fatalf("suite %#x: %q: %v", suite, got, err)
			}
			if round%10 == 0 {
				if err := client.Rekey(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if in, out := client.Records(); in < 40 || out < 40 {
			t.Errorf("%d in, %d out", in, out)
		}
	}
}

func TestAPingMeasuresTheRoundTripTime(t *testing.T) {
	for _, suite := range []uint16{1, 0x104} {
		client, _ := pair(t, suite, nil, nil)
		if took, err := client.Ping(within(t, 5*time.Second)); err != nil || took <= 0 || client.RTT() != took {
			t.Errorf("suite %#x: %v: %v", suite, took, err)
		}
	}
}

func TestRecordsArePaddedToAMultiple(t *testing.T) {
	client, server := pair(t, 0x104, &Options{PadTo: 4096}, nil)
	echo(t, server)
	stream, err := client.Open(within(t, 5*time.Second), "echo")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = stream.Write([]byte("a"))
	if _, err := io.ReadFull(stream, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	client.gate.sendMu.Lock()
	defer client.gate.sendMu.Unlock()
	if length := len(client.gate.sealed); length != 18+4096+16 {
		t.Errorf("a record of %d bytes", length)
	}
}

func TestAStreamBeyondTheBoundWaitsUntilAnotherEnds(t *testing.T) {
	client, _ := pair(t, 1, nil, nil)
	var held []*Stream
	for range v1StreamsMax {
		stream, err := client.Open(within(t, 5*time.Second), "held")
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, stream)
	}
	ctx, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	if _, err := client.Open(ctx, "held"); !errors.Is(err, &Error{Code: "timeout"}) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	held[0].Reset()
	if _, err := client.Open(within(t, 5*time.Second), "held"); err != nil {
		t.Error(err)
	}
}

func TestEachDirectionOfAStreamEndsAloneAndADeadlineEndsAWait(t *testing.T) {
	client, server := pair(t, 0x104, nil, nil)
	stream, err := client.Open(within(t, 5*time.Second), "talk")
	if err != nil {
		t.Fatal(err)
	}
	other, err := server.Accept(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
	_ = stream.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if _, err := stream.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	_ = stream.SetReadDeadline(time.Time{})
	if _, err := stream.Write([]byte("x")); err == nil {
		t.Error("a direction that is finished took more")
	}
	sent := make([]byte, 3<<20)
	_, _ = rand.Read(sent)
	go func() {
		_, _ = other.Write(sent)
		_ = other.Close()
	}()
	if got, err := io.ReadAll(stream); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes: %v", len(got), err)
	}
}

func TestNothingPrintedOfAChannelsPartsShowsAKey(t *testing.T) {
	identity, err := NewIdentity(X25519)
	if err != nil {
		t.Fatal(err)
	}
	shown := fmt.Sprintf("%v %+v %#v %s %x", identity, identity, identity, identity, identity)
	if bytes.Contains([]byte(shown), identity.private[:]) || bytes.Contains([]byte(shown), fmt.Appendf(nil, "%x", identity.private[:4])) {
		t.Error(shown)
	}
	again, err := ParseIdentity(identity.Encode() + "\n")
	if err != nil || again.private != identity.private {
		t.Error(err)
	}
}

func TestIsPassingSeparatesTransientFromPermanentFailures(t *testing.T) {
	if err := ofClose(StageAttach, 1008, "token replay"); err.Code != "token_replay" || !err.IsPassing() {
		t.Error(err)
	}
	if ofClose(StageAttach, 1008, "invalid attach").IsPassing() {
		t.Error("it does not pass by itself")
	}
	if err := ofClose(StageAttach, 1008, "\x1b[2J\n"); bytes.ContainsAny([]byte(err.Error()), "\x1b\n") {
		t.Errorf("%q", err)
	}
	if bound := (Backoff{}.filled()).bound(4000); bound != 30*time.Second {
		t.Error(bound)
	}
}
