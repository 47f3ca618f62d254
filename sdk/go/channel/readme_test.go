package channel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheReadmesProgramRunsInAnEmptyProject(t *testing.T) {
	ground := newGround(t)
	ground.startControl()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, found := strings.Cut(string(readme), "```go\n")
	code, _, ended := strings.Cut(code, "```")
	if !found || !ended {
		t.Fatal("no program in the README")
	}
	module, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	write(t, filepath.Join(folder, "main.go"), []byte(code))
	sums, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "go.sum"), sums, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{
		{"mod", "init", "example"}, {"mod", "edit", "-require=sealway.dev/go/channel@v0.0.0", "-replace=sealway.dev/go/channel=" + module, "-replace=sealway.dev/go=" + filepath.Dir(module)},
		{"build", "-o", "example", "."},
	} {
		command := exec.Command("go", arguments...)
		command.Dir = folder
		// With what is at hand already: `go mod tidy` of the page would ask for the tests of others too.
		command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
		if said, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %s", strings.Join(arguments, " "), said)
		}
	}
	listener := exec.Command(filepath.Join(folder, "example"), "listen", ground.control, ground.path("token"))
	if err := listener.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Process.Kill(); _ = listener.Wait() }()
	said, err := exec.Command(filepath.Join(folder, "example"), "call", ground.control, ground.path("token")).CombinedOutput()
	if err != nil || !bytes.Equal(said, []byte("hello Go\n")) {
		t.Fatalf("%s: %v", said, err)
	}
}
