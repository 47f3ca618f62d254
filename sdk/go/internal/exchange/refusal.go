package exchange

import "sealway.dev/go/wire"

// Refusal is the reason for which a server refuses a request: one of the wire's own rules, by its [wire.Code], or one of those below. It
// is the label of logs and metrics; the client receives a coarser word, by [Rejection.Answer].
type Refusal string

// The reasons beside the wire's own rules.
const (
	StoreUnavailable Refusal = "store_unavailable"
	NoncesFull       Refusal = "nonces_full"
	BodyNoRoom       Refusal = "body_no_room"
	DisguisedPath    Refusal = "disguised_path"
	WireOff          Refusal = "wire_off"
	Method           Refusal = "method"
	Unreadable       Refusal = "unreadable"
	Unanswered       Refusal = "unanswered"
	Compressed       Refusal = "content_encoding"
)

// meanings are those of the reasons beside the wire's own rules.
var meanings = map[Refusal]string{
	StoreUnavailable: "the store gave no answer",
	NoncesFull:       "the store is full",
	BodyNoRoom:       "sealed bodies that are still arriving take all of BufferedMaxBytes, or the share of this address",
	DisguisedPath:    "the path is another spelling of a sealed one",
	WireOff:          "the wire is not served here",
	Method:           "the wire does not seal this method",
	Unreadable:       "the service could not read the plaintext",
	Unanswered:       "the service's answer cannot be sealed",
	Compressed:       "a compressed message is not opened",
}

// Error says what the refusal means.
func (r Refusal) Error() string {
	if meaning, own := meanings[r]; own {
		return "sealway: " + meaning
	}
	return wire.Code(r).Error()
}

// Because returns the rejection for a refusal and its detail, for the log.
func (r Refusal) Because(err error) *Rejection { return &Rejection{Refusal: r, Err: err} }
