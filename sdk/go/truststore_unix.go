//go:build unix

package sealway

import (
	"os"
	"syscall"
)

// lockBeside takes a lock between processes, and returns its release.
func lockBeside(path string) (func(), error) {
	file, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		file.Close()
		return nil, err
	}
	return func() { file.Close() }, nil
}
