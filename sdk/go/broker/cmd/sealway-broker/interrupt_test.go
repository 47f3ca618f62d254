package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// said is what a process writes while others look.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(text)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// interrupted runs the command until isEnough of what it said, sends it the signal of Ctrl-C, and gives what it said in the end.
func interrupted(t *testing.T, binary string, isEnough func(output, words string) bool, arguments ...string) (output, words string, code int) {
	t.Helper()
	var out, err said
	command := exec.Command(binary, arguments...)
	command.Stdout, command.Stderr = &out, &err
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(30*time.Second, func() { _ = command.Process.Kill() })
	defer late.Stop()
	go func() {
		for range 2000 {
			if isEnough(out.String(), err.String()) {
				_ = command.Process.Signal(os.Interrupt)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	var exit *exec.ExitError
	if failed := command.Wait(); failed != nil && !errors.As(failed, &exit) {
		t.Fatal(failed)
	}
	return out.String(), err.String(), command.ProcessState.ExitCode()
}

func TestAnInterruptedLoopOrBenchmarkPrintsItsResult(t *testing.T) {
	_, socket := serve(t)
	binary := filepath.Join(t.TempDir(), "sealway-broker")
	if words, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, words)
	}
	output, words, code := interrupted(t, binary, func(output, _ string) bool { return strings.Count(output, "\n") > 2 },
		"--socket", socket, "--loop", "50", "health")
	calls := strings.Count(output, "SERVING\n")
	if !regexp.MustCompile(`^sealway-broker: [0-9]+ calls, 0 failed, in [0-9.]+ s\n$`).MatchString(words) || calls < 3 || code != 0 {
		t.Errorf("%d: %q, %q", code, output, words)
	}
	output, words, code = interrupted(t, binary, func(_, words string) bool { return strings.Contains(words, "sealway-broker:") },
		"--socket", filepath.Join(t.TempDir(), "none"), "--loop", "50", "health")
	if !regexp.MustCompile(`(?m)^sealway-broker: [1-9][0-9]* calls, [1-9][0-9]* failed, in [0-9.]+ s$`).MatchString(words) || output != "" || code != 1 {
		t.Errorf("%d: %q, %q", code, output, words)
	}
	begun := time.Now()
	output, words, code = interrupted(t, binary, func(string, string) bool { return time.Since(begun) > time.Second },
		"--socket", socket, "benchmark", "--calls", "10000000", "--concurrency", "4")
	var made report
	if err := json.Unmarshal([]byte(output), &made); err != nil || words != "" || code != 0 {
		t.Fatalf("%d: %q, %q", code, output, words)
	}
	if !made.Interrupted || made.Calls == 0 || made.Calls >= 10_000_000 || made.Failed != 0 || made.LatencyMS["p50"] <= 0 {
		t.Errorf("%s", output)
	}
}
