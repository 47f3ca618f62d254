package channel

import (
	"errors"
	"io"
	"testing"
	"time"
)

// A stream whose channel is lost must read and write as broken, never as finished.
func TestAStreamOfALostChannelFailsWithTheReasonInBothDirections(t *testing.T) {
	for name, suite := range map[string]uint16{"native": 0x104, "v1": 1} {
		t.Run(name, func(t *testing.T) {
			client, server := pair(t, suite, nil, nil)
			opened, err := client.Open(within(t, 10*time.Second), "lost")
			if err != nil {
				t.Fatal(err)
			}
			accepted, err := server.Accept(within(t, 10*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := opened.Write([]byte("the first half")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(accepted, make([]byte, len("the first half"))); err != nil {
				t.Fatal(err)
			}
			client.Cut()
			got, err := io.ReadAll(accepted)
			if !errors.Is(err, server.Err()) || err == nil {
				t.Errorf("the receiver reads %q and %v, not %v", got, err, server.Err())
			}
			<-client.Done()
			for what, err := range map[string]error{
				"write": func() error { _, err := opened.Write([]byte("the second half")); return err }(),
				"end":   opened.CloseWrite(),
			} {
				var told *Error
				if !errors.As(err, &told) || told.Stage != StageRecord || told.Code != "closed" {
					t.Errorf("%s of the sender: %v, not why the channel is over: %v", what, err, client.Err())
				}
			}
		})
	}
}

func TestAStreamThatThisSideResetHasNoOrderlyEnd(t *testing.T) {
	client, server := pair(t, 0x104, nil, nil)
	opened, err := client.Open(within(t, 10*time.Second), "reset")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Accept(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	opened.Reset()
	client.Cut()
	<-client.Done()
	for what, err := range map[string]error{
		"read": func() error { _, err := io.ReadAll(opened); return err }(),
		"end":  opened.CloseWrite(),
	} {
		if !errors.Is(err, &Error{Stage: StageStream, Code: "broken_off"}) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
