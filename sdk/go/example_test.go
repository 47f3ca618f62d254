package sealway_test

import (
	"fmt"
	"net/http"

	sealway "sealway.dev/go"
)

func ExampleNewTransport() {
	transport, err := sealway.NewTransport("https://api.example.com", sealway.Config{
		Trust:    sealway.TrustPins("233b96789b2000da73d64621e7637903"),
		ClientID: "web-shop",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}
	_, err = client.Get("https://elsewhere.example.com/")
	fmt.Println(err)
	// Output: Get "https://elsewhere.example.com/": sealway: the request goes to https://elsewhere.example.com:443, and the transport seals for https://api.example.com:443: make another transport for it
}

func ExampleMiddleware_Handler() {
	middleware, err := sealway.NewMiddleware(sealway.MiddlewareConfig{
		Store:  sealway.NewMemoryStore(1000),
		Routes: []sealway.Route{{Path: "/health", Mode: sealway.Off}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	http.Handle("/", middleware.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello", r.Header.Get("X-Sealway-Client-Id"))
	})))
}
