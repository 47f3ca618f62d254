package session

import (
	"bytes"
	"crypto/sha256"
	"testing"

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
	keys := client.keys.request(first, second)
	if answer {
		keys = client.keys.answer(first, second)
	}
	if !bytes.Equal(keys[:32], key) || !bytes.Equal(keys[32:44], iv) || !bytes.Equal(keys[44:], commit) {
		t.Fatal("other keys of the message")
	}
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
