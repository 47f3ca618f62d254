package relay

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"sealway.dev/go/channel/protocol"
)

// Bounds of a grant: its length in bytes, and its suites.
const (
	grantMax  = 64 << 10
	suitesMax = 64
)

// Role is an end of a channel.
type Role uint8

// The client begins the handshake.
const (
	Client Role = 1
	Server Role = 2
)

// String is the role's name.
func (r Role) String() string {
	if r == Client {
		return "client"
	}
	return "server"
}

// Token is what an endpoint attaches with; it works once, and is a secret until then. However it is printed, it shows nothing.
type Token string

// Format prints nothing of the token.
func (Token) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, "redacted") }

// MarshalText keeps the token out of JSON and logs.
func (Token) MarshalText() ([]byte, error) { return []byte("redacted"), nil }

// GrantError says that a grant cannot be used, and which member is at fault.
type GrantError struct{ Member string }

// Error is a sentence, for people.
func (e *GrantError) Error() string { return "member " + e.Member + " of the grant is absent or wrong" }

// Grant is what an endpoint needs to use a channel through a relay. Printed, it shows no secret. spec/relay.md#grants
type Grant struct {
	// TunnelURL is the relay's: ws:// or wss://, with the path.
	TunnelURL string
	// ChannelID names the channel.
	ChannelID string
	// InitExpiresS is until when the channel must have begun, seconds of the epoch.
	InitExpiresS int64
	// IdleTimeoutS is how long the channel may stay without a message, seconds.
	IdleTimeoutS int32
	// Role is this endpoint's end.
	Role Role
	// Token is what it attaches with.
	Token Token
	// PSK is what both ends know and the relay does not.
	PSK protocol.Key
	// AllowedSuites are 1 to 64, DefaultSuite, which is used, among them.
	AllowedSuites []uint16
	DefaultSuite  uint16
	// NoisePattern is a native channel's, such as NNpsk0; empty where the grant does not say it.
	NoisePattern string
	// PeerStatic is the peer's static public key, where it is pinned.
	PeerStatic []byte
}

// ParseGrant reads one. The error is a *GrantError.
func ParseGrant(text []byte) (*Grant, error) {
	if len(text) > grantMax {
		return nil, &GrantError{"(its length)"}
	}
	said, err := parseObject(text)
	if err != nil {
		return nil, &GrantError{"(its JSON)"}
	}
	made := &Grant{
		TunnelURL: said.needed("tunnel_url"), ChannelID: said.needed("channel_id"),
		InitExpiresS: said.whole("channel_init_expire_at_unix_s", 64),
		IdleTimeoutS: max(0, int32(said.whole("idle_timeout_seconds", 32))),
		Role:         Role(said.whole("role", 8)), Token: Token(said.needed("token")), PSK: said.psk(),
		AllowedSuites: said.suites("allowed_suites"), DefaultSuite: said.suite("default_suite"),
		NoisePattern: said.text("noise_pattern"), PeerStatic: said.bytes("peer_static_b64u"),
	}
	if made.Role != Client && made.Role != Server {
		said.refuse("role")
	}
	if !slices.Contains(made.AllowedSuites, made.DefaultSuite) || len(made.AllowedSuites) > suitesMax {
		said.refuse("allowed_suites")
	}
	for _, suite := range made.AllowedSuites {
		// The control plane alone chooses the profile.
		if suite == 0 || (suite >= 0x100) != (made.DefaultSuite >= 0x100) {
			said.refuse("allowed_suites")
		}
	}
	if said.bad != "" {
		return nil, &GrantError{said.bad}
	}
	return made, nil
}

func (o *object) psk() (psk protocol.Key) {
	raw := o.bytes("e2ee_psk_b64u")
	if copy(psk[:], raw) != 32 || len(raw) != 32 {
		o.refuse("e2ee_psk_b64u")
	}
	clear(raw)
	return psk
}

// IsNative says whether the grant is for the native profile, else for flowersec-v1.
func (g *Grant) IsNative() bool { return g.DefaultSuite >= 0x100 }

// Format prints what is no secret.
func (g *Grant) Format(state fmt.State, _ rune) {
	_, _ = fmt.Fprintf(state, "Grant(%s of %s at %s, suite %#x)", g.Role, g.ChannelID, g.TunnelURL, g.DefaultSuite)
}

// MarshalJSON refuses: a grant is secret, and none is written by an endpoint.
func (g *Grant) MarshalJSON() ([]byte, error) { return json.Marshal(fmt.Sprint(g)) }

// DirectInfo is what both ends need to use a channel without a relay. Printed, it shows no secret.
type DirectInfo struct {
	// URL is where the server listens: ws:// or wss://.
	URL string
	// ChannelID names the channel.
	ChannelID string
	// PSK is what both ends know.
	PSK protocol.Key
	// Suite is the one to use.
	Suite uint16
	// InitExpiresS is until when the channel must have begun, seconds of the epoch.
	InitExpiresS int64
}

// ParseDirectInfo reads one. The error is a *GrantError.
func ParseDirectInfo(text []byte) (*DirectInfo, error) {
	if len(text) > grantMax {
		return nil, &GrantError{"(its length)"}
	}
	said, err := parseObject(text)
	if err != nil {
		return nil, &GrantError{"(its JSON)"}
	}
	made := &DirectInfo{
		URL: said.needed("ws_url"), ChannelID: said.needed("channel_id"), PSK: said.psk(),
		Suite: said.suite("default_suite"), InitExpiresS: said.whole("channel_init_expire_at_unix_s", 64),
	}
	if said.bad != "" {
		return nil, &GrantError{said.bad}
	}
	return made, nil
}

// Format prints what is no secret.
func (d *DirectInfo) Format(state fmt.State, _ rune) {
	_, _ = fmt.Fprintf(state, "DirectInfo(%s at %s, suite %#x)", d.ChannelID, d.URL, d.Suite)
}
