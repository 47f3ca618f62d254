package redisstore

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	sealway "sealway.dev/go"
	"sealway.dev/go/internal/recent"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

const (
	deadlineStandard = 500 * time.Millisecond
	aheadMs          = 500  // what an epoch's floor covers of stamps that are ahead
	aheadWaitMaxMs   = 2000 // beyond that
)

var (
	prefixForm = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)
	queryForm  = regexp.MustCompile(`^db=[0-9]{1,5}$`)
)

// Options configure a [Store].
type Options struct {
	// URL is redis:// or rediss:// with user, password, host, port and perhaps a database: of one server, not a cluster.
	URL string
	// TLS is for rediss://; nil is the system's authorities and TLS 1.2.
	TLS *tls.Config
	// Prefix is the authority's sessions.redis.prefix; empty is sealway.
	Prefix string
	// KeyFile is the authority's kek_file; it is read again where a key is unknown. Keys are the lines of such a file instead,
	// as SEALWAY_KEK holds them. One of the two is there.
	KeyFile, Keys string
	// PostgresBehind says that the authority's store is PostgreSQL and Redis, so that nothing is lost with Redis's memory.
	PostgresBehind bool
	// AcceptUnauthenticatedRowsUntil has sessions of earlier releases read, which end by then, on wires 1 and 2 alone: a party that can
	// write Redis can give the client of such a session another name. The zero time accepts none. It is a date: set it once for a
	// move, to the longest life of a session after the gateways' last start of the earlier release.
	AcceptUnauthenticatedRowsUntil time.Time
	// Deadline bounds each question to Redis; 0 is 500 ms.
	Deadline time.Duration
}

// Store is a [sealway.SessionStore] over the authority's Redis. It is safe for concurrent use. The middleware's window has to be
// the authority's.
type Store struct {
	client         *redis.Client
	keys           *keys
	kept           *recent.Sessions
	membership     membership
	joining        chan struct{} // holds one: who joins anew, for all who wait
	prefix         string
	postgresBehind bool
	acceptUntilMs  uint64
	deadline       time.Duration
}

// Open returns a store, which connects at the first question. A wrong option is a *sealway.UsageError.
func Open(options Options) (*Store, error) {
	settings, err := redis.ParseURL(options.URL)
	if err != nil {
		// The library's error may hold the password.
		return nil, &sealway.UsageError{Text: "Options.URL is not redis:// or rediss:// with a host"}
	}
	if parsed, err := url.Parse(options.URL); err != nil || parsed.RawQuery != "" && !queryForm.MatchString(parsed.RawQuery) {
		// The library would take any of its options from there: that a certificate is not verified, for one.
		return nil, &sealway.UsageError{Text: "Options.URL has a query other than db=<number>: remove it"}
	}
	if options.Deadline < 0 {
		return nil, &sealway.UsageError{Text: fmt.Sprintf("Options.Deadline is %v: it is positive, or 0 for %v", options.Deadline, deadlineStandard)}
	}
	s := &Store{kept: recent.New(), joining: make(chan struct{}, 1), prefix: options.Prefix, postgresBehind: options.PostgresBehind, deadline: options.Deadline}
	if until := options.AcceptUnauthenticatedRowsUntil; !until.IsZero() {
		s.acceptUntilMs = uint64(max(0, until.UnixMilli()))
	}
	if s.prefix == "" {
		s.prefix = "sealway"
	}
	if !prefixForm.MatchString(s.prefix) {
		return nil, &sealway.UsageError{Text: "Options.Prefix has a character other than letters, digits, - _ . and :, or more than 64: use the authority's sessions.redis.prefix"}
	}
	if s.deadline == 0 {
		s.deadline = deadlineStandard
	}
	if s.keys, err = newKeys(options.KeyFile, options.Keys); err != nil {
		return nil, err
	}
	if options.TLS != nil {
		if settings.TLSConfig == nil {
			return nil, &sealway.UsageError{Text: "Options.TLS is for rediss://: over redis:// the password would go in the clear"}
		}
		name := settings.TLSConfig.ServerName
		if settings.TLSConfig = options.TLS.Clone(); settings.TLSConfig.ServerName == "" {
			settings.TLSConfig.ServerName = name
		}
	}
	settings.DialTimeout, settings.ReadTimeout, settings.WriteTimeout, settings.PoolTimeout = s.deadline, s.deadline, s.deadline, s.deadline
	// A claim is never sent twice: whether the first one was granted is unknown.
	settings.MaxRetries, settings.DialerRetries, settings.ContextTimeoutEnabled = -1, 1, true
	// These commands need rights that the user may not have.
	settings.DisableIdentity, settings.MaintNotificationsConfig = true, &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	// A new connection may lead to another server: it is used once its epoch is known.
	settings.OnConnect = func(ctx context.Context, connection *redis.Conn) error {
		_, err := s.joinBy(ctx, connection)
		return err
	}
	s.client = redis.NewClient(settings)
	return s, nil
}

// Close closes the connections to Redis.
func (s *Store) Close() error { return s.client.Close() }

// String shows no secret.
func (s *Store) String() string { return "redisstore.Store(" + s.prefix + ")" }

// Format shows no secret, whatever the verb.
func (s *Store) Format(state fmt.State, _ rune) { io.WriteString(state, s.String()) }

func (s *Store) key(name string) string { return "{" + s.prefix + ":0}:" + name }

func unavailable(why error) error { return fmt.Errorf("%w: %w", sealway.ErrStoreUnavailable, why) }

