// Checks a recorded history of a session store for linearizability: `linearizability FILE`, or standard input. It prints
// how much it checked; for each part that no order explains, its story; and fails when there is one.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	spread := flag.Duration("spread", time.Second, "how long a delete may take to reach other processes")
	limit := flag.Duration("limit", 10*time.Second, "how long one part may be thought about")
	flag.Parse()
	if err := run(flag.Arg(0), *spread, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "linearizability:", err)
		os.Exit(1)
	}
}

func run(file string, spread, limit time.Duration) error {
	var from io.Reader = os.Stdin
	if file != "" {
		opened, err := os.Open(file)
		if err != nil {
			return err
		}
		defer opened.Close()
		from = opened
	}
	history, err := read(from)
	if err != nil {
		return err
	}
	if len(history) == 0 {
		return fmt.Errorf("an empty history proves nothing")
	}
	parts := split(history, spread)
	broken := 0
	for _, p := range parts {
		if story := p.check(limit); story != "" {
			broken++
			fmt.Print(story)
		}
	}
	fmt.Printf("%d operations in %d parts, %d of them without an order that explains them\n",
		len(history), len(parts), broken)
	if broken > 0 {
		return fmt.Errorf("the history is not linearizable")
	}
	return nil
}
