package protocol

import (
	"bytes"
	"crypto/cipher"
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

const (
	flagFromClient = 0
	flagFromServer = 1
	// keyChanges on a record's kind says that the sender's key changes after it.
	keyChanges byte = 0x80
	// nativeRecordMax is header, content, kind and tag.
	nativeRecordMax = recordHeaderLen + ContentMax + 1 + tagLen
)

// ratchet is a direction's key: each follows from the one before, and none leads back.
type ratchet struct {
	suite    Suite
	key      Key
	aead     cipher.AEAD
	sequence sequence
	used     uint64
	// room is where a nonce is written, that it needs no room of its own for each record.
	room [12]byte
}

func newRatchet(suite Suite, key *Key) (ratchet, error) {
	made := ratchet{suite: suite, key: *key}
	key.Wipe()
	var err error
	made.aead, err = newAEAD(suite, &made.key)
	return made, err
}

func (r *ratchet) turn() (err error) {
	var next Key
	if err = expandInto(next[:], r.key[:], "sealway-channel-v1 next key"); err != nil {
		return err
	}
	r.key, r.used = next, 0
	next.Wipe()
	r.aead, err = newAEAD(r.suite, &r.key)
	return err
}

// nonce never comes twice under a key: keys belong to a direction, and numbers go on over a change of key.
func (r *ratchet) nonce(seq uint64) []byte {
	binary.BigEndian.PutUint64(r.room[4:], seq)
	return r.room[:]
}

func newNativeRecords(settings *Settings, isClient bool, out, in *Key) (*Sealer, *Opener, error) {
	own, peer := byte(flagFromClient), byte(flagFromServer)
	if !isClient {
		own, peer = peer, own
	}
	sealing, err := newRatchet(settings.Suite, out)
	if err != nil {
		return nil, nil, err
	}
	opening, err := newRatchet(settings.Suite, in)
	if err != nil {
		return nil, nil, err
	}
	sealer := &nativeSealer{
		ratchet: sealing, flags: own, lenMax: settings.ContentMax, padTo: settings.PadTo,
		rekeyAfter: settings.RekeyAfterRecords, rekeyAfterMS: uint64(settings.RekeyAfter.Milliseconds()),
	}
	return &Sealer{inner: sealer}, &Opener{inner: &nativeOpener{ratchet: opening, own: own, peer: peer}}, nil
}

type nativeSealer struct {
	ratchet
	flags        byte
	lenMax       int
	padTo        int
	rekeyAfter   uint64
	rekeyAfterMS uint64
	// sinceMS is when the key was first used; it is meant only once used is not 0.
	sinceMS uint64
	begun   bool
}

func (s *nativeSealer) contentMax() int { return s.lenMax }

func (s *nativeSealer) seal(dst []byte, content *Content, nowMS uint64) ([]byte, error) {
	var head [8]byte
	var parts [2][]byte
	switch content.Kind {
	case Data:
		parts[0] = content.Data
	case Ping, Pong:
		parts[0] = binary.BigEndian.AppendUint64(head[:0], content.Number)
	case Rekey:
	case Close:
		if len(content.Reason) > CloseReasonMax || !utf8.ValidString(content.Reason) {
			return nil, fail(ContentTooLarge)
		}
		parts = [2][]byte{binary.BigEndian.AppendUint16(head[:0], content.Code), []byte(content.Reason)}
	default:
		return nil, fail(ContentUnsupported)
	}
	if len(content.Data) > s.lenMax || content.Kind != Data && len(content.Data) > 0 {
		return nil, fail(ContentTooLarge)
	}
	innerLen := s.padded(len(parts[0]) + len(parts[1]) + 1)
	seq, err := s.sequence.take()
	if err != nil {
		return nil, err
	}
	kind := byte(content.Kind)
	changes := s.keyChanges(content.Kind, nowMS)
	if changes {
		kind |= keyChanges
	}
	start := len(dst)
	dst = slices.Grow(dst, recordHeaderLen+innerLen+tagLen)
	dst = nativeProfile.appendRecordHeader(dst, s.flags, seq, innerLen+tagLen)
	body := len(dst)
	dst = append(append(dst, parts[0]...), parts[1]...)
	dst = append(dst, kind)
	end := body + innerLen
	clear(dst[len(dst):end])
	dst = dst[:end]
	dst = s.aead.Seal(dst[:body], s.nonce(seq), dst[body:], dst[start:body])
	if changes {
		s.sinceMS = nowMS
		return dst, s.turn()
	}
	return dst, nil
}

// keyChanges counts this record, and says whether it is its key's last.
func (s *nativeSealer) keyChanges(kind Kind, nowMS uint64) bool {
	s.used++
	if !s.begun {
		s.begun, s.sinceMS = true, nowMS
	}
	return kind == Rekey || s.used >= s.rekeyAfter || nowMS > s.sinceMS && nowMS-s.sinceMS >= s.rekeyAfterMS
}

func (s *nativeSealer) padded(length int) int {
	if s.padTo < 2 {
		return length
	}
	return min((length+s.padTo-1)/s.padTo*s.padTo, s.lenMax+1)
}

type nativeOpener struct {
	ratchet
	own, peer byte
}

// spec/channel.md#native-records: the checks, in this order.
func (o *nativeOpener) open(message []byte) (Content, error) {
	flags, seq, err := nativeProfile.parseRecord(nativeRecordMax, message)
	if err != nil {
		return Content{}, err
	}
	switch flags {
	case o.own:
		return Content{}, fail(RecordReflected)
	case o.peer:
	default:
		return Content{}, fail(RecordFlags)
	}
	if err := o.sequence.expect(seq); err != nil {
		return Content{}, err
	}
	if o.used >= RecordsPerKeyMax {
		return Content{}, fail(RekeyOverdue)
	}
	header, sealed := message[:recordHeaderLen], message[recordHeaderLen:]
	inner, err := o.aead.Open(sealed[:0], o.nonce(seq), sealed, header)
	if err != nil {
		return Content{}, fail(RecordUnsealable)
	}
	o.sequence.used = seq
	o.used++
	inner = bytes.TrimRight(inner, "\x00")
	if len(inner) == 0 {
		return Content{}, fail(RecordContent)
	}
	kind, content := inner[len(inner)-1], inner[:len(inner)-1]
	if kind&keyChanges != 0 {
		if err := o.turn(); err != nil {
			return Content{}, err
		}
	}
	return parseNative(kind, content)
}

func parseNative(kind byte, content []byte) (Content, error) {
	made := Content{Kind: Kind(kind &^ keyChanges)}
	holds := false
	switch made.Kind {
	case Data:
		made.Data, holds = content, true
	case Ping, Pong:
		if holds = len(content) == 8; holds {
			made.Number = binary.BigEndian.Uint64(content)
		}
	case Rekey:
		holds = kind&keyChanges != 0 && len(content) == 0
	case Close:
		if holds = len(content) >= 2 && len(content) <= 2+CloseReasonMax && utf8.Valid(content[2:]); holds {
			made.Code, made.Reason = binary.BigEndian.Uint16(content), string(content[2:])
		}
	}
	if !holds {
		return Content{}, fail(RecordContent)
	}
	return made, nil
}
