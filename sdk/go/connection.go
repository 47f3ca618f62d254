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

// ConnectionError says that no connection was made, or that a connection broke. It unwraps to the error of the base transport.
type ConnectionError struct {
	// Connected says that there was a connection, so that the service may have received the request.
	Connected bool
	// Text describes the event and its remedy.
	Text string
	// Err is the error of the base transport.
	Err error
	// lasts says that the cause does not pass by itself.
	lasts bool
}

func (e *ConnectionError) Error() string { return e.Text }

// Unwrap returns Err.
func (e *ConnectionError) Unwrap() error { return e.Err }

// Timeout says whether it took too long to connect.
func (e *ConnectionError) Timeout() bool {
	var timed net.Error
	return errors.As(e.Err, &timed) && timed.Timeout()
}

// connectionError classifies an error of the base transport. The error of a cancelled context stays as it is.
func connectionError(err error) error {
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
	what, isConnected, lasts := "", false, false
	switch isOp := errors.As(err, &op); {
	case errors.As(err, &certificate):
		lasts = true
		what = "TLS failed (" + oneLine(certificate.Err.Error()) + "): check that the certificate is for this name, that Config.Base trusts" +
			" its authority, and this machine's clock"
	case errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &record):
		lasts = true
		what = "TLS failed (no TLS is spoken there): check the port, and whether the address is http://"
	case isOp && (op.Op == "remote error" || op.Op == "local error"):
		// With TLS 1.3 the alert may follow the request.
		isConnected, lasts = true, true
		what = "TLS failed (" + oneLine(op.Err.Error()) + "): check whether the service asks for a client certificate, which Config.Base would have," +
			" and the versions of TLS that both sides speak"
	case strings.Contains(err.Error(), "TLS handshake timeout"):
		what = "TLS took too long to begin: check the address and port, and that the service is not overloaded"
	case errors.As(err, &name):
		what = "its name was not found: check the address, and this machine's name servers"
	case errors.Is(err, syscall.ECONNREFUSED):
		what = "the connection was refused: check the address and port, and that the service runs there"
	case isOp && op.Op == "dial" && op.Timeout():
		what = "it took too long to connect: check the address and port, and the firewalls in between, or raise Config.ConnectTimeout"
	case isOp && op.Op == "dial":
		what = "no connection was made (" + oneLine(op.Err.Error()) + "): check the address and port, and this machine's network"
	case !isOp && errors.Is(err, context.DeadlineExceeded):
		return err
	default:
		isConnected = true
		what = "the connection broke, and whether the service had the request is unknown: check that the service runs, and what is in between"
	}
	return &ConnectionError{Connected: isConnected, Text: what, Err: err, lasts: lasts}
}

// oneLine makes foreign text printable, on one line of at most 200 bytes.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
	return fmt.Sprintf("%.200s", text)
}
