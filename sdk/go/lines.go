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

const stateFileMax = 4 << 20

// stateFile is a file of what a client has to remember: a line for each service, its name first. The format is that of the
// command line's client, so that both can share one.
type stateFile struct {
	path string
	mu   sync.Mutex
}

func (f *stateFile) whole() (string, error) {
	file, err := os.Open(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("sealway: cannot read what was trusted: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Mode().Perm()&0o022 != 0 {
		return "", &UsageError{"others may write " + f.path}
	}
	data, err := io.ReadAll(io.LimitReader(file, stateFileMax+1))
	if err != nil || len(data) > stateFileMax {
		return "", &UsageError{f.path + " cannot be read, or is too long"}
	}
	return string(data), nil
}

// read gives what stands behind name; empty without a line or a file.
func (f *stateFile) read(name string) (string, error) {
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

// update puts what change makes of name's line in its place, by a new file that takes the old one's place.
func (f *stateFile) update(name string, change func(line string) (string, error)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return fmt.Errorf("sealway: cannot keep what is trusted: %w", err)
	}
	unlock, err := lockBeside(f.path)
	if err != nil {
		return fmt.Errorf("sealway: cannot keep what is trusted: %w", err)
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
		return fmt.Errorf("sealway: cannot keep what is trusted: %w", err)
	}
	if err := os.Rename(temporary, f.path); err != nil {
		return fmt.Errorf("sealway: cannot keep what is trusted: %w", err)
	}
	return nil
}
