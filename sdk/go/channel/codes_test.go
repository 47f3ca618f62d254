package channel

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestEveryCodeOfThisPackageIsInTheRegistry(t *testing.T) {
	registry, err := os.ReadFile("../../../spec/registry.toml")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^\[channel_(?:client_)?errors\.(\w+)\]`).FindAllStringSubmatch(string(registry), -1) {
		known[found[1]] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	code := regexp.MustCompile(`(?:fault|caused)\([^"]*?[sS]tage\w*, "(\w+)"|code := "(\w+)"|code = "(\w+)"`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, found := range code.FindAllStringSubmatch(string(text), -1) {
			said[found[1]+found[2]+found[3]] = true
		}
	}
	for one := range said {
		if !known[one] {
			t.Errorf("the registry has no code %s", one)
		}
	}
	if len(said) < 25 {
		t.Errorf("only %d codes were found: %v", len(said), said)
	}
}

func TestClosedChannelsLeaveNoGoroutineRunning(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 10 {
		client, server := pair(t, 0x104, nil, nil)
		echo(t, server)
		stream, err := client.Open(within(t, 5*time.Second), "echo")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		<-server.Done()
	}
	// The remaining goroutines are of the tests' servers, which end with the test.
	for begun := time.Now(); runtime.NumGoroutine() > before+15; time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > 8*time.Second {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines are left of %d\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
