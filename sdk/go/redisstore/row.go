package redisstore

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf8"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// errRow says that a stored session is of no form that is known. It holds nothing of the value.
var errRow = errors.New("a stored session is of another form")

const (
	noText     = 0xffff
	wrappedLen = wire.IVLen + wire.KeyLen + wire.TagLen
	valueMax   = 8 << 10
)

// row is a stored session whose key is still wrapped: nothing of it counts before that has unwrapped.
type row struct {
	record session.Record
	// lineage is the first session of the chain of renewals that this one is in, empty where it is the first itself.
	lineage string
	kekID   string
	wrapped []byte
	// aad is what the wrapped key authenticates: the id and every field but kekID, or in rows of earlier releases the id alone.
	aad []byte
}

// reader takes a value apart; after a fault it gives nothing more.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if r.bad || len(r.rest) < n {
		r.bad = true
		return make([]byte, n)
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) byte() byte     { return r.take(1)[0] }
func (r *reader) number() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

// text returns a text, and whether there is one.
func (r *reader) text() (string, bool) {
	length := binary.BigEndian.Uint16(r.take(2))
	if r.bad || length == noText {
		return "", false
	}
	text := string(r.take(int(length)))
	if !utf8.ValidString(text) {
		r.bad = true
	}
	return text, !r.bad
}

var auths = []session.Auth{session.AuthNone, session.AuthBearer, session.AuthDPoP, session.AuthCertificate}

// rowLabel begins what the wrapped key of a row authenticates.
const rowLabel = "sealway session row\x00"

// zeros is the id under which stores wrap a key that everybody knows.
var zeros = strings.Repeat("0", 32)

// parseRow reads the value of a session; session_unknown for one of an earlier release that is not accepted: any party that can write Redis
// could have changed anything in it. spec/redis-store.md#sessions
func parseRow(id string, value []byte, acceptUntilMs uint64) (*row, error) {
	if len(value) > valueMax {
		return nil, errRow
	}
	in := &reader{rest: value}
	parsed := &row{record: session.Record{ID: id, Auth: session.AuthNone}}
	record := &parsed.record
	record.ExpiresMs = in.number()
	version := in.byte()
	record.Wire = wire.Version(in.byte())
	if !in.bad && (version == 1 || version == 2) && (record.ExpiresMs > acceptUntilMs || record.Wire == wire.Wire3 || strings.HasSuffix(id, zeros)) {
		return nil, wire.Refuse(wire.CodeSessionUnknown)
	}
	record.CreatedMs = in.number()
	var named, kek bool
	record.ClientID, named = in.text()
	record.Subject, _ = in.text()
	if version >= 2 {
		record.Tenant, _ = in.text()
		auth := in.byte()
		if int(auth) >= len(auths) {
			return nil, errRow
		}
		record.Auth = auths[auth]
	}
	parsed.aad = []byte(id)
	if version == 3 {
		var renewed bool
		if parsed.lineage, renewed = in.text(); renewed && !wire.ValidSessionID(parsed.lineage) {
			return nil, errRow
		}
		head := value[:len(value)-len(in.rest)]
		parsed.aad = append(binary.BigEndian.AppendUint16([]byte(rowLabel), uint16(len(id))), id...)
		parsed.aad = append(parsed.aad, head...)
	}
	parsed.kekID, kek = in.text()
	parsed.wrapped = in.take(wrappedLen)
	if in.bad || len(in.rest) > 0 || !kek || version < 1 || version > 3 || record.Wire < wire.Wire1 || record.Wire > wire.Wire3 {
		return nil, errRow
	}
	if (record.Wire != wire.Wire1 || named) && !wire.ValidClientID(record.ClientID) {
		return nil, errRow
	}
	return parsed, nil
}
