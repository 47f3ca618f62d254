package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"sealway.dev/go/broker/internal/wire"
)

const profiles = `
- {Name: Default, Settings: {CryptoLibrary: native}, API: {HashData: {HashAlg: sha3-512}, Random: true}}
- {Name: Sha256, Settings: {CryptoLibrary: native}, API: {HashData: {HashAlg: sha-256}}}
- Name: Seal
  Settings: {CryptoLibrary: native}
  API: {EncryptData: {EncryptAlg: aes-gcm, KeySize: 256, NonceStrategy: broker-generated, TagLength: 128}}
- {Name: Mac, Settings: {CryptoLibrary: native}, API: {Mac: {MacAlg: hmac-sha-256}}}
- {Name: Derive, Settings: {CryptoLibrary: native}, API: {Derive: {DeriveAlg: hkdf-sha-256}}}
- {Name: Kem, Settings: {CryptoLibrary: native}, API: {Encapsulate: {KemAlg: ml-kem-768}}}
- {Name: Unwrap, Settings: {CryptoLibrary: native}, API: {Unwrap: {UnwrapAlg: rsa-oaep-256}}}
- Name: P256
  Settings: {CryptoLibrary: native}
  API:
    SignData: {SignAlg: ecdsa, HashAlg: sha-256, Curve: P-256}
    SignCertificate:
      SignAlg: ecdsa
      HashAlg: sha-256
      SKIHashAlg: sha-256
      Validity: {ValidNotBeforeOffset: -1h, ValidNotAfterOffset: 24h}
      KeyConstraints: {Subject: {ecdsa: {MinKeySize: 256, MaxKeySize: 521}}, Issuer: {ecdsa: {MinKeySize: 256, MaxKeySize: 521}}}
      KeyUsage: [digitalSignature]
      ExtendedKeyUsage: [clientAuth]
`

// sealway is the binary that is built. Without it these tests fail: what was not tried is not known to work.
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

// serve starts a broker on a socket of its own.
func serve(t testing.TB, extra ...string) (socket string, kill func()) {
	t.Helper()
	folder, err := os.MkdirTemp("", "broker")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket = filepath.Join(folder, "b.sock")
	return socket, serveIn(t, folder, extra...)
}

func serveIn(t testing.TB, folder string, extra ...string) (kill func()) {
	t.Helper()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	socket := filepath.Join(folder, "b.sock")
	arguments := append([]string{"broker", "serve", "--socket", socket, "--profiles", write("Profiles.yaml", profiles),
		"--keys", filepath.Join(folder, "keys"), "--kek-file", write("kek", "test "+strings.Repeat("5a", 32)+"\n")}, extra...)
	command := exec.Command(sealway(t), arguments...)
	var words bytes.Buffer
	command.Stdout, command.Stderr = &words, &words
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	kill = func() { once.Do(func() { _ = command.Process.Kill(); _ = command.Wait() }) }
	t.Cleanup(kill)
	for range 500 {
		if connection, err := net.Dial("unix", socket); err == nil {
			_ = connection.Close()
			return kill
		}
		time.Sleep(20 * time.Millisecond)
	}
	kill()
	t.Fatalf("the broker does not listen:\n%s", words.String())
	return nil
}

func client(t testing.TB, options Options) *Client {
	t.Helper()
	made, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	return made
}

func codeOf(t *testing.T, err error) *Error {
	t.Helper()
	var told *Error
	if !errors.As(err, &told) {
		t.Fatalf("not an *Error: %v", err)
	}
	return told
}

// fake is a broker whose answers the test sets.
type fake struct {
	wire.UnimplementedBrokerServer
	wire.UnimplementedKeysServer
	hash  func(context.Context) (*wire.HashResponse, error)
	calls atomic.Int64
}

func (f *fake) Hash(ctx context.Context, _ *wire.HashRequest) (*wire.HashResponse, error) {
	f.calls.Add(1)
	return f.hash(ctx)
}

func (f *fake) Generate(ctx context.Context, _ *wire.GenerateRequest) (*wire.KeyResponse, error) {
	f.calls.Add(1)
	_, err := f.hash(ctx)
	return &wire.KeyResponse{}, err
}

func pretend(t *testing.T, hash func(context.Context) (*wire.HashResponse, error)) (*fake, string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "fake")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket := filepath.Join(folder, "b.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	made := &fake{hash: hash}
	server := grpc.NewServer()
	wire.RegisterBrokerServer(server, made)
	wire.RegisterKeysServer(server, made)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return made, socket
}

