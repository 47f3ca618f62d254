package sealway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"unicode"
)

// UnreachableError says that no answer came: no connection was made, TLS failed, or the connection broke. It unwraps to what the
// base transport said.
type UnreachableError struct {
	// Host is who was to answer, with a port where there is one.
	Host string
	// What happened and what to do.
	What string
	Err  error
}

func (e *UnreachableError) Error() string {
	return "sealway: no answer of " + who(e.Host) + ": " + e.What
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// Timeout says whether it took too long to connect.
func (e *UnreachableError) Timeout() bool {
	var timed net.Error
	return errors.As(e.Err, &timed) && timed.Timeout()
}

// Temporary is Timeout.
func (e *UnreachableError) Temporary() bool { return e.Timeout() }

// unreachable names in an error of the base transport who was to answer, and what to do. A cancelled call stays one.
func unreachable(err error, host string) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	var outer *url.Error
	if errors.As(err, &outer) {
		// Its text has the whole URL.
		err = outer.Err
	}
	var name *net.DNSError
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	what := ""
	switch isOp := errors.As(err, &op); {
	case errors.As(err, &certificate):
		what = "TLS failed (" + oneLine(certificate.Err.Error()) + "): check that the certificate is for this name, that Config.Base trusts" +
			" its authority, and this machine's clock"
	case errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &record):
		what = "TLS failed (no TLS is spoken there): check the port, and whether the address is http://"
	case isOp && (op.Op == "remote error" || op.Op == "local error"):
		what = "TLS failed (" + oneLine(op.Err.Error()) + "): check whether the service asks for a client certificate, which Config.Base would have," +
			" and the versions of TLS that both sides speak"
	case strings.Contains(err.Error(), "TLS handshake timeout"):
		what = "TLS took too long to begin: check the address and port, and that the service is not overloaded"
	case errors.As(err, &name):
		what = "its name was not found: check the address, and this machine's name servers"
	case errors.Is(err, syscall.ECONNREFUSED):
		what = "the connection was refused: check the address and port, and that the service runs there"
	case isOp && op.Op == "dial" && op.Timeout():
		what = "it took too long to connect: check the address and port, and the firewalls in between"
	case isOp && op.Op == "dial":
		what = "no connection was made (" + oneLine(op.Err.Error()) + "): check the address and port, and this machine's network"
	case !isOp && errors.Is(err, context.DeadlineExceeded):
		return err
	default:
		what = "the connection broke, and whether the service had the request is unknown: check that the service runs, and what is in between"
	}
	return &UnreachableError{Host: host, What: what, Err: err}
}

// oneLine is a text of another's, to be shown: printable, of at most 200 bytes.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
	return fmt.Sprintf("%.200s", text)
}
