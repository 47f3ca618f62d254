package sealway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sealway.dev/go/wire"
)

const soon = 5 * time.Second

// within waits for what a test's other end tells, and not for ever.
func within[T any](t *testing.T, what string, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(soon):
		t.Fatal("it does not happen: ", what)
	}
	return value
}

func TestTheFirstPieceOfARequestArrivesBeforeTheRestIsSent(t *testing.T) {
	heard := make(chan string, 2)
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			heard <- lines.Text()
		}
	}))
	transport := s.transport(t, nil)
	reader, writer := io.Pipe()
	request, _ := http.NewRequest("POST", s.URL+"/", reader)
	done := make(chan error, 1)
	go func() {
		response, err := transport.RoundTrip(request)
		if err == nil {
			response.Body.Close()
		}
		done <- err
	}()
	io.WriteString(writer, "first\n")
	if piece := within(t, "the first piece arrives", heard); piece != "first" {
		t.Fatal(piece)
	}
	io.WriteString(writer, "rest\n")
	writer.Close()
	if piece := within(t, "the rest arrives", heard); piece != "rest" {
		t.Fatal(piece)
	}
	if err := within(t, "an answer", done); err != nil {
		t.Fatal(err)
	}
}

func TestTheFirstPieceOfAnAnswerArrivesBeforeTheRestIsMade(t *testing.T) {
	read := make(chan struct{})
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first\n")
		w.(http.Flusher).Flush()
		select {
		case <-read:
			io.WriteString(w, "rest\n")
		case <-time.After(soon):
			io.WriteString(w, "nobody has read\n")
		}
	}))
	request, _ := http.NewRequest("GET", s.URL+"/", nil)
	response, err := s.transport(t, nil).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	if !lines.Scan() || lines.Text() != "first" {
		t.Fatal(lines.Text(), lines.Err())
	}
	close(read)
	if !lines.Scan() || lines.Text() != "rest" || lines.Scan() || lines.Err() != nil {
		t.Fatal(lines.Text(), lines.Err())
	}
}

// eachHTTP runs a test over HTTP/1 and over HTTP/2.
func eachHTTP(t *testing.T, test func(t *testing.T, two bool)) {
	t.Run("HTTP/1", func(t *testing.T) { test(t, false) })
	t.Run("HTTP/2", func(t *testing.T) { test(t, true) })
}

func TestBothDirectionsOfOneCallFlowByTurns(t *testing.T) { eachHTTP(t, bothDirections) }

func bothDirections(t *testing.T, two bool) {
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// HTTP/2 has nothing to enable.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil && !two || two != (r.ProtoMajor == 2) {
			t.Error(err, r.Proto)
		}
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintf(w, "heard %s\n", lines.Text())
			w.(http.Flusher).Flush()
		}
	}))
	// The wait for the head is over once it is there: what the request still sends has no part in it.
	transport := s.transport(t, func(c *Config) {
		if c.HeadTimeout = time.Second; two {
			c.Base = s.overHTTP2(t)
		}
	})
	if _, err := transport.Session(t.Context()); err != nil {
		t.Fatal(err)
	}
	reader, writer := io.Pipe()
	request, _ := http.NewRequest("POST", s.URL+"/", reader)
	go io.WriteString(writer, "0\n")
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for n := range 3 {
		if !lines.Scan() || lines.Text() != fmt.Sprint("heard ", n) {
			t.Fatal(n, lines.Text(), lines.Err())
		}
		fmt.Fprintf(writer, "%d\n", n+1)
	}
	writer.Close()
	time.Sleep(1300 * time.Millisecond)
	if rest, err := io.ReadAll(response.Body); err != nil {
		t.Fatal(string(rest), err)
	}
}

