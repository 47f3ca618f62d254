package redisstore_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// process is a program that runs until the test ends, or is stopped.
type process struct {
	*exec.Cmd
	ended chan struct{}
}

func (p *process) stop() {
	p.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		p.Process.Kill()
		<-p.ended
	}
}

// start runs a program, and gives what want finds in what it says.
func start(t *testing.T, command *exec.Cmd, want string) (*process, string) {
	t.Helper()
	found, sought := make(chan string, 1), regexp.MustCompile(want)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		t.Fatal("this test needs ", command.Path, ": ", err)
	}
	p := &process{command, make(chan struct{})}
	var all bytes.Buffer
	go func() {
		scanner := bufio.NewScanner(output)
		for scanner.Scan() {
			if all.Len() < 1<<20 {
				all.WriteString(scanner.Text() + "\n")
			}
			if match := sought.FindStringSubmatch(scanner.Text()); match != nil {
				select {
				case found <- match[len(match)-1]:
				default:
				}
			}
		}
		command.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("what %s said:\n%s", command.Path, all.String())
		}
	})
	select {
	case match := <-found:
		return p, match
	case <-p.ended:
		t.Fatalf("%s ended: %s", command.Path, all.String())
	case <-time.After(20 * time.Second):
		t.Fatalf("%s does not say that it serves", command.Path)
	}
	return nil, ""
}

const (
	gatewayPassword = "a-password-of-the-gateway"
	ourPassword     = "a-password-of-the-middleware"
	// ourRights are those of spec/redis-store.md, and no more.
	ourRights = "resetchannels ~sealway:* ~{sealway:* -@all +ping +info +evalsha +time +get +set +exists +pttl +hget +hset +hmget"
)

// server is a Redis of a test.
type server struct {
	*process
	address, folder string
}

// freePort returns a free port below those that the kernel gives to connections: no connection of another test can take it.
func freePort() int {
	for {
		port := 20_000 + rand.IntN(12_000)
		if listener, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			listener.Close()
			return port
		}
	}
}

func startRedis(t *testing.T) *server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("this test needs redis-server, 7.0 or newer (Debian: apt-get install redis-server)")
	}
	port := freePort()
	s := &server{address: fmt.Sprint("127.0.0.1:", port), folder: t.TempDir()}
	config := fmt.Sprintf("bind 127.0.0.1\nport %d\nsave \"\"\nappendonly no\ndir %s\nuser default on >%s ~* &* +@all\nuser ours on >%s %s\n",
		port, s.folder, gatewayPassword, ourPassword, ourRights)
	if err := os.WriteFile(filepath.Join(s.folder, "redis.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.again(t)
	return s
}

// again starts it, with an empty memory.
func (s *server) again(t *testing.T) {
	t.Helper()
	s.process, _ = start(t, exec.Command("redis-server", filepath.Join(s.folder, "redis.conf")), "Ready to accept connections")
}

func (s *server) gatewayURL() string { return "redis://:" + gatewayPassword + "@" + s.address }
func (s *server) ourURL() string     { return "redis://ours:" + ourPassword + "@" + s.address }

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
  store: "%s"
  kek_file: "sessions.kek"
  identity: { key_file: "identity.keys", allow_generated: true }
  authority_secret_file: "peers.secret"
telemetry: { log_format: json, log_level: info }
`

const peersSecret = "a-secret-of-the-tests-alone-0123456789"

// gateway is a real one, over the Redis of a test.
type gateway struct {
	*process
	url, kekFile, binary, folder string
}

func startGateway(t *testing.T, redisURL, kek string) *gateway {
	t.Helper()
	g := &gateway{folder: t.TempDir()}
	if g.binary = os.Getenv("SEALWAY_BIN"); g.binary == "" {
		g.binary, _ = filepath.Abs("../../../target/debug/sealway")
	}
	if info, err := os.Stat(g.binary); err != nil || info.Mode()&0o111 == 0 {
		t.Fatalf("no server to test against: set SEALWAY_BIN to the binary sealway, or build it (cargo build --package sealway-cli); %s is none", g.binary)
	}
	g.kekFile = filepath.Join(g.folder, "sessions.kek")
	if err := errors.Join(os.WriteFile(filepath.Join(g.folder, "serve.yaml"), fmt.Appendf(nil, gatewayConfig, redisURL), 0o600),
		os.WriteFile(g.kekFile, []byte(kek), 0o600), os.WriteFile(filepath.Join(g.folder, "peers.secret"), []byte(peersSecret+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	g.again(t)
	return g
}

func (g *gateway) again(t *testing.T) {
	t.Helper()
	command := exec.Command(g.binary, "serve", "--config", filepath.Join(g.folder, "serve.yaml"))
	command.Dir = g.folder
	var address string
	g.process, address = start(t, command, `"message":"serving".*?"addresses":"\[([0-9.:]*)`)
	g.url = "http://" + strings.TrimSpace(address)
}
