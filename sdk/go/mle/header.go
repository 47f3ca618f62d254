package mle

import (
	"encoding/json"
	"slices"
	"strconv"
)

const (
	// headerMax is the largest protected header, in bytes of its JSON.
	headerMax = 4096
	// kidMax is the longest key name, in bytes.
	kidMax = 256
)

var (
	// keyParams bring key material or name a place to fetch it.
	keyParams = []string{"jku", "jwk", "x5u", "x5c", "x5t"}
	// agreementParams are for ECDH-ES alone (RFC 7518 section 4.6.1).
	agreementParams = []string{"epk", "apu", "apv"}
	// foreignParams are of algorithms that do not exist here.
	foreignParams = []string{"iv", "tag", "p2s", "p2c"}
)

// header is a protected header. typ, cty and unknown parameters decide nothing and are not kept.
type header struct {
	alg    Alg
	enc    Enc
	kid    string
	hasKid bool
	iat    uint64
	hasIat bool
	x5t    []byte
}

// params are the members of a header.
type params map[string]json.RawMessage

func (p params) first(names []string) (string, bool) {
	at := slices.IndexFunc(names, func(name string) bool { _, there := p[name]; return there })
	if at < 0 {
		return "", false
	}
	return names[at], true
}

// text returns a member that must be a string if it is there.
func (p params) text(name string, class Class) (text string, there bool, err error) {
	value, there := p[name]
	if !there {
		return "", false, nil
	}
	text, isText := textOf(value)
	if !isText {
		return "", true, refuse(class, "a parameter is not a string: %s", name)
	}
	return text, true, nil
}

// bytes returns a member that must be base64url if it is there.
func (p params) bytes(name string, class Class) (data []byte, there bool, err error) {
	text, there, err := p.text(name, class)
	if !there || err != nil {
		return nil, there, err
	}
	if data, err = (Profile{}).decodePart([]byte(text)); err != nil {
		return nil, true, refuse(class, "a parameter is not base64url: %s", name)
	}
	return data, true, nil
}

// parseHeader reads the JSON of a protected header. spec/mle.md#header
func parseHeader(data []byte) (h header, err error) {
	if len(data) > headerMax {
		return h, refuse(ClassSize, "the header is longer than %d bytes", headerMax)
	}
	members, why := readObject(data, headerMax)
	if why != "" {
		return h, refuse(ClassHeader, "%s", why)
	}
	p := params(members)
	if name, there := p.first([]string{"crit", "b64"}); there {
		return h, refuse(ClassCrit, "the profile has no such parameter: %s", name)
	}
	if name, there := p.first([]string{"zip"}); there {
		return h, refuse(ClassZip, "compressed content is not opened: %s", name)
	}
	if name, there := p.first(keyParams); there {
		return h, refuse(ClassParam, "a token may not bring or name key material: %s", name)
	}
	if h.alg, h.enc, err = p.algorithms(); err != nil {
		return h, err
	}
	foreign := foreignParams
	if h.alg != ecdhES {
		foreign = slices.Concat(agreementParams, foreignParams)
	}
	if name, there := p.first(foreign); there {
		return h, refuse(ClassParam, "a parameter does not belong to alg: %s", name)
	}
	for _, name := range []string{"typ", "cty"} {
		if _, _, err := p.text(name, ClassHeader); err != nil {
			return h, err
		}
	}
	if h.alg == ecdhES {
		if err := p.checkEphemeral(); err != nil {
			return h, err
		}
	}
	if h.kid, h.hasKid, err = p.text("kid", ClassKid); err != nil {
		return h, err
	}
	if h.hasKid && (h.kid == "" || len(h.kid) > kidMax) {
		return h, refuse(ClassKid, "kid is empty or longer than %d bytes", kidMax)
	}
	if h.iat, h.hasIat, err = p.iat(); err != nil {
		return h, err
	}
	var there bool
	if h.x5t, there, err = p.bytes("x5t#S256", ClassParam); err == nil && there && len(h.x5t) != 32 {
		err = refuse(ClassParam, "x5t#S256 is not 32 bytes")
	}
	return h, err
}

func (p params) algorithms() (Alg, Enc, error) {
	alg, _, err := p.text("alg", ClassAlg)
	if err != nil {
		return "", "", err
	}
	if !slices.Contains(knownAlgs, Alg(alg)) {
		return "", "", refuse(ClassAlg, "alg is not supported: %s", quote(alg))
	}
	enc, _, err := p.text("enc", ClassEnc)
	if err != nil {
		return "", "", err
	}
	if _, known := encs[Enc(enc)]; !known {
		return "", "", refuse(ClassEnc, "enc is not supported: %s", quote(enc))
	}
	return Alg(alg), Enc(enc), nil
}

// iat reads digits alone: a sign, fraction, exponent or string has two readings.
func (p params) iat() (number uint64, there bool, err error) {
	value, there := p["iat"]
	if !there {
		return 0, false, nil
	}
	number, failed := strconv.ParseUint(string(value), 10, 64)
	if failed != nil {
		return 0, true, refuse(ClassIat, "iat is not a whole number below 2^64: %s", quote(string(value)))
	}
	return number, true, nil
}

// checkEphemeral checks the form of an ephemeral key on P-256, so that the log says what is wrong with a token that no key here opens.
func (p params) checkEphemeral() error {
	members, why := readObject(p["epk"], headerMax)
	if why != "" {
		return refuse(ClassEpk, "epk is absent or no object: %s", why)
	}
	point := params(members)
	kty, _, _ := point.text("kty", ClassEpk)
	crv, _, _ := point.text("crv", ClassEpk)
	if _, isPrivate := point["d"]; kty != "EC" || crv != "P-256" || isPrivate {
		return refuse(ClassEpk, "epk is not a public key on P-256")
	}
	for _, name := range []string{"x", "y"} {
		if coordinate, _, err := point.bytes(name, ClassEpk); err != nil || len(coordinate) != 32 {
			return refuse(ClassEpk, "a coordinate of epk is not 32 bytes")
		}
	}
	for _, name := range []string{"apu", "apv"} {
		if _, _, err := p.bytes(name, ClassEpk); err != nil {
			return err
		}
	}
	return nil
}
