package protocol

import "fmt"

// Suite is a number that a grant chooses; nothing is negotiated. spec/channel.md#suites
type Suite uint16

// The suites of the profile flowersec-v1.
const (
	V1X25519 Suite = 1
	V1P256   Suite = 2
)

const (
	nativeFirst Suite = 0x100
	nativeLast  Suite = 0x137
)

// Parts of a native suite's number, from bit 0 on: cipher, curve, hybrid, then the pattern.
const (
	chaChaBit  = 1
	p256Bit    = 2
	hybridBit  = 4
	unusedBits = 8
)

// ParseSuite says whether a number is a suite.
func ParseSuite(id uint16) (Suite, error) {
	suite := Suite(id)
	if suite == V1X25519 || suite == V1P256 {
		return suite, nil
	}
	if suite < nativeFirst || suite > nativeLast || suite&unusedBits != 0 {
		return 0, failAt(SettingInvalid, "suite")
	}
	return suite, nil
}

// IsNative says whether the suite is of the native profile, else of flowersec-v1.
func (s Suite) IsNative() bool { return s >= nativeFirst }

// IsHybrid says whether ML-KEM-768 takes part.
func (s Suite) IsHybrid() bool { return s.IsNative() && s&hybridBit != 0 }

// HasStaticKeys says whether each end needs a static key of its own and the peer's pinned one.
func (s Suite) HasStaticKeys() bool { return s.IsNative() && s.pattern().pre != "" }

// UsesP256 says whether keys are of P-256, else of X25519.
func (s Suite) UsesP256() bool { return s.curve() == p256 }

// Pattern is the Noise pattern that grants name, such as NNpsk0; empty for flowersec-v1.
func (s Suite) Pattern() string {
	if !s.IsNative() {
		return ""
	}
	return s.pattern().name
}

// PublicKeyLen is the length of a public key on the wire in bytes.
func (s Suite) PublicKeyLen() int {
	if s == V1P256 {
		return 65
	}
	return s.curve().publicLen()
}

// String is the suite's name: the Noise protocol's, or what flowersec-v1 calls it.
func (s Suite) String() string {
	switch s {
	case V1X25519:
		return "X25519, HKDF-SHA256, AES-256-GCM"
	case V1P256:
		return "P-256, HKDF-SHA256, AES-256-GCM"
	}
	if _, err := ParseSuite(uint16(s)); err != nil {
		return fmt.Sprintf("suite %#x", uint16(s))
	}
	return s.noiseName()
}

func (s Suite) noiseName() string {
	name, curve, cipher := s.pattern().name, "25519", "AESGCM"
	if s.IsHybrid() {
		name = s.pattern().hybridName
	}
	if s&p256Bit != 0 {
		curve = "P256"
	}
	if s.isChaCha() {
		cipher = "ChaChaPoly"
	}
	return "Noise_" + name + "_" + curve + "_" + cipher + "_SHA256"
}

func (s Suite) pattern() *pattern { return &patterns[(s-nativeFirst)>>4] }

func (s Suite) isChaCha() bool { return s&chaChaBit != 0 }

func (s Suite) curve() curve {
	if s == V1P256 || s.IsNative() && s&p256Bit != 0 {
		return p256
	}
	return x25519
}
