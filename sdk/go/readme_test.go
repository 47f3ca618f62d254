package sealway

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheReadmesProgramRunsInAnEmptyProject(t *testing.T) {
	url, _ := startGateway(t)
	pin := keyIDOf(t, url)
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, found := strings.Cut(string(readme), "```go\n")
	code, _, ended := strings.Cut(code, "```")
	if !found || !ended {
		t.Fatal("no program in the README")
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mod", "init", "example"}, {"mod", "edit", "-require=sealway.dev/go@v0.0.0", "-replace=sealway.dev/go=" + here}, {"vet", "."}, {"run", ".", url, pin}} {
		command := exec.Command("go", args...)
		command.Dir = folder
		command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %s", strings.Join(args, " "), out)
		}
		if args[0] == "run" && !strings.Contains(string(out), `200 OK {"status":"SUCCESS"`) {
			t.Fatalf("%s", out)
		}
	}
}
