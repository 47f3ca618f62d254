// Command sealway-broker asks a broker from the command line: digests, certificates, health, and how fast it answers.
//
//	sealway-broker [--socket PATH] [--timeout 5s] [--broker-uid UID] [--loop MS] COMMAND …
//
//	hash [--profile NAME] [--output-format hex|raw] TEXT…   digests; @FILE for a file's content
//	sign --csr FILE --ca-cert FILE (--ca-key-ref ID | --ca-key FILE) [--profile NAME] [--subject TEXT]
//	     [--crl-point URL] [--encoding pem|der]             a certificate
//	health                                                  SERVING, NOT_SERVING or UNKNOWN
//	benchmark [--calls N] [--concurrency N] [--profile NAME] [--bytes N] [--server]
//
// --loop repeats the command every so many milliseconds (1 to 1000) until a signal ends it, and then says on standard error what
// it did; benchmark ends with what it measured until then. Exit codes: 0, 1 where a call failed or health is not SERVING, 2 for
// arguments that are wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"sealway.dev/go/broker"
)

// usageError is a mistake in the arguments.
type usageError struct{ text string }

func (u usageError) Error() string { return u.text }

func wrong(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// tool is what every command has at hand.
type tool struct {
	client *broker.Client
	output io.Writer
}

// command reads its arguments, and gives what is then done once or again and again.
type command func(arguments []string) (func(ctx context.Context, at *tool) error, error)

var commands = map[string]command{"hash": hashCommand, "sign": signCommand, "health": healthCommand, "benchmark": benchmarkCommand}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "sealway-broker:", err)
	var usage usageError
	if errors.As(err, &usage) {
		os.Exit(2)
	}
	os.Exit(1)
}

func flags(name string) *flag.FlagSet {
	made := flag.NewFlagSet(name, flag.ContinueOnError)
	made.SetOutput(io.Discard)
	return made
}

func parse(set *flag.FlagSet, arguments []string) error {
	if err := set.Parse(arguments); err != nil {
		return wrong("%v", err)
	}
	return nil
}

func run(ctx context.Context, arguments []string, output io.Writer) error {
	set := flags("sealway-broker")
	socket := set.String("socket", os.Getenv("CRYPTO_BROKER_SOCKET"), "")
	timeout := set.Duration("timeout", 10*time.Second, "")
	uid := set.String("broker-uid", os.Getenv("CRYPTO_BROKER_UID"), "")
	loop := set.Int("loop", 0, "")
	if err := parse(set, arguments); err != nil {
		return err
	}
	options := broker.Options{Socket: *socket, Deadline: *timeout}
	switch {
	case *socket == "":
		return wrong("--socket PATH, or CRYPTO_BROKER_SOCKET, says where the broker listens")
	case *timeout <= 0 || *timeout > broker.DeadlineMax:
		return wrong("--timeout is more than 0 and at most %v", broker.DeadlineMax)
	case *loop < 0 || *loop > 1000:
		return wrong("--loop is 1 to 1000 milliseconds")
	case *uid != "":
		number, err := strconv.Atoi(*uid)
		if err != nil || number < 0 {
			return wrong("--broker-uid is a number")
		}
		options.BrokerUID = &number
	}
	begin, known := commands[set.Arg(0)]
	if !known {
		return wrong("a command is hash, sign, health or benchmark")
	}
	do, err := begin(set.Args()[1:])
	if err != nil {
		return err
	}
	client, err := broker.New(options)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	at := &tool{client, output}
	if *loop == 0 {
		return do(ctx, at)
	}
	return repeat(ctx, time.Duration(*loop)*time.Millisecond, func() error { return do(ctx, at) })
}

// repeat goes on after failures, and says at its end what it did. What the context took back was not answered, and did not fail.
func repeat(ctx context.Context, every time.Duration, do func() error) error {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	begun, calls, failed := time.Now(), 0, 0
	for {
		err := do()
		if err == nil || ctx.Err() == nil {
			calls++
		}
		if err != nil && ctx.Err() == nil {
			failed++
			fmt.Fprintln(os.Stderr, "sealway-broker:", err)
		}
		select {
		case <-ctx.Done():
			fmt.Fprintf(os.Stderr, "sealway-broker: %d calls, %d failed, in %.1f s\n", calls, failed, time.Since(begun).Seconds())
			if failed > 0 {
				return fmt.Errorf("%d of %d calls failed", failed, calls)
			}
			return nil
		case <-ticks.C:
		}
	}
}
