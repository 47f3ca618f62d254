package session

import (
	"fmt"
	"io"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// OneShot seals requests of wire 4 to one key of a service, concurrent ones too. spec/one-shot.md#the-request
type OneShot struct {
	config    *KeyConfig
	to        binding
	pskID     string
	psk       Key
	info      []byte
	plainLead []byte // mode ‖ length of psk_id ‖ psk_id
}

// NewOneShot takes a key of a known KEM, and a PSK with its id or an empty id for none. The KEM of a key that is not known is
// public_key_invalid, an id of another form field_invalid.
func NewOneShot(config *KeyConfig, pskID string, psk Key) (*OneShot, error) {
	if config.KEM.PublicLen() == 0 {
		return nil, wire.Refuse(wire.CodePublicKeyInvalid)
	}
	if pskID != "" && !wire.ValidPSKID(pskID) {
		return nil, fieldInvalid("psk_id")
	}
	mode := byte(0)
	if pskID != "" {
		mode = 1
	}
	name := config.Name()
	return &OneShot{config, binding{wire.Wire4, name}, pskID, psk,
		fields(nil).text("sealway/4").text(name).text(pskID), append([]byte{mode, byte(len(pskID))}, pskID...)}, nil
}

// KEM is that of the key.
func (o *OneShot) KEM() crypto.KEM { return o.config.KEM }

// Kid is the key's kid.
func (o *OneShot) Kid() string { return o.to.kid() }

// LeadLen is the number of bytes in front of the commit: mode, psk_id and enc.
func (o *OneShot) LeadLen() int { return len(o.plainLead) + o.config.KEM.EncLen() }

// Seal begins a request as [ClientSession.Seal] does. ephemeral and nonce are for this request alone. A key that is no public key of its
// KEM is public_key_invalid.
func (o *OneShot) Seal(line Line, contentType string, nowMs uint64, nonce [16]byte, ephemeral crypto.Ephemeral) (wire.HeaderList, *FrameSealer, *Call, error) {
	return o.sealAs(line, contentType, wire.IdempotencyKey(nowMs, nonce, false), ephemeral)
}

func (o *OneShot) sealAs(line Line, contentType, idempotencyKey string, ephemeral crypto.Ephemeral) (wire.HeaderList, *FrameSealer, *Call, error) {
	var psk []byte
	if o.pskID != "" {
		psk = o.psk[:]
	}
	enc, exporter, err := crypto.SetupSender(o.config.KEM, o.config.Public, o.info, psk, []byte(o.pskID), ephemeral)
	if err != nil {
		return nil, nil, nil, err
	}
	defer exporter.Wipe()
	of := &callKeys{}
	copy(of.keys.c2s[:], exporter.Export("sealway/4 c2s", 32))
	copy(of.keys.s2c[:], exporter.Export("sealway/4 s2c", 32))
	of.keys.ready()
	lead := append(append(make([]byte, 0, o.LeadLen()), o.plainLead...), enc...)
	return of.seal(o.to, lead, line, contentType, idempotencyKey)
}

// String shows the kid alone.
func (o *OneShot) String() string { return "OneShot(" + o.Kid() + ")" }

// Format is String, whatever the verb: no verb shows a key.
func (o *OneShot) Format(state fmt.State, _ rune) { io.WriteString(state, o.String()) }
