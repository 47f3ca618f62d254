package mle

import (
	"fmt"
	"slices"

	"sealway.dev/go/session"
)

// Message is the direction of a message.
type Message int

// The directions.
const (
	// Request is from the client to the server.
	Request Message = iota
	// Answer is from the server to the client.
	Answer
)

// IatUnit is the unit of the header parameter iat.
type IatUnit string

// The units. Without one tokens have no time, and an iat is ignored.
const (
	NoIat        IatUnit = ""
	Seconds      IatUnit = "seconds"
	Milliseconds IatUnit = "milliseconds"
)

// TokenMaxBytes is the default of the longest token.
const TokenMaxBytes = 2 << 20

// side has the rules of one direction.
type side struct {
	algs        []Alg
	encs        []Enc
	requiresIat bool
	// member is the sole member of the body, whose value is the token; empty for a body that is the token.
	member string
	cty    string
}

// Profile has the rules for the messages of one scheme. It is a value: each With method returns another one. spec/mle.md#profiles
type Profile struct {
	name            string
	request, answer side
	hasMixedLetters bool
	allowsLongIV    bool
	allowsNoKid     bool
	iat             IatUnit
	replay          session.ReplayPolicy
	tokenMax        int
}

// MastercardJWE is Mastercard's JWE: no time, and what its libraries send besides base64url and IVs of 12 bytes.
func MastercardJWE() Profile {
	both := side{algs: []Alg{RSAOAEP256}, encs: []Enc{A256GCM, A128GCM, A192GCM, A128CBCHS256}, member: "encryptedData", cty: "application/json"}
	return Profile{name: "mastercard-jwe", request: both, answer: both, hasMixedLetters: true, allowsLongIV: true, tokenMax: TokenMaxBytes}
}

// Visa is Visa's message-level encryption: a time in milliseconds.
func Visa() Profile {
	request := side{algs: []Alg{RSAOAEP256}, encs: []Enc{A128GCM, A256GCM}, requiresIat: true, member: "encData"}
	answer := request
	answer.requiresIat = false
	return Profile{name: "visa", request: request, answer: answer, iat: Milliseconds, tokenMax: TokenMaxBytes}
}

// VisaAcceptance is that of Visa Acceptance (Cybersource): a time in seconds; answers may use two more algorithms than requests.
func VisaAcceptance() Profile {
	request := side{algs: []Alg{RSAOAEP256}, encs: []Enc{A256GCM}, requiresIat: true, member: "encryptedRequest"}
	answer := side{algs: []Alg{RSAOAEP256, RSAOAEP}, encs: []Enc{A256GCM, A128GCM}, member: "encryptedResponse"}
	return Profile{name: "visa-acceptance", request: request, answer: answer, iat: Seconds, tokenMax: TokenMaxBytes}
}

// Generic has the rules of the profile generic-jwe. A zero field means its default.
type Generic struct {
	// Algs are the allowed key management algorithms. The default is RSA-OAEP-256.
	Algs []Alg
	// Encs are the allowed content encryption algorithms. The default is A256GCM.
	Encs []Enc
	// Iat is the unit of iat, which requests then must have. The default is a profile without time.
	Iat IatUnit
	// RequestMember and AnswerMember are the sole members of bodies. The default is a body that is the token.
	RequestMember, AnswerMember string
	// CTY is the header parameter cty of messages that are sealed. The default is none. It is never read.
	CTY string
	// AllowsNoKid opens tokens without kid where exactly one key is live. By default they are rejected.
	AllowsNoKid bool
}

// GenericJWE returns a profile of the caller's own lists: strict base64url, IVs of the standard's lengths. A list with an algorithm
// that is not of this package, and an unknown unit, are a [KeyError].
func GenericJWE(generic Generic) (Profile, error) {
	request := side{algs: []Alg{RSAOAEP256}, encs: []Enc{A256GCM}, requiresIat: true, member: generic.RequestMember, cty: generic.CTY}
	if len(generic.Algs) > 0 {
		request.algs = slices.Clone(generic.Algs)
	}
	if len(generic.Encs) > 0 {
		request.encs = slices.Clone(generic.Encs)
	}
	for _, alg := range request.algs {
		if !alg.isRSA() {
			return Profile{}, &KeyError{fmt.Sprintf("Generic.Algs has %s: it may have RSA-OAEP-256 and RSA-OAEP", quote(string(alg)))}
		}
	}
	for _, enc := range request.encs {
		if _, known := encs[enc]; !known {
			return Profile{}, &KeyError{fmt.Sprintf("Generic.Encs has %s: it may have %s", quote(string(enc)), encNames)}
		}
	}
	if generic.Iat != NoIat && generic.Iat != Seconds && generic.Iat != Milliseconds {
		return Profile{}, &KeyError{fmt.Sprintf("Generic.Iat is %s: it is seconds, milliseconds, or empty", quote(string(generic.Iat)))}
	}
	answer := request
	answer.requiresIat, answer.member = false, generic.AnswerMember
	return Profile{name: "generic-jwe", request: request, answer: answer, iat: generic.Iat, allowsNoKid: generic.AllowsNoKid, tokenMax: TokenMaxBytes}, nil
}

const encNames = "A128GCM, A192GCM, A256GCM, A128CBC-HS256, A192CBC-HS384 and A256CBC-HS512"

// WithReplay sets the window for iat and the time for which a token is remembered. The default window is five minutes either way.
func (p Profile) WithReplay(policy session.ReplayPolicy) Profile {
	p.replay = policy
	return p
}

// WithTokenMax sets the longest token, in bytes. The default is [TokenMaxBytes].
func (p Profile) WithTokenMax(bytes int) Profile {
	p.tokenMax = bytes
	return p
}

// WithMembers sets the sole members of the bodies of requests and answers; an empty one is a body that is the token.
func (p Profile) WithMembers(request, answer string) Profile {
	p.request.member, p.answer.member = request, answer
	return p
}

// Name returns the name, as configuration and logs have it; empty for the zero value, which has no algorithm.
func (p Profile) Name() string { return p.name }

// Allows says whether a direction allows this pair of algorithms.
func (p Profile) Allows(message Message, alg Alg, enc Enc) bool {
	side := p.side(message)
	return slices.Contains(side.algs, alg) && slices.Contains(side.encs, enc)
}

// MediaType returns the media type of sealed bodies of a direction: application/json, or application/jose where the body is the token.
func (p Profile) MediaType(message Message) string {
	if p.side(message).member == "" {
		return bareTypes[0]
	}
	return "application/json"
}

func (p Profile) side(message Message) side {
	if message == Answer {
		return p.answer
	}
	return p.request
}
