package sealway

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

const trustFileMax = 4 << 20

// TrustStore keeps what a client learned about the identities of services: one line for each name.
type TrustStore interface {
	// Line returns the line of name, empty if there is none.
	Line(name string) (string, error)
	// Update replaces the line of name by the result of change, in one step for all users of the store. An error of change
	// leaves the line as it is.
	Update(name string, change func(line string) (string, error)) error
}

// FileTrustStore is a [TrustStore] in a file, which processes and the command line's client may share.
type FileTrustStore struct {
	path string
	mu   sync.Mutex
}

// NewFileTrustStore returns the store in the file at path. The first update creates the file.
func NewFileTrustStore(path string) *FileTrustStore { return &FileTrustStore{path: path} }

// String returns the path.
func (f *FileTrustStore) String() string { return f.path }

func (f *FileTrustStore) whole() (string, error) {
	file, err := os.Open(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the trust store: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Mode().Perm()&0o022 != 0 {
		return "", &UsageError{f.path + " is writable for others: remove that right"}
	}
	data, err := io.ReadAll(io.LimitReader(file, trustFileMax+1))
	if err != nil || len(data) > trustFileMax {
		return "", &UsageError{f.path + " cannot be read, or is longer than 4 MiB"}
	}
	return string(data), nil
}

// Line returns the line of name, empty without a line or a file.
func (f *FileTrustStore) Line(name string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := f.whole()
	for line := range strings.SplitSeq(text, "\n") {
		if rest, found := strings.CutPrefix(line, name+" "); found {
			return strings.TrimSpace(rest), err
		}
	}
	return "", err
}

// Update writes a new file and renames it to the old name.
func (f *FileTrustStore) Update(name string, change func(line string) (string, error)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return fmt.Errorf("cannot write the trust store: %w", err)
	}
	unlock, err := lockBeside(f.path)
	if err != nil {
		return fmt.Errorf("cannot write the trust store: %w", err)
	}
	defer unlock()
	text, err := f.whole()
	if err != nil {
		return err
	}
	old := ""
	var kept []string
	for line := range strings.SplitSeq(text, "\n") {
		if rest, found := strings.CutPrefix(line, name+" "); found {
			old = strings.TrimSpace(rest)
		} else if line != "" {
			kept = append(kept, line)
		}
	}
	made, err := change(old)
	if err != nil || made == old {
		return err
	}
	text = strings.Join(append(kept, name+" "+made), "\n") + "\n"
	temporary := f.path + ".new"
	if err := os.WriteFile(temporary, []byte(text), 0o600); err != nil {
		return fmt.Errorf("cannot write the trust store: %w", err)
	}
	if err := os.Rename(temporary, f.path); err != nil {
		return fmt.Errorf("cannot write the trust store: %w", err)
	}
	return nil
}
