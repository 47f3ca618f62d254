package broker

import (
	"fmt"
	"io"
)

// Secret is bytes that are nobody's to see: a plaintext, a derived key, a shared secret. However it is printed, it shows
// nothing.
type Secret []byte

// Format prints no byte.
func (Secret) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, "redacted") }

// MarshalText keeps it out of JSON and logs.
func (Secret) MarshalText() ([]byte, error) { return []byte("redacted"), nil }

// Wipe overwrites it.
func (s Secret) Wipe() { clear(s) }
