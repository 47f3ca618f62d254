package session

import (
	"strconv"
	"strings"
	"sync"

	"sealway.dev/go/wire"
)

// callKeys are the keys of calls: those of a session, or of one request of wire 4.
type callKeys struct {
	mu    sync.RWMutex // of what wipe overwrites
	keys  sessionKeys
	wiped bool
}

// use has work done with the keys; provider once they are wiped.
func (k *callKeys) use(work func(keys *sessionKeys)) error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.wiped {
		return wire.Refuse(wire.CodeProvider)
	}
	work(&k.keys)
	return nil
}

// wipe overwrites the keys, and more that is under the same lock.
func (k *callKeys) wipe(more func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wiped = true
	k.keys.wipe()
	more()
}

// seal begins a request whose stream stands behind lead. idempotencyKey has its stamp and nonce.
func (k *callKeys) seal(to binding, lead []byte, line Line, contentType, idempotencyKey string) (wire.HeaderList, *FrameSealer, *Call, error) {
	stamp, nonce, _ := strings.Cut(idempotencyKey, ".")
	var keys messageKeys
	if err := k.use(func(of *sessionKeys) { keys = of.request(to.version, nonce, stamp) }); err != nil {
		return nil, nil, nil, err
	}
	sealer, err := newFrameSealer(&keys, to.requestContext(line, contentType, stamp, nonce))
	if err != nil {
		return nil, nil, nil, err
	}
	sealer.lead = lead
	return to.headers(idempotencyKey), sealer, &Call{to, k, line, stamp, nonce}, nil
}

// Call is what a client must remember of a request of wire 3 or 4 to open its answer.
type Call struct {
	binding
	keys         *callKeys
	line         Line
	stamp, nonce string
}

// StampAndNonce are the request's, which proofs in problems name.
func (p *Call) StampAndNonce() (stamp, nonce string) { return p.stamp, p.nonce }

// Method is the request's.
func (p *Call) Method() string { return p.line.Method }

// Open begins to open an answer: its stream, where it came in X-Sealed and not in the body, and what opens it. An answer
// without X-Seal is unsealed, one of another session or key, or with a request's nonce, answer_mismatch.
// spec/session-3.md#sealed-answers spec/one-shot.md#the-answer
func (p *Call) Open(headers wire.Headers, status int) (sealed []byte, opener *FrameOpener, err error) {
	if len(headers.Values(wire.HeaderSeal)) == 0 {
		return nil, nil, wire.Refuse(wire.CodeUnsealed)
	}
	if err := checkSeal(headers, p.version); err != nil {
		return nil, nil, err
	}
	kid, err := wire.Required(headers, wire.HeaderKid)
	if err != nil {
		return nil, nil, err
	}
	if !strings.HasPrefix(kid, p.version.KidPrefix()) {
		return nil, nil, wire.Refuse(wire.CodeKidPrefix)
	}
	if kid != p.kid() {
		return nil, nil, wire.Refuse(wire.CodeAnswerMismatch)
	}
	key, err := wire.Required(headers, wire.HeaderIdempotencyKey)
	if err != nil {
		return nil, nil, err
	}
	stamp, nonce, err := wire.SplitIdempotencyKey(key)
	if err != nil {
		return nil, nil, err
	}
	isProblem := p.version == wire.Wire4 && wire.IsProblemNonce(nonce)
	if err := wire.CheckAnswerNonce(nonce, wire.NativeNonceLenMin); err != nil && !isProblem {
		return nil, nil, err
	}
	if _, err := wire.ParseStamp(stamp); err != nil {
		return nil, nil, err
	}
	contentType, _, err := wire.Optional(headers, "Content-Type")
	if err != nil {
		return nil, nil, err
	}
	if sealed, err = sealedHeader(headers); err != nil {
		return nil, nil, err
	}
	var keys messageKeys
	if err := p.keys.use(func(of *sessionKeys) { keys = of.answer(p.version, p.nonce, nonce) }); err != nil {
		return nil, nil, err
	}
	opener, err = newFrameOpener(&keys, p.answerContext(status, p.line, contentType, stamp, nonce), sealed != nil)
	if err == nil {
		opener.problem = isProblem
	}
	return sealed, opener, err
}

func checkSeal(headers wire.Headers, want wire.Version) error {
	value, err := wire.Required(headers, wire.HeaderSeal)
	if err == nil && value != strconv.Itoa(int(want)) {
		err = &wire.Error{Code: wire.CodeHeaderInvalid, Name: wire.HeaderSeal}
	}
	return err
}

// sealedHeader returns the stream in X-Sealed; nil if there is none, not nil if it is there and empty.
func sealedHeader(headers wire.Headers) ([]byte, error) {
	text, there, err := wire.Optional(headers, wire.HeaderSealed)
	if err != nil || !there {
		return nil, err
	}
	invalid := &wire.Error{Code: wire.CodeHeaderInvalid, Name: wire.HeaderSealed}
	if len(text) > wire.SealedHeaderMax {
		return nil, invalid
	}
	data, err := wire.DecodeBase64(text)
	if err != nil {
		return nil, invalid
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}
