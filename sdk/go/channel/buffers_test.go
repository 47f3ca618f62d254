package channel

import (
	"bytes"
	"context"
	"errors"
	"hash"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"sealway.dev/go/channel/protocol"
)

func TestLaterRecordsDoNotOverwriteAChunkThatIsBeingRead(t *testing.T) {
	for name, between := range map[string]protocol.Content{
		"ping":       {Kind: protocol.Ping, Number: 7},
		"pong":       {Kind: protocol.Pong, Number: 7},
		"rekey":      {Kind: protocol.Rekey},
		"empty data": {Kind: protocol.Data},
		"data":       {Kind: protocol.Data, Data: []byte("between")},
	} {
		t.Run(name, func(t *testing.T) {
			info := directInfo(0x104)
			taken := serve(t, info, nil)
			peer := dialRaw(t, info)
			peer.shake(info)
			server := (<-taken).channel
			t.Cleanup(server.Cut)
			reading := newLink(newSocket(time.Second).take(peer.ws), peer.sealer, peer.opener, true)
			go reading.readAll()
			first, last := bytes.Repeat([]byte{1}, 4096), bytes.Repeat([]byte{2}, 4096)
			for _, content := range []protocol.Content{{Kind: protocol.Data, Data: first}, between, {Kind: protocol.Data, Data: last}} {
				if err := server.gate.send(&content); err != nil {
					t.Fatal(err)
				}
			}
			held := <-reading.chunks
			if len(between.Data) > 0 {
				// One chunk is read while the next one waits: a read of the next releases the first.
				held = <-reading.chunks
				first = between.Data
			}
			for begun := time.Now(); reading.recordsIn.Load() < 3; time.Sleep(time.Millisecond) {
				if time.Since(begun) > 10*time.Second {
					t.Fatal("the last record did not come")
				}
			}
			if !bytes.Equal(held, first) {
				t.Error("the chunk in hand was overwritten by a record behind it")
			}
			if next := <-reading.chunks; !bytes.Equal(next, last) {
				t.Error("the chunk behind it is another")
			}
		})
	}
}

// transferLen is what goes each way in the transfer below: 2 GB in the long form, SEALWAY_FAULTS=full.
func transferLen() int64 {
	if os.Getenv("SEALWAY_FAULTS") == "full" {
		return 2 << 30
	}
	return 16 << 20
}

// pattern is bytes that no two places share, and that are made without keeping them.
type pattern struct{ random *rand.ChaCha8 }

func newPattern(seed byte) *pattern { return &pattern{rand.NewChaCha8([32]byte{seed})} }

func (p *pattern) Read(into []byte) (int, error) { return p.random.Read(into) }

// slowly reads with pauses, so that records wait behind the one that is read.
type slowly struct {
	from  io.Reader
	reads int
}

func (s *slowly) Read(into []byte) (int, error) {
	if s.reads++; s.reads%512 == 0 {
		time.Sleep(time.Millisecond)
	}
	return s.from.Read(into[:min(len(into), 8<<10)])
}

func summed(from io.Reader) (hash.Hash64, int64, error) {
	sum := fnv.New64a()
	count, err := io.Copy(sum, from)
	return sum, count, err
}

func TestALongTransferBothWaysArrivesUnchangedAcrossPingsAndKeyRotations(t *testing.T) {
	for name, suite := range map[string]uint16{"native": 0x104, "v1": 1} {
		t.Run(name, func(t *testing.T) {
			client, server := pair(t, suite, nil, nil)
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			for _, side := range []*Channel{client, server} {
				go disturb(ctx, side)
			}
			opened, err := client.Open(within(t, 10*time.Second), "bulk")
			if err != nil {
				t.Fatal(err)
			}
			accepted, err := server.Accept(within(t, 10*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			length, failed := transferLen(), make(chan error, 4)
			for seed, stream := range []*Stream{opened, accepted} {
				go func() {
					_, err := io.CopyN(stream, newPattern(byte(seed)), length)
					failed <- errors.Join(err, stream.CloseWrite())
				}()
				go func() { failed <- arrives(stream, byte(1-seed), length) }()
			}
			for range 4 {
				if err := <-failed; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// disturb sends what lies between data: pings, of which native peers answer each, and new keys.
func disturb(ctx context.Context, side *Channel) {
	for round := 0; ctx.Err() == nil; round++ {
		_ = side.gate.send(&protocol.Content{Kind: protocol.Ping})
		if round%8 == 0 {
			_ = side.Rekey()
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func arrives(stream *Stream, seed byte, length int64) error {
	got, count, err := summed(&slowly{from: stream})
	if err != nil {
		return err
	}
	sent, _, _ := summed(io.LimitReader(newPattern(seed), length))
	if count != length || got.Sum64() != sent.Sum64() {
		return errors.New("what arrived is not what was sent")
	}
	return nil
}
