package sealway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sealway.dev/go/crypto"
	"sealway.dev/go/mle"
	"sealway.dev/go/wire"
)

// sealwayBinary finds the server; without it the test fails.
func sealwayBinary(t *testing.T) string {
	binary := os.Getenv("SEALWAY_BIN")
	if binary == "" {
		binary, _ = filepath.Abs("../../target/debug/sealway")
	}
	if info, err := os.Stat(binary); err != nil || info.Mode()&0o111 == 0 {
		t.Fatalf("no server to test against: set SEALWAY_BIN to the binary sealway, or build it (cargo build --package sealway-cli); %s is none", binary)
	}
	return binary
}

// lines collects what a process says, and finds a line in it.
type lines struct{ found chan string }

func (l *lines) read(from io.Reader, want *regexp.Regexp, all *bytes.Buffer) {
	scanner := bufio.NewScanner(from)
	for scanner.Scan() {
		if all.Len() < 1<<20 {
			all.WriteString(scanner.Text() + "\n")
		}
		if match := want.FindStringSubmatch(scanner.Text()); match != nil {
			select {
			case l.found <- match[1]:
			default:
			}
		}
	}
}

// start runs a program until the test ends, and gives what want finds in what it says.
func start(t *testing.T, command *exec.Cmd, want string) string {
	t.Helper()
	var all bytes.Buffer
	found := &lines{make(chan string, 1)}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = writer, writer
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		found.read(reader, regexp.MustCompile(want), &all)
	}()
	t.Cleanup(func() {
		command.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(10*time.Second, func() { command.Process.Kill() })
		command.Wait()
		timer.Stop()
		reader.Close()
		<-read
		if t.Failed() {
			t.Logf("what %s said:\n%s", command.Path, all.String())
		}
	})
	select {
	case match := <-found.found:
		return match
	case <-time.After(20 * time.Second):
		t.Fatalf("%s does not say where it serves", command.Path)
	}
	return ""
}

const gatewayConfig = `
listeners:
  - address: "127.0.0.1:0"
routes:
  - match: { path_prefix: ["/session/", "/v1/session/", "/v3/", "/v1/authority/"], path: ["/.well-known/sealway-keys", "/health", "/ready"] }
    sessions: {}
  - match: { path_prefix: "/transaction/" }
    sealed: required
    upstream: shop
upstreams:
  shop: { servers: ["demo:"] }
sessions:
  identity: { allow_generated: true }
  authority_secret_file: "peers.secret"
  anonymous_paths: ["/transaction/purchase"]
telemetry: { log_format: json, log_level: info }
`

const peersSecret = "a-secret-of-the-tests-alone-0123456789"

func startGateway(t *testing.T) (url, secretFile string) {
	return startGatewayIn(t, t.TempDir(), gatewayConfig)
}

