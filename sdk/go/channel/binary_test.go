package channel

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sealway.dev/go/channel/relay"
)

// sealway is the sealway that is built. Without it these tests fail: what was not tried is not known to work.
func sealway(t testing.TB) string {
	t.Helper()
	path := os.Getenv("SEALWAY_BIN")
	if path == "" {
		path, _ = filepath.Abs("../../../target/debug/sealway")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("there is no binary sealway: build it (cargo build), or name it by SEALWAY_BIN: %v", err)
	}
	return path
}

// ground is a relay with its issuer, and a control plane where it is asked for.
type ground struct {
	folder, url, control, token string
	t                           testing.TB
	stopRelay                   func()
	relayAddress                string
}

func (g *ground) path(name string) string { return filepath.Join(g.folder, name) }

// begin starts a process and gives its standard output; it is killed by the end of the test.
func begin(t testing.TB, arguments ...string) (*bufio.Reader, func()) {
	t.Helper()
	command := exec.Command(sealway(t), arguments...)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var words bytes.Buffer
	command.Stderr = &words
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			_ = command.Process.Kill()
			_ = command.Wait()
			if t.Failed() {
				t.Logf("%v said:\n%s", arguments, words.String())
			}
		}
	}
	t.Cleanup(stop)
	return bufio.NewReader(output), stop
}

func run(t testing.TB, arguments ...string) []byte {
	t.Helper()
	output, err := exec.Command(sealway(t), arguments...).Output()
	if err != nil {
		t.Fatalf("%v: %v", arguments, err)
	}
	return output
}

func newGround(t testing.TB) *ground {
	t.Helper()
	g := &ground{folder: t.TempDir(), t: t, relayAddress: "127.0.0.1:0"}
	run(t, "relay", "keys", "--kid", "k1", "--issuer-key-file", g.path("key.json"), "--issuer-keys-file", g.path("keys.json"))
	g.startRelay()
	return g
}

func (g *ground) startRelay() {
	g.t.Helper()
	output, stop := begin(g.t, "relay", "serve", "--listen", g.relayAddress, "--issuer-keys-file", g.path("keys.json"), "--aud", "relay")
	line, err := output.ReadBytes('\n')
	var said struct {
		Listen string `json:"listen"`
		Path   string `json:"ws_path"`
	}
	if err != nil || json.Unmarshal(line, &said) != nil {
		g.t.Fatalf("the relay says %q: %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, output) }()
	g.stopRelay, g.relayAddress = stop, said.Listen
	g.url = "ws://" + said.Listen + said.Path
}

// mint returns the two grants of a channel, as JSON.
func (g *ground) mint(extra ...string) (client, server []byte) {
	g.t.Helper()
	arguments := append([]string{"relay", "mint", "--issuer-key-file", g.path("key.json"), "--tunnel-url", g.url, "--aud", "relay"}, extra...)
	var made struct {
		Client json.RawMessage `json:"grant_client"`
		Server json.RawMessage `json:"grant_server"`
	}
	if err := json.Unmarshal(run(g.t, arguments...), &made); err != nil {
		g.t.Fatal(err)
	}
	return made.Client, made.Server
}

// freeAddress returns an address with a free port below those that the kernel gives to connections: no connection of another
// test can take it.
func freeAddress() string {
	for {
		address := fmt.Sprint("127.0.0.1:", 20_000+rand.IntN(12_000))
		if listener, err := net.Listen("tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
}

func (g *ground) startControl(extra ...string) {
	g.t.Helper()
	address := freeAddress()
	g.token = "a-token-of-the-control-plane"
	if err := os.WriteFile(g.path("token"), []byte(g.token+"\n"), 0o600); err != nil {
		g.t.Fatal(err)
	}
	begin(g.t, append([]string{"relay", "control", "--listen", address, "--token-file", g.path("token"), "--issuer-key-file",
		g.path("key.json"), "--tunnel-url", g.url, "--aud", "relay"}, extra...)...)
	g.control = "http://" + address
	for range 200 {
		if connection, err := net.Dial("tcp", address); err == nil {
			_ = connection.Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	g.t.Fatal("the control plane does not listen")
}

func attach(t testing.TB, text []byte, options *Options) (*Channel, error) {
	t.Helper()
	grant, err := relay.ParseGrant(text)
	if err != nil {
		t.Fatal(err)
	}
	me, err := NewInstance()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	return Attach(ctx, grant, me, options)
}

func write(t testing.TB, path string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// cat joins standard input and output of `sealway channel cat`.
func cat(t testing.TB, input []byte, arguments ...string) (wait func() ([]byte, error)) {
	t.Helper()
	command := exec.Command(sealway(t), append([]string{"channel", "cat"}, arguments...)...)
	command.Stdin = bytes.NewReader(input)
	var output, words bytes.Buffer
	command.Stdout, command.Stderr = &output, &words
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	return func() ([]byte, error) {
		err := command.Wait()
		if err != nil {
			t.Logf("%s says: %s", strings.Join(arguments, " "), words.String())
		}
		return output.Bytes(), err
	}
}
