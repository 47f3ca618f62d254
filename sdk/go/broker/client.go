package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"sealway.dev/go/broker/internal/wire"
)

// DeadlineMax is the longest deadline there may be.
const DeadlineMax = time.Hour

// Options configure a [Client]. All but Socket have defaults.
type Options struct {
	// Socket is the path of the socket on which the broker listens.
	Socket string
	// BrokerUID is the user id that the broker must run as. The client sends nothing to another user. Nil skips the check.
	BrokerUID *int
	// Deadline bounds a call with its attempts and pauses; the deadline of a context may end it earlier. The default is 5 s.
	Deadline time.Duration
	// Retry bounds the attempts of a call.
	Retry RetryOptions
	// Breaker bounds the failures after which calls fail at once.
	Breaker BreakerOptions
	// InFlightMax bounds the concurrent calls; others wait. The default is 256.
	InFlightMax int
	// WaitingMax bounds the calls that wait; one more fails at once. The default is 1,024.
	WaitingMax int
	// MessageMax bounds a message in either direction, in bytes. The default is 4 MiB.
	MessageMax int
}

func (o Options) filled() Options {
	if o.Deadline <= 0 {
		o.Deadline = 5 * time.Second
	}
	o.Deadline = min(o.Deadline, DeadlineMax)
	o.Retry = o.Retry.filled()
	if o.InFlightMax < 1 {
		o.InFlightMax = 256
	}
	if o.WaitingMax < 1 {
		o.WaitingMax = 1024
	}
	if o.MessageMax < 1 {
		o.MessageMax = 4 << 20
	}
	return o
}

// Client calls one broker. It is safe for use by many goroutines.
type Client struct {
	options    Options
	connection *grpc.ClientConn
	broker     wire.BrokerClient
	keys       wire.KeysClient
	breaker    *breaker
	turns      chan struct{}
	places     chan struct{}
	observer   *observer
}

var errPeer = errors.New("another user than the broker's listens there")

// New makes a client, which connects when it is first used.
func New(options Options) (*Client, error) {
	if options.Socket == "" {
		return nil, &Error{Operation: "Connect", Code: codes.InvalidArgument, Text: "no socket is named"}
	}
	filled := options.filled()
	made := &Client{
		options: filled, breaker: newBreaker(filled.Breaker), turns: make(chan struct{}, filled.InFlightMax),
		places: make(chan struct{}, filled.InFlightMax+filled.WaitingMax), observer: &observer{},
	}
	connection, err := grpc.NewClient("passthrough:///localhost",
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(made.dial), grpc.WithStatsHandler(made.observer),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 250 * time.Millisecond},
			MinConnectTimeout: 2 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(filled.MessageMax), grpc.MaxCallSendMsgSize(filled.MessageMax)),
		grpc.WithUnaryInterceptor(made.intercept))
	if err != nil {
		return nil, &Error{Operation: "Connect", Code: codes.Internal, Text: oneLine(err.Error())}
	}
	made.connection, made.broker, made.keys = connection, wire.NewBrokerClient(connection), wire.NewKeysClient(connection)
	return made, nil
}

func (c *Client) dial(ctx context.Context, _ string) (net.Conn, error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", c.options.Socket)
	if err != nil || c.options.BrokerUID == nil {
		return connection, err
	}
	if err := checkPeer(connection, *c.options.BrokerUID); err != nil {
		_ = connection.Close()
		return nil, err
	}
	return connection, nil
}

// Close ends the connection, and calls under way with it.
func (c *Client) Close() error { return c.connection.Close() }

// BreakerState says what the breaker lets through.
func (c *Client) BreakerState() BreakerState { return c.breaker.stateAt(time.Now()) }

// Traffic says how many bytes of messages came and went.
func (c *Client) Traffic() (in, out int64) { return c.observer.in.Load(), c.observer.out.Load() }

// Format prints the socket alone.
func (c *Client) Format(state fmt.State, _ rune) {
	_, _ = fmt.Fprintf(state, "Client(%s)", c.options.Socket)
}