func startGatewayIn(t *testing.T, folder, config string) (url, secretFile string) {
	binary := sealwayBinary(t)
	secretFile = filepath.Join(folder, "peers.secret")
	if err := errors.Join(os.WriteFile(filepath.Join(folder, "serve.yaml"), []byte(config), 0o600), os.WriteFile(secretFile, []byte(peersSecret+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(binary, "serve", "--config", filepath.Join(folder, "serve.yaml"))
	command.Dir = folder
	address := start(t, command, `"message":"serving".*?"addresses":"\[([0-9.:]*)`)
	return "http://" + address, secretFile
}

func build(t *testing.T, names ...string) string {
	folder := t.TempDir()
	for _, name := range names {
		if out, err := exec.Command("go", "build", "-o", filepath.Join(folder, filepath.Base(name)), name).CombinedOutput(); err != nil {
			t.Fatalf("%s: %s", name, out)
		}
	}
	return folder
}

func keyIDOf(t *testing.T, url string) string {
	response, err := http.Get(url + KeySetPath)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var set struct {
		Keys []struct {
			KeyID string `json:"key_id"`
		} `json:"keys"`
	}
	if err := json.NewDecoder(response.Body).Decode(&set); err != nil || len(set.Keys) == 0 {
		t.Fatal("no key set", err)
	}
	return set.Keys[0].KeyID
}

const purchaseBody = `{"schemeCode":"AEF","amount":5000}`

func TestTheClientCallsARealGatewayOnEveryWireAndSuite(t *testing.T) {
	url, _ := startGateway(t)
	trust := TrustPins(keyIDOf(t, url))
	for _, config := range []Config{{Wire: 1}, {Wire: 1, InitPath: "/session/init/anon"}, {Wire: 2}, {Wire: 2, InitPath: "/v1/session/init"},
		{Suites: []crypto.Suite{crypto.P256}}, {Suites: []crypto.Suite{crypto.SecP256r1MLKEM768}}, {Suites: []crypto.Suite{crypto.X25519MLKEM768}}, {}} {
		config.Trust = trust
		transport := must(NewTransport(url, config))
		for range 2 {
			response, body, err := do(t, transport, "POST", url+"/transaction/purchase", purchaseBody)
			if err != nil || response.StatusCode != 200 || !strings.Contains(body, `"SUCCESS"`) {
				t.Fatalf("wire %d %s %v: %v %s", config.Wire, config.InitPath, config.Suites, err, body)
			}
		}
		if config.Wire != 0 {
			continue
		}
		agreed, _ := transport.native.peek()
		renewed, err := transport.agreeNative(t.Context(), agreed)
		if err != nil || renewed.session.ID() == agreed.session.ID() {
			t.Fatal("renewal: ", err)
		}
		// The gateway proves a rejection for the stamp, and the client heals. A request that is stamped ahead becomes valid later.
		agreed.setClock(agreed.serverMs - 3_600_000)
		if _, _, err := do(t, transport, "POST", url+"/transaction/purchase", purchaseBody); err != nil {
			t.Fatal("a clock that is an hour late: ", err)
		}
		agreed.setClock(agreed.serverMs + 3_600_000)
		var problem *ProblemError
		if _, _, err := do(t, transport, "POST", url+"/transaction/purchase", purchaseBody); !errors.As(err, &problem) || problem.Code != "clock_skew" || !problem.Proven {
			t.Fatal("a clock that is an hour ahead: ", err)
		}
		if _, _, err := do(t, transport, "POST", url+"/transaction/purchase", purchaseBody); err != nil {
			t.Fatal("the clock was not set: ", err)
		}
		// The session is ended at the service.
		other := must(NewTransport(url, config))
		other.native.current = agreed
		if err := other.End(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	transport := must(NewTransport(url, Config{Trust: trust}))
	id := must(transport.Session(t.Context()))
	authority := must(NewAuthorityStore(url, peersSecret, nil))
	if err := authority.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	var lost *ProblemError
	if _, _, err := do(t, transport, "POST", url+"/transaction/purchase", purchaseBody); !errors.As(err, &lost) || lost.Code != "session_expired" || lost.Proven {
		t.Fatal("a purchase in a session that was lost before its time: ", err)
	}
	if _, _, err := do(t, transport, "POST", url+"/transaction/purchase", purchaseBody); err != nil {
		t.Fatal("the next one: ", err)
	}
	if must(transport.Session(t.Context())) == id {
		t.Fatal("the same session")
	}
}

func TestARenewalReachesAGatewayOnceAndTheNextCallsAreOfTheNewSession(t *testing.T) {
	url, _ := startGateway(t)
	var mu sync.Mutex
	var seen []string
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		seen = append(seen, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Kid"))
		mu.Unlock()
		return http.DefaultTransport.RoundTrip(r)
	})
	transport := must(NewTransport(url, Config{Trust: TrustPins(keyIDOf(t, url)), TTL: 300 * time.Second, Base: base}))
	first := must(transport.Session(t.Context()))
	agreed, _ := transport.native.peek()
	agreed.sent = agreed.sent.Add(-280 * time.Second)
	// Four at once: the session is still good, and one of them has it renewed beside.
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if _, _, err := do(t, transport, "POST", url+"/transaction/purchase", purchaseBody); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	second := first
	for range 250 {
		if second = must(transport.Session(t.Context())); second != first {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if _, _, err := do(t, transport, "POST", url+"/transaction/purchase", purchaseBody); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, each := range seen {
		count[each]++
	}
	inits, renewals := count["POST /v3/sessions "], count["POST /v3/sessions/"+first+"/renew session:"+first]
	if last := seen[len(seen)-1]; second == first || inits != 1 || renewals != 1 || last != "POST /transaction/purchase session:"+second {
		t.Fatalf("%d inits, %d renewals, at last %s: %q", inits, renewals, last, seen)
	}
}

func TestTheMiddlewareServesSessionsOfARealAuthority(t *testing.T) {
	url, _ := startGateway(t)
	authority := must(NewAuthorityStore(url, peersSecret, nil))
	middleware := must(NewMiddleware(MiddlewareConfig{Store: authority}))
	server := &http.Server{Handler: middleware.Handler(http.HandlerFunc(echo))}
	listener := listen(t)
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	base := "http://" + listener.Addr().String()
	trust := TrustPins(keyIDOf(t, url))
	for _, version := range []wire.Version{1, 2, 3} {
		transport := must(NewTransport(base, Config{AuthorityURL: url, Wire: version, Trust: trust, ClientID: "who am i"}))
		for range 3 {
			response, body, err := do(t, transport, "POST", base+"/a?b", `{"x":1}`)
			if err != nil || body != `{"x":1}` {
				t.Fatal(version, err, body)
			}
			if saw := response.Header.Get("X-Saw"); version > 1 && !strings.HasSuffix(saw, "who am i") {
				t.Fatal(saw)
			}
		}
	}
	// Renewals and ends are the authority's: the middleware has no part in them.
	for _, wrong := range []string{"a-secret-of-nobody-0123456789", peersSecret + "x"} {
		if _, err := must(NewAuthorityStore(url, wrong, nil)).Session(t.Context(), "S-"+strings.Repeat("0", 32)); !errors.Is(err, ErrStoreUnavailable) {
			t.Fatal(err)
		}
	}
	if _, err := authority.Session(t.Context(), "S-"+strings.Repeat("0", 32)); !errors.Is(err, wire.CodeSessionUnknown) {
		t.Fatal(err)
	}
}

func TestTokensOfCardSchemesAreClaimedAtARealAuthority(t *testing.T) {
	url, _ := startGateway(t)
	for _, profile := range []mle.Profile{mle.MastercardJWE(), mle.VisaAcceptance()} {
		s := newMLEService(t, profile, func(c *MLEMiddlewareConfig) { c.Store = must(NewAuthorityStore(url, peersSecret, nil)) }, mleEcho)
		body := s.sealed(mleText)
		first, _ := s.post(t, body)
		second, _ := s.post(t, body)
		if first != 200 || second != 400 || s.lastClass() != "replayed" || s.served.Load() != 1 {
			t.Errorf("%s: %d %d %s", profile.Name(), first, second, s.lastClass())
		}
	}
}

func TestTheExampleProgramsRunAsTheMatrixRunsThem(t *testing.T) {
	url, secretFile := startGateway(t)
	folder := build(t, "./examples/single", "./examples/benchmark", "./examples/server")
	service := exec.Command(filepath.Join(folder, "server"))
	service.Env = append(os.Environ(), "PORT=0", "AUTHORITY_URL="+url, "AUTHORITY_SECRET_FILE="+secretFile)
	server := start(t, service, `^listening (http://127\.0\.0\.1:[0-9]+)$`)
	if response, err := http.Get(server + "/health"); err != nil || response.StatusCode != 200 {
		t.Fatal(err)
	}
	pin := keyIDOf(t, url)
	for _, at := range []string{url, server} {
		for version := 1; version <= 3; version++ {
			env := append(os.Environ(), "SESSION_URL="+url, "SERVER_URL="+at, fmt.Sprint("SEALWAY_WIRE=", version), "SEALWAY_PINS="+pin, "BENCHMARK_CONCURRENCY=4")
			var single struct {
				Program, Language string
				Wire, Status      int
				Suite             *string
				SessionID         string `json:"session_id"`
				Body              struct{ Status string }
				Timings           map[string]any
			}
			runJSON(t, &single, env, filepath.Join(folder, "single"), "--json")
			if single.Program != "single" || single.Language != "go" || single.Wire != version || single.Status != 200 || single.Body.Status != "SUCCESS" ||
				(single.Suite != nil) != (version == 3) || !wire.ValidSessionID(single.SessionID) || len(single.Timings) == 0 {
				t.Fatalf("%+v", single)
			}
			var benchmark struct {
				Program        string
				N, Failed      int
				Warmup         int
				Concurrency    int
				Seconds        float64
				ThroughputPerS float64            `json:"throughput_per_s"`
				LatencyMs      map[string]float64 `json:"latency_ms"`
			}
			runJSON(t, &benchmark, env, filepath.Join(folder, "benchmark"), "40", "--json")
			if benchmark.N != 40 || benchmark.Failed != 0 || benchmark.Concurrency != 4 || benchmark.ThroughputPerS <= 0 || len(benchmark.LatencyMs) != 7 {
				t.Fatalf("%+v", benchmark)
			}
		}
	}
	for _, wrong := range [][]string{{"SEALWAY_WIRE=4"}, {"SESSION_URL=nowhere"}, {"SEALWAY_PINS=x"}, {"BENCHMARK_CONCURRENCY=0"}} {
		command := exec.Command(filepath.Join(folder, "benchmark"), "1")
		command.Env = append(os.Environ(), wrong...)
		out, _ := command.CombinedOutput()
		name, _, _ := strings.Cut(wrong[0], "=")
		if command.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), name) {
			t.Fatalf("%v: %d %s", wrong, command.ProcessState.ExitCode(), out)
		}
	}
}

func runJSON(t *testing.T, into any, env []string, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.Env = env
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, said.String())
	}
	if strings.Count(string(out), "\n") != 1 || json.Unmarshal(out, into) != nil {
		t.Fatalf("no line of JSON: %s", out)
	}
}
