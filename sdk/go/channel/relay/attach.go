package relay

import (
	"bytes"
	"encoding/json"
)

// AttachMax is the longest attach message, in bytes.
const AttachMax = 8192

type attach struct {
	V          int               `json:"v"`
	ChannelID  string            `json:"channel_id"`
	Role       Role              `json:"role"`
	Token      string            `json:"token"`
	InstanceID string            `json:"endpoint_instance_id"`
	Caps       map[string]string `json:"caps,omitempty"`
}

// Attach is the first message of an endpoint to a relay, as text. instance names this run of the endpoint: 16 to 32 random
// bytes. spec/relay.md#attach
func Attach(grant *Grant, instance []byte) ([]byte, error) {
	said := attach{
		V: 1, ChannelID: grant.ChannelID, Role: grant.Role, Token: string(grant.Token),
		InstanceID: b64u.EncodeToString(instance),
	}
	if grant.IsNative() {
		said.Caps = map[string]string{"profile": "native"}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(said); err != nil {
		return nil, err
	}
	if out.Len() > AttachMax {
		return nil, &GrantError{"token"}
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
