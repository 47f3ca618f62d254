// An endpoint of Flowersec v1, written from the description of its wire alone: what ours has to get on with. It does one job
// over one connection, and says what happened in lines of JSON.
//
//	channel_peer --role client --direct FILE --job rpc
//	channel_peer --role server --direct FILE --listen 127.0.0.1:0 --job serve
//	channel_peer --grant FILE --job bulk --bytes 67108864
//	channel_peer --issue URL --aud AUDIENCE --into FOLDER
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/hashicorp/yamux"
)

type options struct {
	role, grant, direct, listen, job, fault string
	early                                   bool
	suite, calls, streams                   int
	bytes, part                             int64
	rekeyEvery                              uint64
	pause, openTimeout, closeTimeout, ping  time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.role, "role", "", "client or server; a grant says it by itself")
	flag.StringVar(&o.grant, "grant", "", "a file with a grant: over a tunnel")
	flag.StringVar(&o.direct, "direct", "", "a file with direct info: without one")
	flag.StringVar(&o.listen, "listen", "127.0.0.1:0", "where a server without a tunnel listens")
	flag.StringVar(&o.job, "job", "serve", "serve, deaf, rpc, echo, bulk, rekey, idle, mute, stall, reset, fault or replay")
	flag.StringVar(&o.fault, "fault", "", "what to do wrong")
	flag.BoolVar(&o.early, "early", false, "as the first endpoints: no ping after the Ack, or none waited for")
	flag.IntVar(&o.suite, "suite", 0, "another suite than the grant's")
	flag.IntVar(&o.calls, "calls", 3, "how many calls, or rounds")
	flag.IntVar(&o.streams, "streams", 1, "how many streams at once")
	flag.Int64Var(&o.bytes, "bytes", 1<<20, "how many bytes")
	flag.Int64Var(&o.part, "part", 256<<10, "how many of them are written at a time")
	flag.Uint64Var(&o.rekeyEvery, "rekey-every", 0, "another key after so many records")
	flag.DurationVar(&o.pause, "pause", time.Second, "how long to do nothing")
	flag.DurationVar(&o.openTimeout, "open-timeout", 0, "how long a stream may wait to be acknowledged, if not 75s")
	flag.DurationVar(&o.closeTimeout, "close-timeout", 0, "how long a stream may be closed on one side, if not 5m")
	flag.DurationVar(&o.ping, "ping-every", 0, "sends a ping record so often")
	issue := flag.String("issue", "", "the address of a tunnel: issues grants instead")
	aud := flag.String("aud", "test", "whom the tokens are for")
	into := flag.String("into", "", "the folder for keys.json, client.json and server.json")
	flag.Parse()

	seen, err := map[string]any(nil), error(nil)
	if *issue != "" {
		err = issueInto(*into, *issue, *aud, uint16(max(o.suite, 1)))
	} else {
		seen, err = run(&o)
	}
	if seen == nil {
		seen = map[string]any{}
	}
	seen["ok"] = err == nil
	if err != nil {
		seen["error"] = err.Error()
		var closed websocket.CloseError
		if errors.As(err, &closed) {
			seen["close_code"], seen["close_reason"] = int(closed.Code), closed.Reason
		}
	}
	say(seen)
	if err != nil {
		os.Exit(1)
	}
}

var saying sync.Mutex

func say(what map[string]any) {
	saying.Lock()
	defer saying.Unlock()
	line, _ := json.Marshal(what)
	fmt.Println(string(line))
}