var one = &wire.HashResponse{Digests: [][]byte{{1}}}

func TestACallIsRetriedUntilTheBrokerIsBack(t *testing.T) {
	var turn atomic.Int64
	fake, socket := pretend(t, func(context.Context) (*wire.HashResponse, error) {
		if turn.Add(1) < 3 {
			return nil, status.Error(codes.Unavailable, "shutting down")
		}
		return one, nil
	})
	asks := client(t, Options{Socket: socket})
	if _, err := asks.Hash(context.Background(), "p", nil); err != nil || fake.calls.Load() != 3 {
		t.Errorf("%d calls: %v", fake.calls.Load(), err)
	}
	turn.Store(0)
	fake.calls.Store(0)
	_, err := asks.GenerateKey(context.Background(), "k", "aes-256-gcm")
	if told := codeOf(t, err); fake.calls.Load() != 1 || told.Delivery != Answered || told.Attempts != 1 {
		t.Errorf("what may not be done twice was sent %d times: %v", fake.calls.Load(), err)
	}
}

func TestACallThatTheBrokerRejectsIsNotRetried(t *testing.T) {
	fake, socket := pretend(t, func(context.Context) (*wire.HashResponse, error) {
		return nil, status.Error(codes.ResourceExhausted, "too much\n\x1b[2J")
	})
	_, err := client(t, Options{Socket: socket}).Hash(context.Background(), "p", nil)
	told := codeOf(t, err)
	if told.Code != codes.ResourceExhausted || told.Delivery != Answered || fake.calls.Load() != 1 || strings.ContainsAny(err.Error(), "\n\x1b") {
		t.Error(err)
	}
}

func TestAnUnreachableBrokerMeansNotSentAndOpensTheBreaker(t *testing.T) {
	asks := client(t, Options{
		Socket: filepath.Join(t.TempDir(), "none"), Retry: RetryOptions{Attempts: 2, First: time.Millisecond},
		Breaker: BreakerOptions{Failures: 4, OpenFor: time.Minute},
	})
	for range 2 {
		_, err := asks.Hash(context.Background(), "p", nil)
		if told := codeOf(t, err); told.Code != codes.Unavailable || told.Delivery != NotSent || told.Attempts != 2 || !told.IsPassing() {
			t.Errorf("%v after %d", err, told.Attempts)
		}
	}
	_, err := asks.Hash(context.Background(), "p", nil)
	if told := codeOf(t, err); told.Attempts != 0 || !strings.Contains(err.Error(), "breaker") || asks.BreakerState() != Open {
		t.Error(err)
	}
}

func TestADeadlineEndsACallAndReachesTheBroker(t *testing.T) {
	told, release := make(chan time.Duration, 2), make(chan struct{})
	_, socket := pretend(t, func(ctx context.Context) (*wire.HashResponse, error) {
		at, _ := ctx.Deadline()
		told <- time.Until(at)
		<-release
		return one, nil
	})
	defer close(release)
	asks := client(t, Options{Socket: socket, Deadline: 100 * time.Millisecond})
	begun := time.Now()
	_, err := asks.Hash(context.Background(), "p", nil)
	if failure := codeOf(t, err); failure.Code != codes.DeadlineExceeded || failure.Delivery != PerhapsDone || time.Since(begun) > 3*time.Second {
		t.Error(err)
	}
	if left := <-told; left <= 0 || left > 100*time.Millisecond {
		t.Error(left)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := asks.Hash(ctx, "p", nil); codeOf(t, err).Code != codes.Canceled || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestTheTraceContextOfACallIsSent(t *testing.T) {
	const text = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
	heard := make(chan []string, 1)
	_, socket := pretend(t, func(ctx context.Context) (*wire.HashResponse, error) {
		head, _ := metadata.FromIncomingContext(ctx)
		heard <- head.Get("traceparent")
		return one, nil
	})
	parent, is := ParseTraceParent(text)
	if !is || parent.String() != text {
		t.Fatal(parent)
	}
	if _, err := client(t, Options{Socket: socket}).Hash(WithTrace(context.Background(), parent), "p", nil); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; len(got) != 1 || got[0] != text {
		t.Error(got)
	}
	for _, bad := range []string{"", "01" + text[2:], strings.ToUpper(text), text + "-x", strings.Replace(text, "0af7651916cd43dd8448eb211c80319c", strings.Repeat("0", 32), 1)} {
		if _, is := ParseTraceParent(bad); is {
			t.Error(bad)
		}
	}
}

func TestAnAnswerWithAWrongNumberOfResultsIsRejected(t *testing.T) {
	_, socket := pretend(t, func(context.Context) (*wire.HashResponse, error) { return one, nil })
	if _, err := client(t, Options{Socket: socket}).Hash(context.Background(), "p", []byte("a"), []byte("b")); codeOf(t, err).Code != codes.Internal {
		t.Error(err)
	}
}

func TestACallBeyondTheQueueFailsAtOnceAndMessagesAreBounded(t *testing.T) {
	release := make(chan struct{})
	fake, socket := pretend(t, func(context.Context) (*wire.HashResponse, error) { <-release; return one, nil })
	asks := client(t, Options{Socket: socket, InFlightMax: 1, WaitingMax: 1, MessageMax: 1000})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if _, err := asks.Hash(context.Background(), "p", nil); err != nil {
				t.Error(err)
			}
		})
	}
	for fake.calls.Load() == 0 || len(asks.places) < 2 {
		time.Sleep(time.Millisecond)
	}
	if _, err := asks.Hash(context.Background(), "p", nil); codeOf(t, err).Code != codes.ResourceExhausted || codeOf(t, err).Delivery != NotSent {
		t.Error(err)
	}
	if _, err := asks.Hash(context.Background(), "p", make([]byte, 2000)); codeOf(t, err).Code != codes.OutOfRange {
		t.Error(err)
	}
	close(release)
	all.Wait()
}

