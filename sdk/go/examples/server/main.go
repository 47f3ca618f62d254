// Server is the demo purchase service behind the middleware; its sessions come from an authority.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	sealway "sealway.dev/go"
	"sealway.dev/go/internal/purchase"
)

func main() {
	handler, port, err := configure()
	if err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(2)
	}
	if err := serve(handler, port); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

func configure() (http.Handler, int, error) {
	port := 3100
	if text := os.Getenv("PORT"); text != "" {
		number, err := strconv.Atoi(text)
		if err != nil || number < 0 || number > 65535 {
			return nil, 0, errors.New("PORT is 0 to 65535")
		}
		port = number
	}
	file := os.Getenv("AUTHORITY_SECRET_FILE")
	if file == "" {
		return nil, 0, errors.New("AUTHORITY_SECRET_FILE is needed: the file with the secret that the authority knows this service by")
	}
	secret, err := sealway.ReadSecret(file)
	if err != nil {
		return nil, 0, fmt.Errorf("AUTHORITY_SECRET_FILE: %w", err)
	}
	url := os.Getenv("AUTHORITY_URL")
	if url == "" {
		url = "http://localhost:3000"
	}
	authority, err := sealway.NewAuthorityStore(url, secret, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("AUTHORITY_URL or the secret: %w", err)
	}
	middleware, err := sealway.NewMiddleware(sealway.MiddlewareConfig{
		Store:  authority,
		Routes: []sealway.Route{{Path: "/health", Mode: sealway.Off}},
		OnRefusal: func(refusal sealway.Refusal) {
			fmt.Fprintf(os.Stderr, "refused with %d: %v\n", refusal.Status, refusal.Err)
		},
	})
	if err != nil {
		return nil, 0, err
	}
	return middleware.Handler(purchase.Handler()), port, nil
}

func serve(handler http.Handler, port int) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	fmt.Printf("listening http://%s\n", listener.Addr())
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(ending)
}