// These change the key store and must not run twice.
var unsentAlone = map[string]bool{"Generate": true, "Import": true, "Rotate": true}

// course is how far a call came.
type course struct {
	operation string
	attempts  int
	sent      Delivery
	last      *Error
}

// intercept is what every call goes through: its place, the breaker, attempts, and the deadline over all of it.
func (c *Client) intercept(ctx context.Context, method string, request, answer any, _ *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	way := &course{operation: path.Base(method)}
	if length := proto.Size(request.(proto.Message)); length > c.options.MessageMax {
		return way.fail(codes.OutOfRange, fmt.Sprintf("a message of %d bytes, of at most %d", length, c.options.MessageMax), nil)
	}
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	default:
		return way.fail(codes.ResourceExhausted, "too many calls wait already", nil)
	}
	ctx, stop := context.WithTimeout(ctx, c.options.Deadline)
	defer stop()
	if trace, has := traceOf(ctx); has {
		ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", trace)
	}
	for tried := 1; ; tried++ {
		failure := c.attempt(ctx, way, func(ctx context.Context) error {
			proto.Reset(answer.(proto.Message))
			return invoke(ctx, method, request, answer, c.connection, options...)
		})
		if failure == nil {
			return nil
		}
		isSafe := !unsentAlone[way.operation] || way.sent == NotSent
		// Those that an open breaker kept from being made count too: a call that has begun waits no longer for it.
		if failure.Code != codes.Unavailable || !isSafe || tried >= c.options.Retry.Attempts || way.attempts == 0 || ctx.Err() != nil {
			return failure
		}
		way.last = failure
		// No turn is held while it waits, or callers of a broker that is away would hold up each other.
		select {
		case <-time.After(c.options.Retry.pause(tried)):
		case <-ctx.Done():
			return way.late(ctx)
		}
	}
}

func (c *Client) attempt(ctx context.Context, way *course, invoke func(context.Context) error) *Error {
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-ctx.Done():
		return way.late(ctx)
	}
	tell, wait, passes := c.breaker.pass(time.Now())
	if !passes {
		return way.fail(codes.Unavailable, fmt.Sprintf("the circuit breaker is open, for %d ms yet", wait.Milliseconds()), nil)
	}
	said := undecided
	defer func() { tell(said, time.Now()) }()
	way.attempts++
	seen := &trail{}
	err := invoke(context.WithValue(ctx, trailKey{}, seen))
	if err == nil {
		said = succeeded
		return nil
	}
	told, _ := status.FromError(err)
	if ctx.Err() != nil && (told.Code() == codes.DeadlineExceeded || told.Code() == codes.Canceled) {
		if seen.hasLeft.Load() {
			way.sent = max(way.sent, PerhapsDone)
		}
		return way.late(ctx)
	}
	answered := seen.isAnswered.Load()
	switch {
	case answered:
		way.sent = Answered
	case seen.hasLeft.Load():
		way.sent = max(way.sent, PerhapsDone)
	}
	// A rejection shows that the broker is available.
	said = succeeded
	if told.Code() == codes.Unavailable {
		said = failed
	}
	failure := way.fail(told.Code(), told.Message(), nil)
	if answered {
		failure.Delivery = Answered
	}
	return failure
}

func (w *course) fail(code codes.Code, text string, cause error) *Error {
	return &Error{Operation: w.operation, Code: code, Text: oneLine(text), Delivery: w.sent, Attempts: w.attempts, cause: cause}
}

func (w *course) late(ctx context.Context) *Error {
	cause, code, text := context.Cause(ctx), codes.DeadlineExceeded, "no answer in time"
	if errors.Is(cause, context.Canceled) {
		code, text = codes.Canceled, "it was cancelled"
	}
	if w.last != nil {
		text += "; before that: " + w.last.Text
	}
	if w.sent == Answered {
		w.sent = PerhapsDone
	}
	return w.fail(code, text, cause)
}
