package protocol

import (
	"crypto/cipher"
	"encoding/binary"
	"slices"
)

const (
	v1FlagData  = 0
	v1FlagPing  = 1
	v1FlagRekey = 2
)

// v1Half is what sealing and opening have in common: a direction's key, and where it stands.
type v1Half struct {
	direction *v1Direction
	aead      cipher.AEAD
	sequence  sequence
	recordMax int
	// room is where a nonce is written, that it needs no room of its own for each record.
	room [12]byte
}

func newV1Half(direction *v1Direction, recordMax int) (*v1Half, error) {
	aead, err := aesGCM(&direction.key)
	return &v1Half{direction: direction, aead: aead, recordMax: recordMax}, err
}

func newV1Records(out, in *v1Direction, recordMax int) (*Sealer, *Opener, error) {
	sealing, err := newV1Half(out, recordMax)
	if err != nil {
		return nil, nil, err
	}
	opening, err := newV1Half(in, recordMax)
	if err != nil {
		return nil, nil, err
	}
	return &Sealer{inner: (*v1Sealer)(sealing)}, &Opener{inner: (*v1Opener)(opening)}, nil
}

func (h *v1Half) nonce(seq uint64) []byte {
	copy(h.room[:], h.direction.prefix[:])
	binary.BigEndian.PutUint64(h.room[4:], seq)
	return h.room[:]
}

func (h *v1Half) change(seq uint64) (err error) {
	if err = h.direction.change(seq); err == nil {
		h.aead, err = aesGCM(&h.direction.key)
	}
	return err
}

type v1Sealer v1Half

func (s *v1Sealer) contentMax() int { return s.recordMax - recordHeaderLen - tagLen }

func (s *v1Sealer) seal(dst []byte, content *Content, _ uint64) ([]byte, error) {
	var flags byte
	switch {
	case content.Kind == Data:
		flags = v1FlagData
	// The record is empty: there is no room for a number, and nobody answers.
	case content.Kind == Ping && content.Number == 0:
		flags = v1FlagPing
	case content.Kind == Rekey:
		flags = v1FlagRekey
	default:
		return nil, fail(ContentUnsupported)
	}
	if len(content.Data) > s.contentMax() || flags != v1FlagData && len(content.Data) > 0 {
		return nil, fail(ContentTooLarge)
	}
	seq, err := s.sequence.take()
	if err != nil {
		return nil, err
	}
	half, start := (*v1Half)(s), len(dst)
	dst = slices.Grow(dst, recordHeaderLen+len(content.Data)+tagLen)
	dst = v1Profile.appendRecordHeader(dst, flags, seq, len(content.Data)+tagLen)
	dst = s.aead.Seal(dst, half.nonce(seq), content.Data, dst[start:])
	if flags == v1FlagRekey {
		err = half.change(seq)
	}
	return dst, err
}

type v1Opener v1Half

// spec/channel.md#v1-records: the checks, in this order.
func (o *v1Opener) open(message []byte) (Content, error) {
	flags, seq, err := v1Profile.parseRecord(o.recordMax, message)
	if err != nil {
		return Content{}, err
	}
	if flags > v1FlagRekey {
		return Content{}, fail(RecordFlags)
	}
	if err := o.sequence.expect(seq); err != nil {
		return Content{}, err
	}
	half := (*v1Half)(o)
	header, sealed := message[:recordHeaderLen], message[recordHeaderLen:]
	plain, err := o.aead.Open(sealed[:0], half.nonce(seq), sealed, header)
	if err != nil {
		return Content{}, fail(RecordUnsealable)
	}
	o.sequence.used = seq
	switch {
	case flags == v1FlagData:
		return Content{Kind: Data, Data: plain}, nil
	case len(plain) > 0:
		return Content{}, fail(RecordContent)
	case flags == v1FlagPing:
		return Content{Kind: Ping}, nil
	}
	return Content{Kind: Rekey}, half.change(seq)
}
