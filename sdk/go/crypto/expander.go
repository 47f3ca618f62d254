package crypto

import (
	"crypto/sha256"
	"encoding"
	"fmt"
	"hash"
	"io"
	"sync"
)

// stateLen is the length of a state of SHA-256 as the library writes it.
const stateLen = 108

// Expander is HKDF-Expand of RFC 5869 with SHA-256 under one key, whose blocks are hashed once and not for each message. It is safe
// for concurrent use, but for Wipe.
type Expander struct{ inner, outer [stateLen]byte }

// expanding is what one expansion works with, used again by the next one.
type expanding struct {
	hash  hash.Hash
	block [sha256.Size]byte
	info  [1024]byte
}

var expandings = sync.Pool{New: func() any { return &expanding{hash: sha256.New()} }}

// NewExpander hashes the blocks of a key of 64 bytes at most.
func NewExpander(key []byte) (e Expander) {
	for _, half := range []struct {
		pad  byte
		into *[stateLen]byte
	}{{0x36, &e.inner}, {0x5c, &e.outer}} {
		var block [sha256.BlockSize]byte
		copy(block[:], key)
		for i := range block {
			block[i] ^= half.pad
		}
		state := sha256.New()
		state.Write(block[:])
		clear(block[:])
		// Of a state of the library's own neither fails.
		written, _ := state.(encoding.BinaryAppender).AppendBinary(half.into[:0])
		if len(written) != stateLen {
			panic("the library writes a state of SHA-256 in another form")
		}
		state.Reset()
	}
	return e
}

// Expand fills dst, of at most 255 * 32 bytes; info of more than 1 KiB costs an allocation.
func (e *Expander) Expand(dst, info []byte) {
	work := expandings.Get().(*expanding)
	state := work.hash.(encoding.BinaryUnmarshaler)
	said := append(work.info[:0], info...)
	for counter := byte(1); len(dst) > 0; counter++ {
		state.UnmarshalBinary(e.inner[:])
		if counter > 1 {
			work.hash.Write(work.block[:])
		}
		said = append(said[:len(info)], counter)
		work.hash.Write(said)
		work.hash.Sum(work.block[:0])
		state.UnmarshalBinary(e.outer[:])
		work.hash.Write(work.block[:])
		work.hash.Sum(work.block[:0])
		dst = dst[copy(dst, work.block[:]):]
	}
	clear(work.block[:])
	work.hash.Reset()
	expandings.Put(work)
}

// Wipe overwrites it; what it expands from then on is of no key.
func (e *Expander) Wipe() {
	clear(e.inner[:])
	clear(e.outer[:])
}

// String shows nothing.
func (Expander) String() string { return "Expander(redacted)" }

// Format is String, whatever the verb: no verb shows a key.
func (e Expander) Format(state fmt.State, _ rune) { io.WriteString(state, e.String()) }
