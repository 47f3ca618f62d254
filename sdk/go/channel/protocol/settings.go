package protocol

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"
)

// Bounds of spec/channel.md#limits, in bytes where nothing else is said.
const (
	HandshakePayloadMax = 8 << 10
	ChannelIDMax        = 256
	AllowedSuitesMax    = 64
	RecordMax           = 1 << 20
	ContentMax          = 64 << 10
	ContentMaxLeast     = 16 << 10
	RecordsPerKeyMax    = 1 << 20
	CloseReasonMax      = 123
)

// Key is 32 secret bytes. However it is printed, it shows nothing.
type Key [32]byte

const redacted = "redacted"

// Format prints no byte of the key.
func (Key) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, redacted) }

// MarshalText keeps the key out of JSON and logs.
func (Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Wipe overwrites the key.
func (k *Key) Wipe() { clear(k[:]) }

// Settings are what an end knows before it begins, mostly from its grant.
type Settings struct {
	// ChannelID is the channel's name, 1 to 256 bytes of UTF-8.
	ChannelID string
	// PSK is the secret that both ends of this channel alone were given.
	PSK Key
	// Suite is the one that the grant chose.
	Suite Suite
	// AllowedSuites are those of the grant in its order, Suite among them; at most 64. Native handshakes bind the list.
	AllowedSuites []uint16
	// InitExpiresS is until when the channel may begin, seconds of the epoch.
	InitExpiresS uint64
	// SkewS is how far the clocks of the ends may be apart, seconds.
	SkewS uint64
	// Binding ties a native channel to its tokens; see Bind.
	Binding [32]byte
	// LocalStatic is this end's static private key, for the patterns that have one.
	LocalStatic *Key
	// PeerStatic is the peer's pinned static public key, for the patterns that have one.
	PeerStatic []byte
	// Features are the bits that a flowersec-v1 end advertises; 1 is rekey.
	Features uint32
	// AcceptUnconfirmed lets a flowersec-v1 client be connected when Ack is written, although the server has proved nothing:
	// for servers that send no ping after Ack, and for these alone.
	AcceptUnconfirmed bool
	// RecordMax is the longest flowersec-v1 record, header and tag included, in bytes.
	RecordMax int
	// ContentMax is the longest content of a native record that this end sends, 16 to 64 KiB.
	ContentMax int
	// RekeyAfterRecords is after how many records this end changes its native key, 2 to 2^20.
	RekeyAfterRecords uint64
	// RekeyAfter is the age at which this end changes its native key, in whole milliseconds.
	RekeyAfter time.Duration
	// PadTo is the length in bytes to whose multiples native records are padded; 0 and 1 pad nothing.
	PadTo int
}

// NewSettings has the defaults of the spec for all that a caller need not know.
func NewSettings(channelID string, psk Key, suite Suite, initExpiresS uint64) *Settings {
	made := &Settings{
		ChannelID: channelID, PSK: psk, Suite: suite, AllowedSuites: []uint16{uint16(suite)},
		InitExpiresS: initExpiresS, SkewS: 30, Features: 1, RecordMax: RecordMax, ContentMax: ContentMax,
		RekeyAfterRecords: RecordsPerKeyMax, RekeyAfter: time.Hour,
	}
	made.Bind("", "")
	return made
}

// Bind ties a native handshake to what the tokens of both ends say alike: audience and issuer, empty without a relay.
// spec/channel.md#prologue
func (s *Settings) Bind(audience, issuer string) {
	over := []byte("sealway-channel-v1 grant")
	over = append(binary.BigEndian.AppendUint64(over, uint64(len(audience))), audience...)
	over = append(binary.BigEndian.AppendUint64(over, uint64(len(issuer))), issuer...)
	s.Binding = sha256.Sum256(over)
}

// Check says which setting is out of its bounds, or absent though the suite needs it.
func (s *Settings) Check() error {
	suite, err := ParseSuite(uint16(s.Suite))
	if err != nil {
		return err
	}
	hasKeys := s.LocalStatic != nil && s.PeerStatic != nil
	rules := []struct {
		holds bool
		field string
	}{
		{len(s.ChannelID) >= 1 && len(s.ChannelID) <= ChannelIDMax && utf8.ValidString(s.ChannelID), "channel_id"},
		{slices.Contains(s.AllowedSuites, uint16(suite)) && len(s.AllowedSuites) <= AllowedSuitesMax, "allowed_suites"},
		{s.RecordMax > recordHeaderLen+tagLen && s.RecordMax <= RecordMax, "record_max"},
		{!suite.IsNative() || s.ContentMax >= ContentMaxLeast && s.ContentMax <= ContentMax, "content_max"},
		{!suite.IsNative() || s.RekeyAfterRecords >= 2 && s.RekeyAfterRecords <= RecordsPerKeyMax, "rekey_after_records"},
		{!suite.IsNative() || s.RekeyAfter >= time.Millisecond, "rekey_after"},
		{!suite.IsNative() || s.PadTo >= 0 && s.PadTo <= s.ContentMax, "pad_to"},
		{!suite.HasStaticKeys() || hasKeys, "local_static and peer_static"},
		{!suite.HasStaticKeys() || len(s.PeerStatic) == suite.PublicKeyLen(), "peer_static"},
	}
	for _, rule := range rules {
		if !rule.holds {
			return failAt(SettingInvalid, rule.field)
		}
	}
	return nil
}

// Decapsulator is a client's ML-KEM-768 key, made for one channel.
type Decapsulator interface {
	// EncapsulationKey is the public half, 1184 bytes.
	EncapsulationKey() []byte
	// Decapsulate gives the 32 bytes behind a ciphertext of 1088; another ciphertext gives other bytes.
	Decapsulate(ciphertext []byte) ([]byte, error)
}

// Randoms are the random inputs of one handshake. Each is used once, on one connection.
type Randoms struct {
	// Nonce is flowersec-v1's nonce_c or nonce_s.
	Nonce [32]byte
	// HandshakeID is what a flowersec-v1 server makes its handshake id of.
	HandshakeID [24]byte
	// Ephemeral is the private key: any 32 bytes for X25519, a scalar within the order for P-256.
	Ephemeral Key
	// Decapsulator is the client's key, where the suite is hybrid.
	Decapsulator Decapsulator
	// Encapsulate makes a secret and a ciphertext for a client's key; an error says that the key is none.
	Encapsulate func(key []byte) (secret, ciphertext []byte, err error)
}

// Format prints no byte of them.
func (*Randoms) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, redacted) }
