package broker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheReadmesProgramRunsInAnEmptyProject(t *testing.T) {
	socket, _ := serve(t)
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
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "go.sum"), sums, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{
		{"mod", "init", "example"}, {"mod", "edit", "-require=sealway.dev/go/broker@v0.0.0", "-replace=sealway.dev/go/broker=" + module},
		{"run", ".", socket},
	} {
		command := exec.Command("go", arguments...)
		command.Dir = folder
		// With what is at hand already: `go mod tidy` of the page would ask for the tests of others too.
		command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
		said, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %s", strings.Join(arguments, " "), said)
		}
		if arguments[0] == "run" && !strings.HasSuffix(string(said), "by sha3-512\n") {
			t.Errorf("%s", said)
		}
	}
}
