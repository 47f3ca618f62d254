// Command sealway-broker asks a broker from the command line: digests, certificates, health, and how fast it answers. With --help
// it says how.
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

const usage = `usage: sealway-broker [OPTIONS] COMMAND
  hash [--profile NAME] [--output-format hex|raw] TEXT...   digests; @FILE for a file's content
  sign --csr FILE --ca-cert FILE (--ca-key-ref ID | --ca-key FILE) [--profile NAME] [--subject TEXT]
       [--crl-point URL] [--encoding pem|der]     a certificate; ID names a key of the store, FILE is sent itself
  health                                          SERVING, NOT_SERVING or UNKNOWN
  benchmark [--calls N] [--concurrency N] [--profile NAME] [--bytes N] [--server]
options, before the command:
  --socket PATH      where the broker listens; CRYPTO_BROKER_SOCKET
  --timeout 10s      how long a call may take
  --broker-uid UID   the user that the broker has to be; CRYPTO_BROKER_UID
  --loop MS          again and again, with so many ms in between (1 to 1000), until it is interrupted
Interrupted, a loop and a benchmark end with what they did. The exit code is 0, 1 where a call failed or health is not SERVING,
2 for arguments that are wrong.
`

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
	var mistake usageError
	if errors.As(err, &mistake) {
		fmt.Fprintln(os.Stderr, "sealway-broker --help says what there is")
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
	err := set.Parse(arguments)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	return wrong("%v", err)
}

// run does what the arguments say; --help is no failure.
func run(ctx context.Context, arguments []string, output io.Writer) error {
	err := ask(ctx, arguments, output)
	if errors.Is(err, flag.ErrHelp) {
		_, err = io.WriteString(output, usage)
	}
	return err
}

func ask(ctx context.Context, arguments []string, output io.Writer) error {
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
