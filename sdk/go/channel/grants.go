package channel

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"sealway.dev/go/channel/relay"
)

const (
	answerTime    = 45 * time.Second
	grantBytesMax = 64 << 10
	// listenWaitS is how long a listener waits at the control plane for a client before it asks again: less than proxies wait.
	listenWaitS = 25
)

// Grants hands out the grant for the next channel.
type Grants interface {
	// Next gives one, or an *Error of the stage grant.
	Next(ctx context.Context) (*relay.Grant, error)
}

// GrantFile is a file with one grant. Its token works once.
type GrantFile string

// Next reads the file.
func (f GrantFile) Next(context.Context) (*relay.Grant, error) {
	file, err := os.Open(string(f))
	if err != nil {
		return nil, caused(err, StageGrant, "grant_invalid", "%v", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, grantBytesMax+1))
	if err != nil {
		return nil, caused(err, StageGrant, "grant_invalid", "%v", err)
	}
	return parseGrant(text)
}

func parseGrant(text []byte) (*relay.Grant, error) {
	grant, err := relay.ParseGrant(text)
	clear(text)
	if err != nil {
		return nil, caused(err, StageGrant, "grant_invalid", "%v", err)
	}
	return grant, nil
}

// Control is a control plane, asked for a grant each time. Printed, it shows no token.
type Control struct {
	address string
	body    []byte
	bearer  string
	client  *http.Client
}

// NewControl asks at base (http:// or https://, without a path) for the end role of channels that go by a name of 1 to 128
// bytes. bearer, which may be empty, goes along; client may be nil. Redirects are not followed.
func NewControl(base, name string, role relay.Role, bearer string, client *http.Client) (*Control, error) {
	parsed, err := url.Parse(base)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" || parsed.User != nil ||
		strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" {
		// Credentials before an @ would be shown with the address.
		return nil, fault(StageGrant, "address_invalid", "no http:// or https:// address without a path and a password")
	}
	for _, sign := range []byte(bearer) {
		if sign < 0x20 || sign > 0x7e {
			return nil, fault(StageGrant, "unauthorized", "the token holds signs that no header can hold")
		}
	}
	asked := map[string]any{"name": name, "role": role.String()}
	if role == relay.Server {
		asked["wait_s"] = listenWaitS
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return nil, caused(err, StageGrant, "grant_invalid", "the name cannot be asked for")
	}
	if client == nil {
		client = &http.Client{}
	}
	own := *client
	own.CheckRedirect = noRedirect
	return &Control{parsed.Scheme + "://" + parsed.Host + "/v1/grant", body, bearer, &own}, nil
}

// Format prints no token.
func (c *Control) Format(state fmt.State, _ rune) {
	_, _ = fmt.Fprintf(state, "Control(%s)", c.address)
}

// Next asks for a grant. A client waits for a listener, for 45 s at most; a listener waits until a client asks.
func (c *Control) Next(ctx context.Context) (*relay.Grant, error) {
	for {
		// Nothing: no client has asked for as long as it was waited.
		if grant, err := c.ask(ctx); grant != nil || err != nil {
			return grant, err
		}
	}
}

func (c *Control) ask(ctx context.Context) (*relay.Grant, error) {
	bounded, stop := context.WithTimeout(ctx, answerTime)
	defer stop()
	request, err := http.NewRequestWithContext(bounded, http.MethodPost, c.address, bytes.NewReader(c.body))
	if err != nil {
		return nil, caused(err, StageGrant, "address_invalid", "the control plane cannot be asked")
	}
	request.Header.Set("Content-Type", "application/json")
	if c.bearer != "" {
		request.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	answer, err := c.client.Do(request)
	if err != nil {
		if bounded.Err() != nil {
			return nil, caused(context.Cause(bounded), StageGrant, "timeout", "the control plane did not answer in time")
		}
		return nil, caused(err, StageGrant, "control_unreachable", "%v", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, grantBytesMax+1))
	if err != nil {
		return nil, caused(err, StageGrant, "control_unreachable", "the answer broke off: %v", err)
	}
	switch answer.StatusCode {
	case http.StatusOK:
		return parseGrant(text)
	case http.StatusNoContent:
		return nil, nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fault(StageGrant, "unauthorized", "the control plane answers with the status %d", answer.StatusCode)
	case http.StatusNotFound:
		return nil, fault(StageGrant, "nobody_listens", "no peer listens under this name")
	}
	return nil, fault(StageGrant, "control_refused", "the control plane answers with the status %d", answer.StatusCode)
}
