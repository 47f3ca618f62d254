package protocol

import (
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"

	"golang.org/x/crypto/chacha20poly1305"
)

// token is a step of a Noise message.
type token byte

const (
	tokE token = iota
	tokS
	tokEE
	tokES
	tokSE
	tokSS
	// tokPSK mixes in the channel's secret, tokKEM the hybrid's.
	tokPSK
	tokKEM
)

// pattern is one of Noise, revision 34, with its pre-shared key where the name says.
type pattern struct {
	name, hybridName string
	// pre says whose static keys are known beforehand: "both", "server", or "sent" where they come in messages.
	pre      string
	messages [][]token
}

// In the order of a suite's number. The hybrid's secret is at the end of the second message of each.
var patterns = [4]pattern{
	{"NNpsk0", "NNpsk0+psk2", "", [][]token{{tokPSK, tokE}, {tokE, tokEE}}},
	{"KKpsk0", "KKpsk0+psk2", "both", [][]token{{tokPSK, tokE, tokES, tokSS}, {tokE, tokEE, tokSE}}},
	{"IKpsk1", "IKpsk1+psk2", "server", [][]token{{tokE, tokES, tokS, tokSS, tokPSK}, {tokE, tokEE, tokSE}}},
	{"XXpsk3", "XXpsk2+psk3", "sent", [][]token{{tokE}, {tokE, tokEE, tokS, tokES}, {tokS, tokSE, tokPSK}}},
}

// noise is a HandshakeState of Noise over the platform's crypto.
type noise struct {
	suite     Suite
	isClient  bool
	ck, h, k  Key
	aead      cipher.AEAD
	counter   uint64
	own       *ecdh.PrivateKey
	ephemeral *ecdh.PrivateKey
	peer      *ecdh.PublicKey
	peerEph   *ecdh.PublicKey
	psk, kem  Key
	at        int
}

func newNoise(suite Suite, isClient bool, prologue []byte, psk *Key, ephemeral, own *ecdh.PrivateKey, pinned *ecdh.PublicKey) (*noise, error) {
	n := &noise{suite: suite, isClient: isClient, psk: *psk, ephemeral: ephemeral, own: own}
	name := suite.noiseName()
	if len(name) <= 32 {
		copy(n.h[:], name)
	} else {
		n.h = sha256.Sum256([]byte(name))
	}
	n.ck = n.h
	n.mixHash(prologue)
	pre := suite.pattern().pre
	// The client's key first, as Noise writes pre-messages.
	if pre == "both" {
		n.mixHash(n.known(true, pinned))
	}
	if pre == "both" || pre == "server" {
		n.mixHash(n.known(false, pinned))
	}
	if pre == "both" || pre == "server" && isClient {
		n.peer = pinned
	}
	return n, nil
}

func (n *noise) known(ofClient bool, pinned *ecdh.PublicKey) []byte {
	if ofClient == n.isClient {
		return n.suite.curve().encode(n.own.PublicKey())
	}
	return n.suite.curve().encode(pinned)
}

func (n *noise) mixHash(parts ...[]byte) {
	hash := sha256.New()
	hash.Write(n.h[:])
	for _, part := range parts {
		hash.Write(part)
	}
	hash.Sum(n.h[:0])
}

// derive is Noise's HKDF with the chaining key: 64 or 96 bytes, the first 32 of which are the next chaining key.
func (n *noise) derive(input []byte, length int) ([]byte, error) {
	made, err := hkdf.Key(sha256.New, input, n.ck[:], "", length)
	if err != nil {
		return nil, fail(ChannelProvider)
	}
	copy(n.ck[:], made)
	return made, nil
}

func (n *noise) mixKey(input []byte) error {
	made, err := n.derive(input, 64)
	if err != nil {
		return err
	}
	defer clear(made)
	return n.rekey(made[32:])
}

func (n *noise) mixKeyAndHash(input []byte) error {
	made, err := n.derive(input, 96)
	if err != nil {
		return err
	}
	defer clear(made)
	n.mixHash(made[32:64])
	return n.rekey(made[64:])
}

func (n *noise) rekey(key []byte) (err error) {
	copy(n.k[:], key)
	n.counter = 0
	n.aead, err = newAEAD(n.suite, &n.k)
	return err
}

func newAEAD(suite Suite, key *Key) (cipher.AEAD, error) {
	if !suite.isChaCha() {
		return aesGCM(key)
	}
	aead, err := chacha20poly1305.New(key[:])
	if err != nil {
		return nil, fail(ChannelProvider)
	}
	return aead, nil
}

