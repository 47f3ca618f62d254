// Benchmark makes N sealed purchases and tells throughput and percentiles. --json prints one line of JSON instead of a table.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	sealway "sealway.dev/go"
	"sealway.dev/go/internal/purchase"
)

func main() {
	n, asJSON, ok := arguments(os.Args[1:])
	if !ok {
		fmt.Fprintln(os.Stderr, "benchmark: the arguments are N, 1 to 10000000, and perhaps --json")
		os.Exit(2)
	}
	env, err := purchase.ReadEnvironment()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmark:", err)
		os.Exit(2)
	}
	transport, err := env.Transport(nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmark:", err)
		os.Exit(2)
	}
	failed, err := run(env, transport, n, asJSON)
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmark:", err)
		os.Exit(1)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func arguments(args []string) (n int, asJSON, ok bool) {
	for _, arg := range args {
		number, err := strconv.Atoi(arg)
		switch {
		case arg == "--json" && !asJSON:
			asJSON = true
		case err == nil && n == 0 && number >= 1 && number <= 10_000_000:
			n = number
		default:
			return 0, false, false
		}
	}
	return n, asJSON, n > 0
}

func run(env *purchase.Environment, transport *sealway.Transport, n int, asJSON bool) (failed int64, err error) {
	client, ctx := transport.Client(), context.Background()
	warmup := min(max(n/10, 1), 100)
	for range warmup {
		if _, _, err := env.Call(ctx, client); err != nil {
			return 0, fmt.Errorf("warm-up: %w", err)
		}
	}
	latencies := make([]float64, n)
	var next, done, failures atomic.Int64
	var first sync.Once
	stop := progress(&done, n)
	start := time.Now()
	var group sync.WaitGroup
	for range min(env.Concurrency, n) {
		group.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(n) {
					return
				}
				begun := time.Now()
				_, _, err := env.Call(ctx, client)
				latencies[i] = float64(time.Since(begun).Nanoseconds()) / 1e6
				if done.Add(1); err != nil {
					latencies[i] = math.NaN()
					failures.Add(1)
					first.Do(func() { fmt.Fprintln(os.Stderr, "\nbenchmark: the first failure:", err) })
				}
			}
		})
	}
	group.Wait()
	seconds := time.Since(start).Seconds()
	stop()
	latencies = slices.DeleteFunc(latencies, math.IsNaN)
	slices.Sort(latencies)
	failed = failures.Load()
	return failed, report(env, n, warmup, failed, seconds, latencies, asJSON)
}

// progress writes a line to standard error while it goes on.
func progress(done *atomic.Int64, n int) func() {
	ticker, end, ended := time.NewTicker(200*time.Millisecond), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticker.C:
				fmt.Fprintf(os.Stderr, "\r%d of %d", done.Load(), n)
			case <-end:
				fmt.Fprintf(os.Stderr, "\r%d of %d\n", done.Load(), n)
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(end)
		<-ended
	}
}

func report(env *purchase.Environment, n, warmup int, failed int64, seconds float64, sorted []float64, asJSON bool) error {
	quantile := func(p float64) float64 {
		if len(sorted) == 0 {
			return 0
		}
		return math.Round(sorted[min(len(sorted)-1, int(math.Ceil(p*float64(len(sorted))))-1)]*1000) / 1000
	}
	mean := 0.0
	for _, each := range sorted {
		mean += each / float64(len(sorted))
	}
	latency := map[string]float64{"min": quantile(1e-12), "mean": math.Round(mean*1000) / 1000, "p50": quantile(.5), "p90": quantile(.9), "p95": quantile(.95),
		"p99": quantile(.99), "max": quantile(1)}
	throughput := math.Round(float64(len(sorted))/seconds*10) / 10
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"program": "benchmark", "language": "go", "wire": env.Wire, "n": n, "concurrency": env.Concurrency,
			"warmup": warmup, "failed": failed, "seconds": math.Round(seconds*1e6) / 1e6, "throughput_per_s": throughput, "latency_ms": latency})
	}
	fmt.Printf("%d calls on wire %d, %d at a time, %d failed, %.3f s: %.1f a second\n", n, env.Wire, env.Concurrency, failed, seconds, throughput)
	for _, name := range []string{"min", "mean", "p50", "p90", "p95", "p99", "max"} {
		fmt.Printf("  %-4s %9.3f ms\n", name, latency[name])
	}
	return nil
}
