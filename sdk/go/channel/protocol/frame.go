package protocol

import "encoding/binary"

const (
	handshakeHeaderLen = 10
	recordHeaderLen    = 18
	tagLen             = 16
	frameVersion       = 1
)

type profile struct{ handshakeMagic, recordMagic string }

var (
	v1Profile     = profile{"FSEH", "FSEC"}
	nativeProfile = profile{"SWNH", "SWNR"}
)

// spec/channel.md#framing
func (p profile) handshake(kind byte, payload []byte) ([]byte, error) {
	if len(payload) > HandshakePayloadMax {
		return nil, fail(HandshakeTooLarge)
	}
	out := make([]byte, 0, handshakeHeaderLen+len(payload))
	out = append(out, p.handshakeMagic...)
	out = append(out, frameVersion, kind)
	out = binary.BigEndian.AppendUint32(out, uint32(len(payload)))
	return append(out, payload...), nil
}

func (p profile) parseHandshake(kind byte, message []byte) ([]byte, error) {
	if len(message) < handshakeHeaderLen || string(message[:4]) != p.handshakeMagic || message[4] != frameVersion {
		return nil, fail(HandshakeFrameInvalid)
	}
	said := uint64(binary.BigEndian.Uint32(message[6:]))
	if said > HandshakePayloadMax {
		return nil, fail(HandshakeTooLarge)
	}
	if said != uint64(len(message)-handshakeHeaderLen) {
		return nil, fail(HandshakeFrameInvalid)
	}
	if message[5] != kind {
		return nil, fail(HandshakeUnexpected)
	}
	return message[handshakeHeaderLen:], nil
}

func (p profile) appendRecordHeader(dst []byte, flags byte, seq uint64, sealedLen int) []byte {
	dst = append(dst, p.recordMagic...)
	dst = append(dst, frameVersion, flags)
	dst = binary.BigEndian.AppendUint64(dst, seq)
	return binary.BigEndian.AppendUint32(dst, uint32(sealedLen))
}

// parseRecord does the checks that come before flags.
func (p profile) parseRecord(lenMax int, message []byte) (flags byte, seq uint64, err error) {
	switch {
	case len(message) < recordHeaderLen:
		return 0, 0, fail(RecordTruncated)
	case string(message[:4]) != p.recordMagic || message[4] != frameVersion:
		return 0, 0, fail(RecordInvalid)
	case len(message) > lenMax:
		return 0, 0, fail(RecordTooLarge)
	}
	said := uint64(binary.BigEndian.Uint32(message[14:]))
	if said < tagLen || said != uint64(len(message)-recordHeaderLen) {
		return 0, 0, fail(RecordTruncated)
	}
	return message[5], binary.BigEndian.Uint64(message[6:]), nil
}

// sequence numbers the records of a direction: from 1, each one more, the highest never.
type sequence struct{ used uint64 }

const lastSeq = 1<<64 - 1

func (s *sequence) take() (uint64, error) {
	if s.used+1 == lastSeq {
		return 0, fail(RecordsExhausted)
	}
	s.used++
	return s.used, nil
}

func (s *sequence) expect(seq uint64) error {
	switch due := s.used + 1; {
	case seq < due:
		return fail(RecordReplayed)
	case seq > due:
		return fail(RecordMissing)
	case due == lastSeq:
		return fail(RecordsExhausted)
	}
	return nil
}