// nonce counts big-endian for AESGCM and little-endian for ChaChaPoly, as Noise has it.
func (n *noise) nonce() []byte {
	nonce := make([]byte, 12)
	if n.suite.isChaCha() {
		binary.LittleEndian.PutUint64(nonce[4:], n.counter)
	} else {
		binary.BigEndian.PutUint64(nonce[4:], n.counter)
	}
	n.counter++
	return nonce
}

func (n *noise) appendSealed(dst, plain []byte) []byte {
	start := len(dst)
	if n.aead == nil {
		dst = append(dst, plain...)
	} else {
		dst = n.aead.Seal(dst, n.nonce(), plain, n.h[:])
	}
	n.mixHash(dst[start:])
	return dst
}

func (n *noise) open(sealed []byte) ([]byte, error) {
	plain := append([]byte(nil), sealed...)
	if n.aead != nil {
		var err error
		if len(sealed) < tagLen {
			return nil, fail(HandshakeFrameInvalid)
		}
		if plain, err = n.aead.Open(nil, n.nonce(), sealed, n.h[:]); err != nil {
			return nil, fail(HandshakeUnauthentic)
		}
	}
	n.mixHash(sealed)
	return plain, nil
}

func (n *noise) tokens() []token {
	tokens := n.suite.pattern().messages[n.at]
	if n.suite.IsHybrid() && n.at == 1 {
		tokens = append(append([]token(nil), tokens...), tokKEM)
	}
	return tokens
}

// mix does what sender and receiver of a token do alike.
func (n *noise) mix(tok token) error {
	switch tok {
	case tokPSK:
		return n.mixKeyAndHash(n.psk[:])
	case tokKEM:
		return n.mixKeyAndHash(n.kem[:])
	case tokES, tokSE:
		// The first letter is the client's key, the second the server's.
		if (tok == tokES) == n.isClient {
			return n.mixShared(n.ephemeral, n.peer)
		}
		return n.mixShared(n.own, n.peerEph)
	case tokSS:
		return n.mixShared(n.own, n.peer)
	}
	return n.mixShared(n.ephemeral, n.peerEph)
}

func (n *noise) mixShared(own *ecdh.PrivateKey, peer *ecdh.PublicKey) error {
	shared, err := agree(own, peer)
	if err != nil {
		return err
	}
	defer clear(shared)
	return n.mixKey(shared)
}

// write makes the next message of this side, behind dst.
func (n *noise) write(dst, payload []byte) ([]byte, error) {
	for _, tok := range n.tokens() {
		var err error
		switch tok {
		case tokE:
			public := n.suite.curve().encode(n.ephemeral.PublicKey())
			dst = append(dst, public...)
			n.mixHash(public)
			err = n.mixKey(public)
		case tokS:
			dst = n.appendSealed(dst, n.suite.curve().encode(n.own.PublicKey()))
		default:
			err = n.mix(tok)
		}
		if err != nil {
			return nil, err
		}
	}
	n.at++
	return n.appendSealed(dst, payload), nil
}

// read takes the peer's next message and gives its payload.
func (n *noise) read(message []byte) ([]byte, error) {
	take := func(length int) ([]byte, error) {
		if len(message) < length {
			return nil, fail(HandshakeFrameInvalid)
		}
		taken := message[:length]
		message = message[length:]
		return taken, nil
	}
	for _, tok := range n.tokens() {
		var raw []byte
		var err error
		switch tok {
		case tokE:
			if raw, err = take(n.suite.curve().publicLen()); err != nil {
				return nil, err
			}
			if n.peerEph, err = n.suite.curve().decode(raw); err != nil {
				return nil, err
			}
			n.mixHash(raw)
			err = n.mixKey(raw)
		case tokS:
			if raw, err = take(n.suite.curve().publicLen() + tagLen); err != nil {
				return nil, err
			}
			if raw, err = n.open(raw); err != nil {
				return nil, err
			}
			n.peer, err = n.suite.curve().decode(raw)
		default:
			err = n.mix(tok)
		}
		if err != nil {
			return nil, err
		}
	}
	n.at++
	return n.open(message)
}

func (n *noise) isFinished() bool { return n.at == len(n.suite.pattern().messages) }

// split returns the client's key and the server's, and wipes the rest.
func (n *noise) split() (client, server *Key, err error) {
	made, err := n.derive(nil, 64)
	if err != nil {
		return nil, nil, err
	}
	defer clear(made)
	client, server = (*Key)(append([]byte(nil), made[:32]...)), (*Key)(append([]byte(nil), made[32:]...))
	for _, key := range []*Key{&n.ck, &n.k, &n.psk, &n.kem} {
		key.Wipe()
	}
	n.aead = nil
	return client, server, nil
}
