package sealway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"sealway.dev/go/internal/recent"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

const authorityTimeout = 5 * time.Second

// Authority is a [SessionStore] that asks a session authority over HTTP. spec/session.md#authority-endpoints
type AuthorityStore struct {
	base   string
	secret string
	client *http.Client
	kept   *recent.Sessions
}

// NewAuthorityStore asks the authority at url, which is https:// or, on this machine alone, http://: session keys travel in its
// answers. secret is what it knows this API side by. base sends the requests; nil is a transport of its own.
func NewAuthorityStore(url, secret string, base http.RoundTripper) (*AuthorityStore, error) {
	parsed, err := baseURL(url, "the authority's URL")
	if err != nil {
		return nil, err
	}
	if parsed.Scheme == "http" && !loopback(parsed) {
		return nil, &UsageError{"the authority's URL is https://, or http:// to this machine itself: session keys travel there"}
	}
	if len(secret) < 16 || strings.ContainsFunc(secret, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		return nil, &UsageError{"the authority's secret is a line of at least 16 visible ASCII characters"}
	}
	if base == nil {
		base = &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 256, IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: 5 * time.Second,
			DisableCompression: true, MaxResponseHeaderBytes: 16 << 10}
	}
	client := &http.Client{Transport: base, Timeout: authorityTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &AuthorityStore{base: parsed.Scheme + "://" + parsed.Host + "/v1/authority/", secret: secret, client: client, kept: recent.New()}, nil
}

func loopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// ReadSecret reads an authority's secret from a file: one line.
func ReadSecret(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, 4096))
	return strings.TrimSpace(string(data)), err
}

// String shows no secret.
func (a *AuthorityStore) String() string { return "AuthorityStore(" + a.base + ")" }

// Format shows no secret, whatever the verb.
func (a *AuthorityStore) Format(state fmt.State, _ rune) { io.WriteString(state, a.String()) }

// ask exchanges one message. An answer that is not understood is none.
func (a *AuthorityStore) ask(ctx context.Context, method, path string, body []byte) (int, wire.Members, error) {
	request, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, ErrStoreUnavailable
	}
	// One who sends a claim twice for a broken connection could lose it: the library must not.
	request.GetBody = nil
	request.Header.Set("Authorization", "Bearer "+a.secret)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := a.client.Do(request)
	if err != nil {
		return 0, nil, ErrStoreUnavailable
	}
	defer response.Body.Close()
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	answer, err := readBounded(response.Body, "an authority's answer", wire.AuthorityBodyMax)
	if err != nil || kind != "application/json" {
		return 0, nil, ErrStoreUnavailable
	}
	members, err := wire.ParseObject(answer)
	if err != nil {
		return 0, nil, ErrStoreUnavailable
	}
	return response.StatusCode, members, nil
}

// Session is that of [SessionStore]. A session is used for less than a second without asking again.
func (a *AuthorityStore) Session(ctx context.Context, id string) (*session.Session, error) {
	if kept := a.kept.Get(id); kept != nil {
		return kept, nil
	}
	asked := time.Now()
	status, members, err := a.ask(ctx, http.MethodGet, "sessions/"+id, nil)
	if err != nil {
		return nil, err
	}
	told, _ := members.Text("id")
	code, _ := members.Text("error")
	switch {
	case told != id:
		// It may be the answer to another question: no end of a session.
		return nil, ErrStoreUnavailable
	case status == http.StatusNotFound && code == "SESSION_NOT_FOUND":
		a.kept.Forget(id)
		return nil, wire.Refuse(wire.CodeSessionUnknown)
	case status != http.StatusOK:
		return nil, ErrStoreUnavailable
	}
	record, err := session.RecordOf(members)
	if err != nil {
		return nil, ErrStoreUnavailable
	}
	defer record.Key.Wipe()
	made, err := session.NewSession(record)
	if err != nil {
		return nil, err
	}
	a.kept.Put(id, made, asked)
	return made, nil
}

// Reserve is that of [SessionStore]. A claim is asked for once: when its answer is lost it may have been granted.
func (a *AuthorityStore) Reserve(ctx context.Context, claim session.Claim) (session.Fresh, error) {
	body, _ := json.Marshal(struct {
		Key     string `json:"key"`
		Sealed  bool   `json:"sealed"`
		StampMs uint64 `json:"stamp_ms"`
	}{claim.KeyHex(), claim.Sealed, claim.StampMs}) // cannot fail
	status, members, err := a.ask(ctx, http.MethodPost, "nonces", body)
	if err != nil {
		return session.Fresh{}, err
	}
	key, _ := members.Text("key")
	code, _ := members.Text("error")
	switch {
	case status == http.StatusInsufficientStorage && code == "NONCES_FULL":
		return session.Fresh{}, ErrStoreFull
	case key != claim.KeyHex():
		return session.Fresh{}, ErrStoreUnavailable
	case status == http.StatusCreated:
		return session.Reserved(claim), nil
	case status == http.StatusConflict && code == "REPLAYED":
		return session.Fresh{}, wire.Refuse(wire.CodeReplayed)
	case status == http.StatusConflict && code == "TIMESTAMP_OUTSIDE_WINDOW":
		return session.Fresh{}, wire.Refuse(wire.CodeTimestampOutsideWindow)
	}
	return session.Fresh{}, ErrStoreUnavailable
}

// Put keeps a session at the authority; ErrStoreFull where it has no room.
func (a *AuthorityStore) Put(ctx context.Context, record *session.Record) error {
	status, members, err := a.ask(ctx, http.MethodPut, "sessions/"+record.ID, record.Encode())
	if err != nil {
		return err
	}
	if id, _ := members.Text("id"); status == http.StatusOK && id == record.ID {
		return nil
	}
	if code, _ := members.Text("error"); status == http.StatusInsufficientStorage && code == "SESSIONS_FULL" {
		return ErrStoreFull
	}
	return ErrStoreUnavailable
}

// Delete ends a session at the authority.
func (a *AuthorityStore) Delete(ctx context.Context, id string) error {
	a.kept.Forget(id)
	status, members, err := a.ask(ctx, http.MethodDelete, "sessions/"+id, nil)
	if err != nil {
		return err
	}
	if told, _ := members.Text("id"); status != http.StatusOK || told != id {
		return ErrStoreUnavailable
	}
	return nil
}
