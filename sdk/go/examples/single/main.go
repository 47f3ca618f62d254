// Single makes one sealed purchase, says what happens, and sums up what it took. --json prints one line of JSON instead.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	sealway "sealway.dev/go"
	"sealway.dev/go/internal/purchase"
)

func main() {
	asJSON := len(os.Args) == 2 && os.Args[1] == "--json"
	if len(os.Args) > 1 && !asJSON {
		fmt.Fprintln(os.Stderr, "single: the only argument is --json")
		os.Exit(2)
	}
	env, err := purchase.ReadEnvironment()
	if err != nil {
		fmt.Fprintln(os.Stderr, "single:", err)
		os.Exit(2)
	}
	var seen []sealway.Exchange
	transport, err := env.Transport(func(exchange sealway.Exchange) { seen = append(seen, exchange) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "single:", err)
		os.Exit(2)
	}
	if err := run(env, transport, &seen, asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "single:", err)
		os.Exit(1)
	}
}

func run(env *purchase.Environment, transport *sealway.Transport, seen *[]sealway.Exchange, asJSON bool) error {
	ctx := context.Background()
	tell := func(format string, values ...any) {
		if !asJSON {
			fmt.Printf(format+"\n", values...)
		}
	}
	tell("1. Agreeing a session of wire %d with %s as %s", env.Wire, env.SessionURL, env.ClientID)
	id, err := transport.Session(ctx)
	if err != nil {
		return err
	}
	tell("   session %s", id)
	if transport.KeyID() != "" {
		tell("   suite %s, signed by the identity key %s", transport.Suite(), transport.KeyID())
	}
	tell("2. Sealing POST %s/transaction/purchase %s", env.ServerURL, purchase.Body)
	status, body, err := env.Call(ctx, transport.Client())
	if err != nil {
		return err
	}
	tell("3. Opened the answer, %d: %s", status, body)
	if asJSON {
		var suite any
		if transport.Suite() != "" {
			suite = transport.Suite()
		}
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"program": "single", "language": "go", "wire": env.Wire, "suite": suite,
			"session_id": id, "status": status, "body": body, "timings": timings(*seen)})
	}
	fmt.Println("\nPerformance Metrics Summary")
	for _, exchange := range *seen {
		fmt.Printf("  %-5s round trip %8.3f ms, HTTP %8.3f ms\n", exchange.Kind, ms(exchange.RoundTrip), ms(exchange.HTTP))
		for _, step := range exchange.Steps {
			fmt.Printf("        client  %-20s %8.3f ms\n", step.Name, ms(step.Duration))
		}
		for _, step := range exchange.ServerTiming {
			fmt.Printf("        server  %-20s %8.3f ms\n", step.Name, ms(step.Duration))
		}
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func timings(seen []sealway.Exchange) map[string]any {
	out := map[string]any{}
	for _, exchange := range seen {
		steps := func(list []sealway.Step) map[string]float64 {
			named := map[string]float64{}
			for _, step := range list {
				named[step.Name] = ms(step.Duration)
			}
			return named
		}
		out[exchange.Kind] = map[string]any{"round_trip_ms": ms(exchange.RoundTrip), "http_ms": ms(exchange.HTTP),
			"client_ms": steps(exchange.Steps), "server_ms": steps(exchange.ServerTiming)}
	}
	return out
}
