package channel

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// idle is a gate whose link sends nothing.
func idle() *gate {
	made := newGate(newLink(newSocket(0), nil, nil, true), false, func() {}, func() {})
	return made
}

func (g *gate) takeAll() []byte {
	whole := bytes.Join(g.arrived, nil)
	g.arrived = nil
	return whole
}

// Frames may be cut anywhere: what passes is what came, but for the streams that are refused.
func TestAFrameSplitAnywherePassesWholeOrNotAtAll(t *testing.T) {
	for round := range uint64(200) {
		random := rand.New(rand.NewPCG(round, 1))
		gate := idle()
		gate.peers = streamsMax - 3
		var sent, want []byte
		opened := 0
		for at := range uint32(12) {
			head := streamFrame(typeData, flagSYN, 1+2*at)
			body := make([]byte, random.IntN(40))
			binary.BigEndian.PutUint32(head[8:], uint32(len(body)))
			for i := range body {
				body[i] = byte(random.Uint32())
			}
			whole := append(head, body...)
			sent = append(sent, whole...)
			if opened < 3 {
				want = append(want, whole...)
				opened++
			}
		}
		var got []byte
		for rest := sent; len(rest) > 0; {
			part := rest[:min(len(rest), 1+random.IntN(30))]
			rest = rest[len(part):]
			if err := gate.admit(bytes.Clone(part)); err != nil {
				t.Fatal(err)
			}
			got = append(got, gate.takeAll()...)
		}
		if !bytes.Equal(got, want) || len(gate.refused) != 9 {
			t.Fatalf("round %d: %d bytes of %d passed, %d streams were refused", round, len(got), len(want), len(gate.refused))
		}
	}
}

func TestAPeerThatOpensTooManyStreamsIsDisconnected(t *testing.T) {
	gate := idle()
	gate.peers = streamsMax
	for at := range uint32(streamsMax + 1) {
		err := gate.admit(streamFrame(typeWindow, flagSYN, 1+2*at))
		if (err != nil) != (at == streamsMax) {
			t.Fatalf("stream %d: %v", at, err)
		}
	}
}

func FuzzNothingThatComesMakesTheGatePanic(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4, 1, 2}, 5)
	f.Fuzz(func(_ *testing.T, bytesOf []byte, cut int) {
		gate := idle()
		cut = min(max(cut, 0), len(bytesOf))
		if gate.admit(bytes.Clone(bytesOf[:cut])) == nil {
			_ = gate.admit(bytes.Clone(bytesOf[cut:]))
		}
	})
}
