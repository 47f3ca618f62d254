package broker

import (
	"net"
	"syscall"
)

// checkPeer compares the user id of the listening process, which the kernel reports, with the expected one.
func checkPeer(connection net.Conn, uid int) error {
	raw, err := connection.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var peer *syscall.Ucred
	var asked error
	if err := raw.Control(func(descriptor uintptr) {
		peer, asked = syscall.GetsockoptUcred(int(descriptor), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if asked != nil {
		return asked
	}
	if int(peer.Uid) != uid {
		return errPeer
	}
	return nil
}