// A keyset that `FOLDER/key.json` keeps, so that several channels have one issuer, and the grants of a channel.
func issueInto(folder, url, aud string, suite uint16) error {
	i, err := newIssuer(url, aud, "", suite)
	if err != nil {
		return err
	}
	seed := filepath.Join(folder, "seed.json")
	if err := fromFile(seed, &i.key); errors.Is(err, os.ErrNotExist) {
		if err := writeJSON(seed, i.key); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	pair, err := i.grants(time.Now())
	return errors.Join(err, writeJSON(filepath.Join(folder, "keys.json"), i.keyset()),
		writeJSON(filepath.Join(folder, "client.json"), pair[0]), writeJSON(filepath.Join(folder, "server.json"), pair[1]))
}

// What both ends know, how the connection comes about, and whether this is the client.
func (o *options) prepare() (s *settings, w *wire, isClient bool, err error) {
	s = &settings{early: o.early, fault: o.fault, now: time.Now}
	var psk string
	var open func() (*wire, error)
	if o.grant != "" {
		var g grant
		if err := fromFile(o.grant, &g); err != nil {
			return nil, nil, false, err
		}
		isClient, psk = g.Role == 1, g.PSK
		s.channelID, s.suite, s.initExp = g.ChannelID, g.DefaultSuite, g.InitExp
		open = func() (*wire, error) { return attachTo(&g) }
	} else {
		var info directInfo
		if err := fromFile(o.direct, &info); err != nil {
			return nil, nil, false, err
		}
		isClient, psk = o.role == "client", info.PSK
		s.channelID, s.suite, s.initExp = info.ChannelID, info.DefaultSuite, info.InitExp
		open = func() (*wire, error) { return dial(info.URL) }
		if !isClient {
			open = func() (*wire, error) { return takeOne(o.listen) }
		}
	}
	if o.suite != 0 {
		s.suite = uint16(o.suite)
	}
	if s.psk, err = exactly(psk, 32, "e2ee_psk"); err != nil {
		return nil, nil, false, err
	}
	w, err = open()
	return s, w, isClient, err
}

// The first connection that comes; others wait for an end that does not come.
func takeOne(address string) (*wire, error) {
	taken, never := make(chan *wire, 1), make(chan struct{})
	listener, err := listen(address, func(w *wire) {
		taken <- w
		<-never
	})
	if err != nil {
		return nil, err
	}
	say(map[string]any{"ws_url": fmt.Sprintf("ws://%s/ws", listener.Addr())})
	select {
	case w := <-taken:
		return w, nil
	case <-time.After(stepMax):
		return nil, errors.New("nobody came")
	}
}

func run(o *options) (map[string]any, error) {
	s, w, isClient, err := o.prepare()
	if err != nil {
		return nil, err
	}
	return o.over(s, w, isClient)
}

// The whole of an endpoint's life, from an open connection on.
func (o *options) over(s *settings, w *wire, isClient bool) (map[string]any, error) {
	defer w.ws.CloseNow()
	out, in, was, err := s.shake(w, isClient)
	if err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	if o.job == "replay" {
		return o.replay(w, was)
	}
	if o.fault != "" && o.job == "fault" {
		if err := misbehave(w, out, o.fault); errors.Is(err, errNoFault) {
			return nil, err
		} else if err != nil {
			// The peer has seen enough before all of it was sent.
			return map[string]any{"cut_off": true, "why": err.Error()}, nil
		}
		is, why := isCutOff(w)
		return map[string]any{"cut_off": is, "why": why}, nil
	}
	return o.work(newSecure(w, out, in, o.rekeyEvery), isClient)
}

// From a connection to records both ways: the handshake, and the ping that proves the server.
func (s *settings) shake(w *wire, isClient bool) (out, in *direction, was *sent, err error) {
	var made *secrets
	if isClient {
		made, was, err = s.client(w)
	} else {
		made, err = s.server(w)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	c2s, s2c, err := directions(made)
	if err != nil {
		return nil, nil, nil, err
	}
	if !isClient {
		if s.early {
			return s2c, c2s, nil, nil
		}
		ping, err := s2c.seal(flagPing, nil)
		if err != nil {
			return nil, nil, nil, err
		}
		return s2c, c2s, nil, w.send(ping)
	}
	if s.early {
		return c2s, s2c, was, nil
	}
	first, err := w.receiveInTime()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("the server proves nothing: %w", err)
	}
	flags, _, err := s2c.open(first)
	if err == nil && flags != flagPing {
		err = fmt.Errorf("the server's first record has flags %d", flags)
	}
	return c2s, s2c, was, err
}

// Has the server take the same Init and Ack on a second connection.
func (o *options) replay(first *wire, was *sent) (map[string]any, error) {
	var info directInfo
	if err := fromFile(o.direct, &info); err != nil {
		return nil, err
	}
	w, err := dial(info.URL)
	if err != nil {
		return nil, err
	}
	defer w.ws.CloseNow()
	if err := w.send(was.first); err != nil {
		return nil, err
	}
	if _, err := w.receiveInTime(); err != nil {
		return nil, err
	}
	if err := w.send(was.ack); err != nil {
		return nil, err
	}
	record, err := w.receiveInTime()
	if err == nil {
		return nil, fmt.Errorf("a second session began, with a record of %d bytes", len(record))
	}
	return map[string]any{"cut_off": true, "why": err.Error()}, nil
}

func (o *options) work(conn *secure, isClient bool) (map[string]any, error) {
	config := streamsConfig(o.openTimeout, o.closeTimeout)
	config.LogOutput = os.Stderr
	var session *yamux.Session
	var err error
	if isClient {
		session, err = yamux.Client(conn, config)
	} else {
		session, err = yamux.Server(conn, config)
	}
	if err != nil {
		return nil, err
	}
	p := &peer{secure: conn, session: session, o: o, released: make(chan struct{})}
	if o.ping > 0 {
		go conn.pingEvery(o.ping)
	}
	if o.job != "deaf" {
		go p.serve()
	}
	seen, err := p.do(o.job)
	if seen == nil {
		seen = map[string]any{}
	}
	seen["pings"], seen["rekeys_in"], seen["rekeys_out"] = conn.pings.Load(), conn.rekeysI.Load(), conn.rekeysO.Load()
	seen["records_in"], seen["records_out"] = conn.recordsI.Load(), conn.recordsO.Load()
	seen["calls"], seen["notices_in"], seen["skipped"], seen["streams_in"] = p.calls.Load(), p.notices.Load(), p.skipped.Load(), p.streams.Load()
	if why := conn.why(); why != "" {
		seen["why"] = why
		if err != nil {
			err = fmt.Errorf("%w (%s)", err, why)
		}
	}
	return seen, errors.Join(err, session.Close())
}
