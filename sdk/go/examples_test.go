package sealway

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// said is what a program wrote, on both of its outputs.
type said struct{ stdout, stderr bytes.Buffer }

func (s *said) all() string { return s.stdout.String() + "\n" + s.stderr.String() }

func runSaid(t *testing.T, env []string, program string, args ...string) *said {
	t.Helper()
	out := &said{}
	command := exec.CommandContext(t.Context(), program, args...)
	command.Env, command.Stdout, command.Stderr = append(os.Environ(), env...), &out.stdout, &out.stderr
	if err := command.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out.all())
	}
	return out
}

// keysOf returns every secret of a session that its authority has.
func keysOf(t *testing.T, authority *AuthorityStore, id string) [][]byte {
	found, err := authority.Session(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	key := found.Record().Key
	keys := [][]byte{bytes.Clone(key[:])}
	if found.Record().Wire == wire.Wire3 {
		for _, label := range []string{"c2s", "s2c", "exporter", "confirm"} {
			keys = append(keys, crypto.Expand(key[:], 32, []byte("sealway/3 "+label)))
		}
	}
	return keys
}

var (
	sessionIDs = regexp.MustCompile(`S-[0-9a-f]{32}`)
	// longWords are what 32 bytes look like in hexadecimal or base64.
	longWords = regexp.MustCompile(`[0-9A-Fa-f]{64}|[A-Za-z0-9+/_-]{43}`)
)

func TestTheExampleProgramsPrintNoKey(t *testing.T) {
	url, secretFile := startGateway(t)
	folder := build(t, "./examples/single", "./examples/benchmark", "./examples/server")
	authority := must(NewAuthorityStore(url, peersSecret, nil))
	service, heard := exec.Command(filepath.Join(folder, "server")), &said{}
	service.Env = append(os.Environ(), "PORT=0", "AUTHORITY_URL="+url, "AUTHORITY_SECRET_FILE="+secretFile)
	service.Stderr = &heard.stderr
	output := must(service.StdoutPipe())
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	defer service.Process.Kill()
	line := make([]byte, 128)
	n, _ := output.Read(line)
	heard.stdout.Write(line[:n])
	server := strings.TrimSpace(strings.TrimPrefix(heard.stdout.String(), "listening "))
	if !strings.HasPrefix(server, "http://127.0.0.1:") {
		t.Fatal(heard.all())
	}
	pin := keyIDOf(t, url)
	sessions, texts := map[string]bool{}, ""
	for _, at := range []string{url, server} {
		for _, version := range []string{"1", "2", "3"} {
			env := []string{"SESSION_URL=" + url, "SERVER_URL=" + at, "SEALWAY_WIRE=" + version, "SEALWAY_PINS=" + pin, "BENCHMARK_CONCURRENCY="}
			for _, args := range [][]string{nil, {"--json"}} {
				out := runSaid(t, env, filepath.Join(folder, "single"), args...)
				ids := sessionIDs.FindAllString(out.stdout.String(), -1)
				if len(ids) == 0 {
					t.Fatal("no session is named: ", out.all())
				}
				sessions[ids[0]] = true
				texts += out.all()
				if args == nil {
					continue
				}
				var line struct {
					Timings map[string]struct {
						RoundTrip float64 `json:"round_trip_ms"`
						HTTP      float64 `json:"http_ms"`
					} `json:"timings"`
				}
				if err := json.Unmarshal(out.stdout.Bytes(), &line); err != nil {
					t.Fatal(err)
				}
				for _, kind := range []string{"init", "call"} {
					if took := line.Timings[kind]; took.RoundTrip <= 0 || took.HTTP <= 0 {
						t.Fatalf("wire %s: no timings of the %s: %s", version, kind, out.stdout.String())
					}
				}
			}
			texts += runSaid(t, env, filepath.Join(folder, "benchmark"), "10").all()
		}
	}
	// The server logs a rejection without a key.
	for _, kid := range []string{"session:S-" + strings.Repeat("0", 32), "x"} {
		request, _ := http.NewRequest("POST", server+"/transaction/purchase", strings.NewReader(purchaseBody))
		request.Header.Set(wire.HeaderKid, kid)
		response, err := http.DefaultClient.Do(request)
		if err != nil || response.StatusCode/100 != 4 {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	service.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(10*time.Second, func() { service.Process.Kill() })
	heard.stdout.ReadFrom(output)
	if err := service.Wait(); err != nil || heard.stderr.Len() == 0 {
		t.Fatal(err, heard.all())
	}
	timer.Stop()
	texts += heard.all()
	if len(sessions) != 12 {
		t.Fatal(len(sessions), " sessions")
	}
	for id := range sessions {
		for _, key := range keysOf(t, authority, id) {
			for _, form := range []string{hex.EncodeToString(key), strings.ToUpper(hex.EncodeToString(key)), base64.RawStdEncoding.EncodeToString(key),
				base64.RawURLEncoding.EncodeToString(key), string(key)} {
				if strings.Contains(texts, form) {
					t.Errorf("a key of %s is printed", id)
				}
			}
		}
	}
	if word := longWords.FindString(texts); word != "" || strings.Contains(texts, peersSecret) {
		t.Errorf("this may be a key: %s", word)
	}
}

func TestTheExampleProgramsNameAWrongVariableAndEndWith2(t *testing.T) {
	folder := build(t, "./examples/single", "./examples/benchmark", "./examples/server")
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]string{{"single", "SEALWAY_WIRE=4"}, {"single", "SEALWAY_PINS=x"}, {"single", "SERVER_URL=nowhere"}, {"benchmark", "BENCHMARK_CONCURRENCY=1001", "1"},
		{"benchmark", "BENCHMARK_CONCURRENCY=0", "1"}, {"benchmark", "SEALWAY_CLIENT_ID=a|b", "1"}, {"server", "AUTHORITY_SECRET_FILE="},
		{"server", "AUTHORITY_SECRET_FILE=" + short}, {"server", "PORT=65536"}, {"server", "PORT=x"}} {
		command := exec.Command(filepath.Join(folder, c[0]), c[2:]...)
		command.Env = append(os.Environ(), c[1])
		out, _ := command.CombinedOutput()
		name, _, _ := strings.Cut(c[1], "=")
		if command.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), name) && !strings.Contains(string(out), "secret") {
			t.Errorf("%v: %d %s", c, command.ProcessState.ExitCode(), out)
		}
	}
}
