// Package purchase is what the example programs share: their environment, the call that they make, and the service that answers it.
package purchase

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	sealway "sealway.dev/go"
	"sealway.dev/go/wire"
)

// Body is the call's.
const Body = `{"schemeCode":"AEF","amount":5000}`

const answerMax = 1 << 20

// Environment is what the variables say.
type Environment struct {
	SessionURL, ServerURL string
	ClientID              string
	Pins                  []string
	Wire                  wire.Version
	Concurrency           int
}

// ReadEnvironment reads it; an error names the variable.
func ReadEnvironment() (*Environment, error) {
	get := func(name, standard string) string {
		if value := os.Getenv(name); value != "" {
			return value
		}
		return standard
	}
	env := &Environment{SessionURL: get("SESSION_URL", "http://localhost:3000"), ClientID: get("SEALWAY_CLIENT_ID", "sealway-go")}
	env.ServerURL = get("SERVER_URL", env.SessionURL)
	version, err := strconv.Atoi(get("SEALWAY_WIRE", "3"))
	if err != nil || version < 1 || version > 3 {
		return nil, fmt.Errorf("SEALWAY_WIRE is 1, 2 or 3")
	}
	env.Wire = wire.Version(version)
	if env.Concurrency, err = strconv.Atoi(get("BENCHMARK_CONCURRENCY", "1")); err != nil || env.Concurrency < 1 || env.Concurrency > 1000 {
		return nil, fmt.Errorf("BENCHMARK_CONCURRENCY is 1 to 1000")
	}
	for pin := range strings.SplitSeq(os.Getenv("SEALWAY_PINS"), ",") {
		if pin = strings.TrimSpace(pin); pin != "" {
			env.Pins = append(env.Pins, pin)
		}
	}
	return env, nil
}

// Transport makes the client's transport, and says loudly where nobody has vouched for the service.
func (e *Environment) Transport(observe func(sealway.Exchange)) (*sealway.Transport, error) {
	config := sealway.Config{AuthorityURL: e.SessionURL, Wire: e.Wire, ClientID: e.ClientID, OnMetrics: observe}
	switch {
	case e.Wire != wire.Wire3:
		fmt.Fprintf(os.Stderr, "WARNING: on wire %d nothing proves who the service is.\n", e.Wire)
	case len(e.Pins) > 0:
		config.Trust = sealway.TrustPins(e.Pins...)
	default:
		fmt.Fprintln(os.Stderr, "WARNING: SEALWAY_PINS is not set. The service's key is trusted at first use: an attacker in between stays undetected.")
		config.Trust = sealway.TrustFirstUse(nil)
	}
	transport, err := sealway.NewTransport(e.ServerURL, config)
	if err != nil {
		return nil, fmt.Errorf("SESSION_URL, SERVER_URL, SEALWAY_PINS or SEALWAY_CLIENT_ID: %w", err)
	}
	return transport, nil
}

// Call makes the call once, and wants a success.
func (e *Environment) Call(ctx context.Context, client *http.Client) (status int, answer json.RawMessage, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "POST", strings.TrimSuffix(e.ServerURL, "/")+"/transaction/purchase", bytes.NewReader([]byte(Body)))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, answerMax))
	if err != nil {
		return response.StatusCode, nil, err
	}
	var shape struct {
		Status string `json:"status"`
	}
	if response.StatusCode != http.StatusOK || json.Unmarshal(data, &shape) != nil || shape.Status != "SUCCESS" {
		return response.StatusCode, nil, fmt.Errorf("the service answered %d, and no success", response.StatusCode)
	}
	return response.StatusCode, data, nil
}
