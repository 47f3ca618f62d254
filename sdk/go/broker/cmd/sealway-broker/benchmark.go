package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// report is what a benchmark prints, as one line of JSON.
type report struct {
	Program string `json:"program"`
	// Calls that were made; fewer than asked for where it was interrupted.
	Calls       int                `json:"calls"`
	Failed      int64              `json:"failed"`
	Concurrency int                `json:"concurrency"`
	InputBytes  int                `json:"input_bytes"`
	Seconds     float64            `json:"seconds"`
	Throughput  float64            `json:"throughput_per_s"`
	LatencyMS   map[string]float64 `json:"latency_ms"`
	Interrupted bool               `json:"interrupted"`
}

func benchmarkCommand(arguments []string) (func(context.Context, *tool) error, error) {
	set := flags("benchmark")
	calls, concurrency := set.Int("calls", 1000, ""), set.Int("concurrency", 1, "")
	profile, length := set.String("profile", "Default", ""), set.Int("bytes", 256, "")
	ofServer := set.Bool("server", false, "")
	if err := parse(set, arguments); err != nil {
		return nil, err
	}
	if *calls < 1 || *calls > 10_000_000 || *concurrency < 1 || *concurrency > 256 || *length < 0 || *length > fileMax || set.NArg() > 0 {
		return nil, wrong("benchmark takes --calls 1 to 10000000, --concurrency 1 to 256, --bytes up to %d", fileMax)
	}
	if *ofServer {
		return func(ctx context.Context, at *tool) error {
			said, err := at.client.Benchmark(ctx)
			if err == nil {
				_, err = fmt.Fprintln(at.output, said)
			}
			return err
		}, nil
	}
	input := make([]byte, *length)
	return func(ctx context.Context, at *tool) error {
		// A call before the clock: the connection, and whether there is such a profile.
		if _, err := at.client.Hash(ctx, *profile, input); err != nil {
			return err
		}
		made := measure(ctx, *calls, *concurrency, func() error {
			_, err := at.client.Hash(ctx, *profile, input)
			return err
		})
		made.InputBytes = *length
		line, err := json.Marshal(made)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(at.output, string(line)); err != nil {
			return err
		}
		if made.Failed > 0 {
			return fmt.Errorf("%d of %d calls failed", made.Failed, made.Calls)
		}
		return nil
	}, nil
}

// measure makes calls until there were enough, or the context ends: a call that it took back does not count.
func measure(ctx context.Context, calls, concurrency int, call func() error) *report {
	var next, failed atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	begun := time.Now()
	var all sync.WaitGroup
	for range concurrency {
		all.Go(func() {
			var own []time.Duration
			for ctx.Err() == nil && next.Add(1) <= int64(calls) {
				from := time.Now()
				err := call()
				if err != nil && ctx.Err() != nil {
					break
				}
				if err != nil {
					failed.Add(1)
				}
				own = append(own, time.Since(from))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
		})
	}
	all.Wait()
	whole := time.Since(begun).Seconds()
	slices.Sort(took)
	var sum time.Duration
	for _, one := range took {
		sum += one
	}
	ms := func(took time.Duration) float64 { return float64(took.Microseconds()) / 1000 }
	at := func(share float64) float64 {
		if len(took) == 0 {
			return 0
		}
		return ms(took[int(share*float64(len(took)-1))])
	}
	return &report{
		Program: "benchmark", Calls: len(took), Failed: failed.Load(), Concurrency: concurrency, Seconds: whole,
		Throughput: float64(len(took)) / whole, Interrupted: len(took) < calls,
		LatencyMS: map[string]float64{
			"min": at(0), "mean": ms(sum / time.Duration(max(len(took), 1))), "p50": at(.5), "p90": at(.9), "p95": at(.95), "p99": at(.99), "max": at(1),
		},
	}
}
