package mle

import (
	"crypto/rsa"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

const (
	// fingerprintDomain tells a token's claim apart from those of sessions, which have 1 to 4.
	fingerprintDomain = 5
	// millisecondsMin is the least time in milliseconds: below it a sender counts seconds.
	millisecondsMin = 100_000_000_000
	// headerKeyID repeats the kid in Visa's requests.
	headerKeyID = "Keyid"
)

// Plaintext is the content of a token. It is a body and nothing else: no header, method or path is in it. Every format verb shows its
// length alone.
type Plaintext struct {
	bytes []byte
	kid   string
	enc   Enc
}

// Bytes returns the content.
func (p *Plaintext) Bytes() []byte { return p.bytes }

// Kid returns the name of the key that opened the token.
func (p *Plaintext) Kid() string { return p.kid }

// Enc returns the content encryption algorithm of the token.
func (p *Plaintext) Enc() Enc { return p.enc }

// String shows no content.
func (p *Plaintext) String() string {
	return "Plaintext(" + strconv.Itoa(len(p.bytes)) + " bytes, " + p.kid + " " + string(p.enc) + ")"
}

// Format shows no content, whatever the verb.
func (p *Plaintext) Format(state fmt.State, _ rune) { io.WriteString(state, p.String()) }

// Open opens a message: its body is the token, or the object with the token as its sole member. headers are those of the message; a keyId
// in a request must equal the kid. The plaintext is guarded by a claim against replays, which a store reserves once. For an answer, which
// belongs to its request's connection, and where replays are allowed, [session.Reserved] of the guard's claim releases it. random draws
// the content key that takes the place of one that does not decrypt. A wrong message is a [*Refusal]. spec/mle.md#opening
func Open(body []byte, headers wire.Headers, profile Profile, message Message, keys *OpeningKeys, nowMs uint64, random io.Reader) (*session.ClaimGuard[*Plaintext], error) {
	token, err := profile.unwrapBody(message, body)
	if err != nil {
		return nil, err
	}
	if len(token) > profile.tokenMax {
		return nil, refuse(ClassSize, "the token has %d bytes", len(token))
	}
	parts, err := splitToken(token)
	if err != nil {
		return nil, err
	}
	if len(parts[0]) > strict.EncodedLen(headerMax) {
		return nil, refuse(ClassSize, "the header is longer than %d bytes", headerMax)
	}
	var decoded [5][]byte
	if decoded[0], err = profile.decodePart(parts[0]); err != nil {
		return nil, err
	}
	header, err := parseHeader(decoded[0])
	if err != nil {
		return nil, err
	}
	key, err := profile.find(header, message, keys)
	if err != nil {
		return nil, err
	}
	if told := headers.Values(headerKeyID); message == Request && slices.ContainsFunc(told, func(kid string) bool { return kid != key.kid }) {
		return nil, refuse(ClassKid, "the header keyId is not the kid of the token")
	}
	stampMs, err := profile.stamp(header, message, nowMs)
	if err != nil {
		return nil, err
	}
	for i := 1; i < 5; i++ {
		if decoded[i], err = profile.decodePart(parts[i]); err != nil {
			return nil, err
		}
	}
	if err := profile.checkLengths(header.enc, key, decoded); err != nil {
		return nil, err
	}
	// Of the decoded parts, so that another spelling of a token is the same token; before the ciphertext is decrypted in its place.
	claim := profile.replay.Claim(fingerprint(decoded), false, stampMs, nowMs)
	plaintext, err := decrypt(header.enc, key, parts[0], decoded, random)
	if err != nil {
		return nil, err
	}
	return session.NewClaimGuard(claim, &Plaintext{plaintext, key.kid, header.enc}), nil
}

// find checks the algorithms and returns the one key that the token may be opened with. Keys are never tried.
func (p Profile) find(h header, message Message, keys *OpeningKeys) (*OpeningKey, error) {
	if keys == nil {
		keys = &OpeningKeys{}
	}
	side := p.side(message)
	if !slices.Contains(side.algs, h.alg) {
		return nil, refuse(ClassAlg, "the profile does not allow this alg: %s", h.alg)
	}
	if !slices.Contains(side.encs, h.enc) {
		return nil, refuse(ClassEnc, "the profile does not allow this enc: %s", h.enc)
	}
	key := keys.byKid[h.kid]
	switch {
	case h.hasKid && key == nil:
		return nil, refuse(ClassKid, "no live key has this kid: %s", quote(h.kid))
	case !h.hasKid && !p.allowsNoKid:
		return nil, refuse(ClassKid, "kid is absent")
	case !h.hasKid && len(keys.byKid) != 1:
		return nil, refuse(ClassKid, "kid is absent, and not exactly one key is live")
	case !h.hasKid:
		for _, key = range keys.byKid {
		}
	}
	if key.alg != h.alg {
		return nil, refuse(ClassAlg, "the key has another algorithm than alg: %s", h.alg)
	}
	if h.x5t != nil && !slices.Equal(h.x5t, key.certificate) {
		return nil, refuse(ClassParam, "x5t#S256 is not the hash of the key's certificate")
	}
	return key, nil
}

// stamp checks iat and returns the stamp of the claim. Without a time in the token it is half of the window ahead: no restart's floor covers
// it, so that a store makes the claim durable.
func (p Profile) stamp(h header, message Message, nowMs uint64) (uint64, error) {
	if p.iat == NoIat || !h.hasIat {
		if p.iat != NoIat && p.side(message).requiresIat {
			return 0, refuse(ClassIat, "iat is absent")
		}
		return nowMs + p.replay.Window()/2, nil
	}
	iatMs := h.iat
	switch isMilliseconds := h.iat >= millisecondsMin; {
	case p.iat == Milliseconds && !isMilliseconds:
		return 0, refuse(ClassIat, "iat is in seconds, and the profile has milliseconds")
	case p.iat == Seconds && isMilliseconds:
		return 0, refuse(ClassIat, "iat is in milliseconds, and the profile has seconds")
	case p.iat == Seconds:
		iatMs *= 1000
	}
	if p.replay.Check(iatMs, nowMs) != nil {
		where := "ahead of"
		if iatMs < nowMs {
			where = "behind"
		}
		return 0, refuse(ClassIat, "iat is %d ms %s the clock, outside of the window", max(iatMs, nowMs)-min(iatMs, nowMs), where)
	}
	return iatMs, nil
}

func (p Profile) checkLengths(enc Enc, key *OpeningKey, parts [5][]byte) error {
	shape, encrypted, iv, tag := encs[enc], len(parts[1]), len(parts[2]), len(parts[4])
	if due := key.private.Size(); encrypted != due {
		return refuse(ClassShape, "the encrypted key has %d bytes, and %d are due", encrypted, due)
	}
	if iv != shape.iv && !(p.allowsLongIV && shape.mac == nil && iv == longIV) {
		return refuse(ClassIV, "the IV has %d bytes", iv)
	}
	if tag != shape.tag {
		return refuse(ClassTag, "the tag has %d bytes, and %d are due", tag, shape.tag)
	}
	return nil
}

// decrypt performs the private operation and opens the content. If the operation fails, or its result has a wrong length, the same work is
// done with a random key (RFC 7516 section 11.5); it is drawn for every token, so that the work does not show whether it was needed.
func decrypt(enc Enc, key *OpeningKey, aad []byte, parts [5][]byte, random io.Reader) ([]byte, error) {
	cek := make([]byte, encs[enc].cek)
	defer clear(cek)
	if _, err := io.ReadFull(random, cek); err != nil {
		return nil, refuse(ClassUnwrap, "the generator of random numbers failed")
	}
	found := key.unwrap(parts[1])
	defer clear(found)
	isRight := len(found) == len(cek)
	if isRight {
		copy(cek, found)
	}
	plaintext, err := openContent(enc, cek, parts[2], aad, parts[3], parts[4])
	if !isRight {
		return nil, refuse(ClassUnwrap, "the encrypted key did not decrypt to a key of the right length")
	}
	if err != nil {
		return nil, refuse(ClassTag, "the tag does not verify")
	}
	return plaintext, nil
}

func fingerprint(parts [5][]byte) [16]byte {
	hash := sha256.New()
	hash.Write([]byte{fingerprintDomain})
	for _, part := range parts {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		hash.Write(part)
	}
	return [16]byte(hash.Sum(nil))
}

// Seal seals a plaintext to one recipient and returns the body. A key that is nil, as [Newest] may return it, and a pair of algorithms
// outside of the profile are a [*KeyError]. spec/mle.md#sealing
func Seal(plaintext []byte, profile Profile, message Message, key *SealingKey, nowMs uint64, random io.Reader) ([]byte, error) {
	if key == nil {
		return nil, &KeyError{"no key of the recipient is valid now: see the times of its certificates"}
	}
	if !profile.Allows(message, key.alg, key.enc) {
		return nil, &KeyError{fmt.Sprintf("the profile %s does not allow %s with %s in this direction", profile.name, key.alg, key.enc)}
	}
	shape := encs[key.enc]
	cek, iv := make([]byte, shape.cek), make([]byte, shape.iv)
	defer clear(cek)
	for _, bytes := range [][]byte{cek, iv} {
		if _, err := io.ReadFull(random, bytes); err != nil {
			return nil, &KeyError{"the generator of random numbers failed"}
		}
	}
	encrypted, err := rsa.EncryptOAEP(key.alg.hash(), random, key.key, cek, nil)
	if err != nil {
		return nil, &KeyError{"the content key cannot be encrypted"}
	}
	token := strict.AppendEncode(nil, profile.headerOf(message, key, nowMs))
	ciphertext, tag, err := sealContent(key.enc, cek, iv, token, plaintext)
	if err != nil {
		return nil, &KeyError{"the content cannot be encrypted"}
	}
	for _, part := range [][]byte{encrypted, iv, ciphertext, tag} {
		token = strict.AppendEncode(append(token, '.'), part)
	}
	return profile.wrapToken(message, token), nil
}

func (p Profile) headerOf(message Message, key *SealingKey, nowMs uint64) []byte {
	header := fmt.Appendf(nil, `{"alg":"%s","enc":"%s","kid":%s`, key.alg, key.enc, jsonText(key.kid))
	if cty := p.side(message).cty; cty != "" {
		header = fmt.Appendf(header, `,"cty":%s`, jsonText(cty))
	}
	switch p.iat {
	case Seconds:
		header = fmt.Appendf(header, `,"iat":%d`, nowMs/1000)
	case Milliseconds:
		header = fmt.Appendf(header, `,"iat":%d`, nowMs)
	}
	return append(header, '}')
}
