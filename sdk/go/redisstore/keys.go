package redisstore

import (
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	sealway "sealway.dev/go"
	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

const (
	keysMax     = 16
	keyIDMax    = 32
	keyFileMax  = 64 << 10
	rereadPause = time.Second
)

var errKey = errors.New("a stored session does not unwrap by the key-encryption keys that there are")

// keys are key-encryption keys: from lines that were given, or from a file that is read again when an id is unknown.
type keys struct {
	file string
	mu   sync.Mutex
	byID map[string]cipher.AEAD
	read time.Time
}

func newKeys(file, lines string) (*keys, error) {
	k := &keys{file: file}
	if (file == "") == (lines == "") {
		return nil, &sealway.UsageError{Text: "Options.KeyFile and Options.Keys: set exactly one of them"}
	}
	if file == "" {
		var err error
		k.byID, err = parseKeys("the key-encryption keys", lines)
		return k, err
	}
	return k, k.reread()
}

// parseKeys reads lines of "id base64". Its errors name a line, and hold nothing of it.
func parseKeys(name, lines string) (map[string]cipher.AEAD, error) {
	byID := map[string]cipher.AEAD{}
	number := 0
	for line := range strings.Lines(lines) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		id, text, _ := strings.Cut(line, " ")
		key, err := wire.DecodeBase64(strings.TrimSpace(text))
		aead, invalid := crypto.NewAEAD(key)
		clear(key)
		if err != nil || invalid != nil || !validKeyID(id) || byID[id] != nil {
			return nil, &sealway.UsageError{Text: fmt.Sprintf("%s:%d: expected an id that is new and 32 bytes in base64", name, number)}
		}
		byID[id] = aead
	}
	if len(byID) < 1 || len(byID) > keysMax {
		return nil, &sealway.UsageError{Text: name + ": there are 1 to 16 keys"}
	}
	return byID, nil
}

func validKeyID(id string) bool {
	return len(id) >= 1 && len(id) <= keyIDMax && !strings.ContainsFunc(id, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
}

func (k *keys) reread() error {
	file, err := os.Open(k.file)
	if err != nil {
		return fmt.Errorf("sealway: the key-encryption keys: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, keyFileMax+1))
	defer clear(data)
	if err != nil || len(data) > keyFileMax {
		return &sealway.UsageError{Text: k.file + ": it cannot be read, or is too long for key-encryption keys"}
	}
	byID, err := parseKeys(k.file, string(data))
	if err == nil {
		k.byID = byID
	}
	return err
}

// key returns a key; a file is read again for one that is unknown, at most once a second.
func (k *keys) key(id string) cipher.AEAD {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byID[id] == nil && k.file != "" && time.Since(k.read) >= rereadPause {
		// The old keys stay where the file cannot be read.
		k.read = time.Now()
		k.reread()
	}
	return k.byID[id]
}

// unwrap returns the key of a stored session; what the row says counts from then on.
func (k *keys) unwrap(stored *row) (session.Key, error) {
	aead := k.key(stored.kekID)
	if aead == nil {
		return session.Key{}, errKey
	}
	key, err := aead.Open(nil, stored.wrapped[:wire.IVLen], stored.wrapped[wire.IVLen:], stored.aad)
	if err != nil || len(key) != wire.KeyLen {
		return session.Key{}, errKey
	}
	defer clear(key)
	return session.Key(key), nil
}