// Session is that of [sealway.SessionStore]. A session is used for less than a second without asking again.
func (s *Store) Session(ctx context.Context, id string) (*session.Session, error) {
	if !wire.ValidSessionID(id) {
		return nil, wire.Refuse(wire.CodeSessionUnknown)
	}
	if kept := s.kept.Get(id); kept != nil {
		return kept, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.deadline)
	defer cancel()
	asked := time.Now()
	value, err := s.client.Get(ctx, s.prefix+":s:"+id).Bytes()
	if errors.Is(err, redis.Nil) || err == nil && string(value) == "x" {
		s.kept.Forget(id)
		return nil, wire.Refuse(wire.CodeSessionUnknown)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	parsed, err := parseRow(id, value, s.acceptUntilMs)
	if errors.Is(err, wire.CodeSessionUnknown) {
		s.kept.Forget(id)
		return nil, err
	}
	if err != nil {
		return nil, unavailable(err)
	}
	if parsed.record.Key, err = s.keys.unwrap(parsed); err != nil {
		return nil, unavailable(err)
	}
	defer parsed.record.Key.Wipe()
	if parsed.lineage != "" {
		// The end of one session is the end of its whole chain of renewals.
		first, err := s.client.Get(ctx, s.prefix+":s:"+parsed.lineage).Bytes()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, unavailable(err)
		}
		if string(first) == "x" {
			s.kept.Forget(id)
			return nil, wire.Refuse(wire.CodeSessionUnknown)
		}
	}
	made, err := session.NewSession(&parsed.record)
	if err != nil {
		return nil, unavailable(err)
	}
	s.kept.Put(id, made, asked)
	return made, nil
}

func (s *Store) joinBy(ctx context.Context, from asker) (epoch, error) {
	generation, madeMs, err := look(ctx, from, s.key("epoch"))
	if err != nil {
		s.membership.lose()
		return epoch{}, err
	}
	return s.membership.take(generation, madeMs), nil
}

func (s *Store) join(ctx context.Context) (epoch, error) {
	if joined, fresh := s.membership.current(); fresh {
		return joined, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.deadline)
	defer cancel()
	select {
	case s.joining <- struct{}{}:
		defer func() { <-s.joining }()
	case <-ctx.Done():
		return epoch{}, ctx.Err()
	}
	if joined, fresh := s.membership.current(); fresh {
		return joined, nil
	}
	return s.joinBy(ctx, s.client)
}

// Reserve is that of [sealway.SessionStore]. A claim is asked for once, under one token: when its answer is lost it may have been
// granted.
func (s *Store) Reserve(ctx context.Context, claim session.Claim) (session.Fresh, error) {
	joined, err := s.join(ctx)
	if err != nil {
		return session.Fresh{}, unavailable(err)
	}
	windowMs := claim.WindowMs()
	keptMs := max(claim.KeptMs, 2*windowMs+1)
	if joined.again && !s.postgresBehind && claim.StampMs <= joined.madeMs+windowMs {
		// The gateway that began this epoch may not know of the loss.
		return session.Fresh{}, unavailable(errors.New("the request may be older than the memory of Redis"))
	}
	var token [8]byte
	rand.Read(token[:])
	state, timeMs, floorMs, err := s.ask(ctx, joined, s.key("n:")+string(claim.Key[:]), token[:], keptMs, claim.StampMs, claim.StampMs+windowMs+1)
	if err != nil {
		return session.Fresh{}, unavailable(err)
	}
	switch state {
	case "FRESH":
		return session.Reserved(claim), nil
	case "AHEAD":
		if err := s.comeTo(ctx, joined, claim.StampMs-min(claim.StampMs, aheadMs), timeMs); err != nil {
			return session.Fresh{}, unavailable(err)
		}
		return session.Reserved(claim), nil
	case "REPLAYED", "FORGOTTEN":
		return session.Fresh{}, wire.Refuse(wire.CodeReplayed)
	case "FLOOR":
		if floorMs < timeMs {
			return session.Fresh{}, wire.Refuse(wire.CodeReplayed)
		}
	}
	return session.Fresh{}, unavailable(fmt.Errorf("Redis answers %.16q", state))
}

// comeTo waits until Redis's clock has come to a time, and has it say that its memory is the same one: a loss of it before could
// forget a claim whose stamp is ahead.
func (s *Store) comeTo(ctx context.Context, joined epoch, untilMs, timeMs uint64) error {
	left := uint64(aheadWaitMaxMs)
	for timeMs < untilMs {
		wait := untilMs - timeMs
		if wait > left {
			return errors.New("the stamp is too far ahead of Redis's clock")
		}
		left -= wait
		select {
		case <-time.After(time.Duration(wait) * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		state, nowMs, _, err := s.ask(ctx, joined, s.key("epoch"), nil, 0, 0, 0)
		if err != nil {
			return err
		}
		if state != "OK" {
			return errNoEpoch
		}
		timeMs = nowMs
	}
	return nil
}

// ask runs the script once.
func (s *Store) ask(ctx context.Context, joined epoch, nonce string, token []byte, keptMs, stampMs, goneMs uint64) (state string, timeMs, floorMs uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.deadline)
	defer cancel()
	answer, err := s.client.EvalSha(ctx, joined.sha, []string{s.key("epoch"), s.key("canary"), nonce}, token, keptMs, stampMs, goneMs).Slice()
	if err != nil {
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			s.membership.lose()
		}
		return "", 0, 0, err
	}
	if len(answer) == 3 {
		told, isText := answer[0].(string)
		now, isTime := answer[1].(int64)
		floor, isFloor := answer[2].(int64)
		if isText && isTime && isFloor && now >= 0 && floor >= 0 {
			if told == "EPOCH" || told == "CLOCK" {
				s.membership.lose()
			}
			return told, uint64(now), uint64(floor), nil
		}
	}
	return "", 0, 0, errors.New("Redis answers in another form")
}
