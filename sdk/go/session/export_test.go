package session

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"testing"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// Exports for the vectors alone.

// CheckTranscript compares the transcript of an init and its hash.
func CheckTranscript(t *testing.T, request *InitRequest, credential, answer []byte, renewed string, transcript, th []byte) {
	t.Helper()
	said, _, _, err := parseInitAnswer(answer)
	if err != nil {
		t.Fatal(err)
	}
	made := transcriptFields(request, credential, said, renewed)
	if hash := sha256.Sum256(made); !bytes.Equal(made, transcript) || !bytes.Equal(hash[:], th) {
		t.Fatal("another transcript")
	}
}

// CheckClientKeys compares what a client keeps.
func CheckClientKeys(t *testing.T, client *ClientSession, c2s, s2c, exporter []byte) {
	t.Helper()
	if !bytes.Equal(client.keys.c2s[:], c2s) || !bytes.Equal(client.keys.s2c[:], s2c) || !bytes.Equal(client.exporter[:], exporter) {
		t.Fatal("other keys at the client")
	}
}

// HasKeys says whether a byte of a client's session that is secret is left.
func HasKeys(client *ClientSession) bool {
	return client.keys != sessionKeys{} || client.exporter != [32]byte{}
}

// CheckMessageKeys compares key, iv and commit of a request (nonce, stamp) or an answer (request's nonce, its own).
func CheckMessageKeys(t *testing.T, client *ClientSession, answer bool, first, second string, key, iv, commit []byte) {
	t.Helper()
	keys := client.keys.request(wire.Wire3, first, second)
	if answer {
		keys = client.keys.answer(wire.Wire3, first, second)
	}
	if !bytes.Equal(keys[:32], key) || !bytes.Equal(keys[32:44], iv) || !bytes.Equal(keys[44:], commit) {
		t.Fatal("other keys of the message")
	}
}

// CheckCallKeys is CheckMessageKeys for a call of wire 4.
func CheckCallKeys(t *testing.T, call *Call, answer bool, first, second string, key, iv, commit []byte) {
	t.Helper()
	keys := call.keys.keys.request(call.version, first, second)
	if answer {
		keys = call.keys.keys.answer(call.version, first, second)
	}
	if !bytes.Equal(keys[:32], key) || !bytes.Equal(keys[32:44], iv) || !bytes.Equal(keys[44:], commit) {
		t.Fatal("other keys of the message")
	}
}

// SealOneShotAs seals with stamp and nonce as text.
func SealOneShotAs(o *OneShot, line Line, contentType, stamp, nonce string, ephemeral crypto.Ephemeral) (wire.HeaderList, *FrameSealer, *Call, error) {
	return o.sealAs(line, contentType, stamp+"."+nonce, ephemeral)
}

// CheckOneShotKeys compares the secrets of a request, and what its stream begins with.
func CheckOneShotKeys(t *testing.T, call *Call, c2s, s2c, enc []byte, leadLen int, sealer *FrameSealer) {
	t.Helper()
	if !bytes.Equal(call.keys.keys.c2s[:], c2s) || !bytes.Equal(call.keys.keys.s2c[:], s2c) || !bytes.HasSuffix(sealer.lead, enc) || len(sealer.lead) != leadLen {
		t.Fatal("other secrets, or another enc")
	}
}

// OneShotCall makes the call of a request that was not sealed here.
func OneShotCall(kid string, s2c []byte, line Line, stamp, nonce string) *Call {
	of := &callKeys{}
	copy(of.keys.s2c[:], s2c)
	of.keys.ready()
	return &Call{binding{wire.Wire4, strings.TrimPrefix(kid, "hpke:")}, of, line, stamp, nonce}
}

// SealOneShotAnswerAs seals the answer of a call as a server does.
func SealOneShotAnswerAs(t *testing.T, call *Call, status int, contentType, stamp, nonce string) (wire.HeaderList, *FrameSealer) {
	t.Helper()
	keys := call.keys.keys.answer(call.version, call.nonce, nonce)
	sealer, err := newFrameSealer(&keys, call.answerContext(status, call.line, contentType, stamp, nonce))
	if err != nil {
		t.Fatal(err)
	}
	return call.headers(stamp + "." + nonce), sealer
}

// CheckContext compares what frames are bound to.
func CheckContext(t *testing.T, sealer *FrameSealer, context []byte) {
	t.Helper()
	if !bytes.Equal(sealer.context[:], context) {
		t.Fatal("another context")
	}
}

// NewReply makes a reply to a request that was not opened here.
func NewReply(session *Session, line Line, nonce string) *Reply {
	return &Reply{session, line, nonce}
}

// SealReplyAs seals with stamp and nonce as text.
func SealReplyAs(t *testing.T, r *Reply, status int, contentType, stamp, nonce string) (wire.HeaderList, *FrameSealer) {
	t.Helper()
	headers, sealer, err := r.sealAs(status, contentType, stamp+"."+nonce)
	if err != nil {
		t.Fatal(err)
	}
	return headers, sealer
}

// NewOpener opens a stream under given keys and an empty context.
func NewOpener(keys []byte) (*FrameOpener, error) {
	made := messageKeys(keys)
	return newFrameOpener(&made, [32]byte{}, false)
}
