// Channel-peer is this SDK's end of channels for the tests of other languages. Each line of standard input is a JSON object that
// names a channel; standard output has a line for each that was played, and another when it is over. The two ends do the same:
// see play.go. It is for tests alone: a line holds a grant, and with it the channel's secret.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"sealway.dev/go/channel"
	"sealway.dev/go/channel/relay"
	"sealway.dev/go/channel/rpc"
)

const (
	lineMax  = 1 << 20
	playTime = 20 * time.Second
)

// command is a line of standard input.
type command struct {
	ID    string          `json:"id"`
	Grant json.RawMessage `json:"grant"`
	// Identity is this end's static private key, for grants that pin keys.
	Identity string `json:"identity"`
	// HandshakeMS bounds the wait for the peer, and then the handshake.
	HandshakeMS int `json:"handshake_ms"`
	// Closes says that this end closes the channel when both have played, with the code 7 and the reason "enough".
	Closes bool `json:"closes"`
}

// event is a line of standard output: of an attempt that failed, of an end that has played, or of a channel that is over.
type event struct {
	ID     string `json:"id"`
	Is     string `json:"is"`
	Stage  string `json:"stage,omitempty"`
	Code   string `json:"code,omitempty"`
	Text   string `json:"text,omitempty"`
	Close  uint16 `json:"close,omitempty"`
	Reason string `json:"reason,omitempty"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, lineMax)
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	say := func(line event) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(line)
	}
	var all sync.WaitGroup
	for lines.Scan() {
		var asks command
		if err := json.Unmarshal(lines.Bytes(), &asks); err != nil {
			fmt.Fprintln(os.Stderr, "channel-peer: a line is no object of its form")
			os.Exit(2)
		}
		all.Go(func() { serve(&asks, say) })
	}
	all.Wait()
}

func serve(asks *command, say func(event)) {
	ctx, stop := context.WithTimeout(context.Background(), playTime)
	defer stop()
	on, err := attach(ctx, asks)
	if err != nil {
		say(failed(asks.ID, "refused", err))
		return
	}
	defer func() { _ = on.Close() }()
	if err := play(ctx, on); err != nil {
		say(failed(asks.ID, "failed", err))
		return
	}
	say(event{ID: asks.ID, Is: "played"})
	if asks.Closes {
		_ = on.CloseWith(closeCode, closeReason)
	}
	select {
	case <-on.Done():
		line := failed(asks.ID, "over", on.Err())
		line.Close, line.Reason, _ = on.PeerClose()
		say(line)
	case <-ctx.Done():
		say(event{ID: asks.ID, Is: "failed", Text: "nobody closed it"})
	}
}

func attach(ctx context.Context, asks *command) (*channel.Channel, error) {
	options := &channel.Options{}
	if asks.HandshakeMS > 0 {
		wait := time.Duration(asks.HandshakeMS) * time.Millisecond
		options.HandshakeTimeout, options.PeerTimeout = wait, wait
	}
	if asks.Identity != "" {
		own, err := channel.ParseIdentity(asks.Identity)
		if err != nil {
			return nil, err
		}
		options.Identity = own
	}
	grant, err := relay.ParseGrant(asks.Grant)
	if err != nil {
		return nil, err
	}
	me, err := channel.NewInstance()
	if err != nil {
		return nil, err
	}
	return channel.Attach(ctx, grant, me, options)
}

func failed(id, is string, err error) event {
	line := event{ID: id, Is: is, Text: fmt.Sprint(err)}
	var ofChannel *channel.Error
	var ofCall *rpc.Error
	if errors.As(err, &ofChannel) {
		line.Stage, line.Code = string(ofChannel.Stage), ofChannel.Code
	} else if errors.As(err, &ofCall) {
		line.Stage, line.Code = string(channel.StageRPC), ofCall.Code
	}
	return line
}