func TestASlowSourceOfARequestIsItsCallersMatterAndASilentServiceIsNot(t *testing.T) {
	silent := make(chan struct{})
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasPrefix(string(body), "silence") {
			<-silent
		}
		w.Write(body)
	}))
	t.Cleanup(func() { close(silent) })
	transport := s.transport(t, func(c *Config) { c.HeadTimeout = 700 * time.Millisecond })
	if _, err := transport.Session(t.Context()); err != nil {
		t.Fatal(err)
	}
	send := func(pieces ...string) (string, error) {
		reader, writer := io.Pipe()
		go func() {
			for _, piece := range pieces {
				io.WriteString(writer, piece)
				time.Sleep(900 * time.Millisecond)
			}
			writer.Close()
		}()
		request, _ := http.NewRequest("POST", s.URL+"/", reader)
		response, err := transport.RoundTrip(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
	if body, err := send("a", "b", "c"); err != nil || body != "abc" {
		t.Fatal("a slow source: ", body, err)
	}
	start := time.Now()
	var late *TimeoutError
	if body, err := send("silence"); !errors.As(err, &late) || time.Since(start) > soon {
		t.Fatal("a silent service: ", body, err, time.Since(start))
	}
}

// TestACancelledCallEndsOnTheWireToo looks at what the service sees of a call that is given up: before it is answered, while its
// request is still on the way, and while its answer is.
func TestACancelledCallEndsOnTheWireToo(t *testing.T) { eachHTTP(t, cancelledCalls) }

func cancelledCalls(t *testing.T, two bool) {
	begun, ended := make(chan string, 1), make(chan error, 1)
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if two != (r.ProtoMajor == 2) {
			t.Error(r.Proto)
		}
		switch r.URL.Path {
		case "/answering":
			io.WriteString(w, "first")
			w.(http.Flusher).Flush()
		case "/sending":
			begun <- r.URL.Path
			_, err := io.Copy(io.Discard, r.Body)
			ended <- err
			return
		default:
			io.Copy(io.Discard, r.Body)
		}
		begun <- r.URL.Path
		select {
		case <-r.Context().Done():
			ended <- r.Context().Err()
		case <-time.After(soon):
			ended <- nil
		}
	}))
	var base http.RoundTripper
	if two {
		base = s.overHTTP2(t)
	}
	transport := s.transport(t, func(c *Config) { c.Base = base })
	for _, path := range []string{"/waiting", "/sending", "/answering"} {
		ctx, cancel := context.WithCancel(t.Context())
		reader, writer := io.Pipe()
		go func() {
			io.WriteString(writer, "piece")
			if path != "/sending" {
				writer.Close()
			}
		}()
		request, _ := http.NewRequestWithContext(ctx, "POST", s.URL+path, reader)
		result := make(chan error, 1)
		go func() {
			response, err := transport.RoundTrip(request)
			if err == nil {
				_, err = io.ReadAll(response.Body)
				response.Body.Close()
			}
			result <- err
		}()
		within(t, path+" reaches the service", begun)
		select {
		case err := <-result:
			t.Fatal(path, " ended by itself: ", err)
		case <-time.After(50 * time.Millisecond):
		}
		cancel()
		if err := within(t, path+" returns", result); !errors.Is(err, context.Canceled) {
			t.Fatal(path, err)
		}
		if err := within(t, path+" ends at the service", ended); err == nil {
			t.Fatal(path, ": the service saw no end")
		}
		writer.Close()
	}
	// A source that gives nothing is given up too, before anything is sent.
	for _, version := range []wire.Version{2, 3} {
		other := s.transport(t, func(c *Config) { c.Wire, c.Base = version, base })
		if _, err := other.Session(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		reader, _ := io.Pipe()
		request, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/", reader)
		request.ContentLength = 10
		result := make(chan error, 1)
		go func() {
			_, err := other.RoundTrip(request)
			result <- err
		}()
		time.Sleep(20 * time.Millisecond)
		cancel()
		if err := within(t, "who reads nothing gives up", result); !errors.Is(err, context.Canceled) {
			t.Fatal(version, err)
		}
	}
	// Closing an answer before its end cancels it too.
	request, _ := http.NewRequest("POST", s.URL+"/answering", nil)
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	within(t, "the answer begins", begun)
	response.Body.Close()
	if err := within(t, "the service sees the end", ended); err == nil {
		t.Fatal("the service saw no end")
	}
}

func TestWhoGivesUpWhileASessionIsAgreedLeavesItToTheOthers(t *testing.T) {
	s := newService(t, http.HandlerFunc(echo))
	asked, release := make(chan struct{}), make(chan struct{})
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/v3/sessions" {
			close(asked)
			<-release
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	transport := s.transport(t, func(c *Config) { c.Base = base })
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	call := func(ctx context.Context, result chan<- error) {
		request, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"/", nil)
		response, err := transport.RoundTrip(request)
		if err == nil {
			response.Body.Close()
		}
		result <- err
	}
	go call(ctx, first)
	within(t, "the init is sent", asked)
	go call(t.Context(), second)
	cancel()
	if err := within(t, "the first gives up", first); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(release)
	if err := within(t, "the second is answered", second); err != nil || s.inits.Load() != 1 || s.served.Load() != 1 {
		t.Fatal(err, s.inits.Load(), s.served.Load())
	}
}