func TestNothingIsSentToAnotherUsersSocket(t *testing.T) {
	fake, socket := pretend(t, func(context.Context) (*wire.HashResponse, error) { return one, nil })
	other, own := os.Getuid()+1, os.Getuid()
	_, err := client(t, Options{Socket: socket, BrokerUID: &other, Retry: RetryOptions{Attempts: 1}}).Hash(context.Background(), "p", nil)
	if told := codeOf(t, err); fake.calls.Load() != 0 || told.Delivery != NotSent || !strings.Contains(err.Error(), "another user") {
		t.Error(err)
	}
	if _, err := client(t, Options{Socket: socket, BrokerUID: &own}).Hash(context.Background(), "p", nil); err != nil {
		t.Error(err)
	}
}

func TestABreakerOpensAfterConsecutiveFailuresAndOnlyAProbeClosesIt(t *testing.T) {
	now := time.Unix(1000, 0)
	breaker := newBreaker(BreakerOptions{Failures: 3, OpenFor: time.Second})
	say := func(said verdict) {
		t.Helper()
		tell, _, passes := breaker.pass(now)
		if !passes {
			t.Fatal("it lets nothing through")
		}
		tell(said, now)
	}
	early, _, _ := breaker.pass(now)
	for _, said := range []verdict{failed, failed, succeeded, failed, failed} {
		say(said)
	}
	if breaker.stateAt(now) != Closed {
		t.Fatal("failures that a success parts opened it")
	}
	say(failed)
	if early(succeeded, now); breaker.stateAt(now) != Open {
		t.Error("what was under way closed it")
	}
	if _, wait, passes := breaker.pass(now); passes || wait != time.Second {
		t.Error(wait)
	}
	now = now.Add(time.Second)
	probe, _, passes := breaker.pass(now)
	if _, _, second := breaker.pass(now); !passes || second {
		t.Error("one probe at a time")
	}
	probe(undecided, now)
	say(failed)
	now = now.Add(time.Second)
	say(succeeded)
	if breaker.stateAt(now) != Closed {
		t.Error("a probe that succeeds closes it")
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	secret := Secret("SECRET")
	asJSON, _ := json.Marshal(map[string]any{"x": secret})
	for _, shown := range []string{
		fmt.Sprintf("%v %s %x %q %#v %d", secret, secret, secret, secret, secret, secret), string(asJSON),
		fmt.Sprintf("%+v", Decryption{Plaintext: secret}), fmt.Sprintf("%+v", Encapsulation{SharedSecret: secret}), fmt.Sprint(Plain{Plaintext: secret}),
	} {
		if strings.Contains(shown, "SECRET") || strings.Contains(shown, "534543") || strings.Contains(shown, "83 69") {
			t.Error(shown)
		}
	}
}
