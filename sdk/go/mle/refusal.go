package mle

import (
	"fmt"
	"strconv"
)

// Class is the stable name of the reason for which a message is rejected: for logs and metrics, never for the peer. spec/mle.md#refusals
type Class string

// The classes, in the order of the specification.
const (
	// ClassSize is a body, token or header over its bound.
	ClassSize Class = "size"
	// ClassShape is a token that has not five parts, or an encrypted key that does not fit its algorithm.
	ClassShape Class = "shape"
	// ClassBase64 is a part that is not canonical base64url.
	ClassBase64 Class = "base64"
	// ClassHeader is a header that is not one JSON object without duplicates.
	ClassHeader Class = "header"
	// ClassAlg is an alg that is absent, unknown, outside of the profile, or not the key's.
	ClassAlg Class = "alg"
	// ClassEnc is an enc that is absent, unknown, or outside of the profile.
	ClassEnc Class = "enc"
	// ClassZip is content that was compressed before its encryption.
	ClassZip Class = "zip"
	// ClassCrit is crit, or a parameter that needs it.
	ClassCrit Class = "crit"
	// ClassParam is a parameter that brings or names key material, that contradicts the key, or that belongs to another algorithm.
	ClassParam Class = "param"
	// ClassKid is a kid that is absent, malformed, or names no live key.
	ClassKid Class = "kid"
	// ClassIat is an iat that is absent, malformed, in the other unit, or outside of the window.
	ClassIat Class = "iat"
	// ClassEpk is a malformed ephemeral key.
	ClassEpk Class = "epk"
	// ClassIV is an initialisation vector of a wrong length.
	ClassIV Class = "iv"
	// ClassUnwrap is an encrypted key that did not decrypt to a key of the right length.
	ClassUnwrap Class = "unwrap"
	// ClassTag is a tag of a wrong length, or one that does not verify.
	ClassTag Class = "tag"
	// ClassJSON is a body that is not the JSON that is due.
	ClassJSON Class = "json"
	// ClassReplayed is a message that was received before.
	ClassReplayed Class = "replayed"
)

// Refusal is the error of a rejected message. Its text is for the log: it holds no plaintext, no key and no token, and a text of
// the peer only cut to 64 characters and escaped. All classes must be answered alike.
type Refusal struct {
	// Class is the reason by its stable name.
	Class  Class
	detail string
}

// Error returns the class and the detail.
func (r *Refusal) Error() string { return "sealway: mle: " + string(r.Class) + ": " + r.detail }

func refuse(class Class, format string, values ...any) *Refusal {
	return &Refusal{class, fmt.Sprintf(format, values...)}
}

// quoteMax is the longest text of a peer in a refusal, in characters.
const quoteMax = 64

// quote makes a text of the peer fit for a log.
func quote(text string) string {
	count := 0
	for at := range text {
		if count++; count > quoteMax {
			return strconv.QuoteToASCII(text[:at]) + "…"
		}
	}
	return strconv.QuoteToASCII(text)
}
