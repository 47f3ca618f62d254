package session

import (
	"strings"

	"sealway.dev/go/wire"
)

// Headers that a client may not say of itself: stripped_headers of spec/registry.toml.
var (
	originNames = map[string]bool{"forwarded": true, "x-real-ip": true, "x-client-ip": true, "x-cluster-client-ip": true, "true-client-ip": true,
		"cf-connecting-ip": true, "fastly-client-ip": true, "client-cert": true, "client-cert-chain": true, "x-arr-clientcert": true}
	originPrefixes = []string{"x-forwarded-", "x-client-cert", "x-ssl-client-", "ssl-client-", "x-amzn-mtls-"}
	wayNames       = map[string]bool{"via": true, "traceparent": true, "tracestate": true}
	// fallbackNames are taken from outside a seal where there is none alike within.
	fallbackNames = map[string]bool{"host": true, "user-agent": true, "accept-language": true}
)

// alike is a name in lower case as services that make variables of headers read it: an underscore is a hyphen.
func alike(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// IsOrigin says whether a header, however it is spelled, says where a request came from or whose certificate it came with.
func IsOrigin(name string) bool {
	name = alike(name)
	for _, prefix := range originPrefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return originNames[name]
}

// IsClaimed says whether a header, however it is spelled, is the API side's alone to say.
func IsClaimed(name string) bool { return strings.HasPrefix(alike(name), "x-sealway-") }

// IsBelieved says whether such a header may come from outside a seal: one of the origin in its own spelling, as a proxy in front
// takes away no other, where that proxy is trusted.
func IsBelieved(name string, frontTrusted bool) bool {
	return frontTrusted && IsOrigin(name) && !strings.Contains(name, "_")
}

// ServiceHeaders are what a handler sees of a request of wire 3: the inner headers, and what counts of those outside. Inner names
// are in lower case. spec/session-3.md#sealed-requests
func ServiceHeaders(outer, inner wire.HeaderList, frontTrusted bool) wire.HeaderList {
	within := make(map[string]bool, len(inner))
	out := make(wire.HeaderList, 0, len(inner)+4)
	for _, header := range inner {
		name := alike(header.Name)
		within[name] = true
		if !IsOrigin(name) && !IsClaimed(name) && !wayNames[name] {
			out = append(out, header)
		}
	}
	for _, header := range outer {
		lower := strings.ToLower(header.Name)
		if wayNames[lower] || IsBelieved(lower, frontTrusted) || fallbackNames[lower] && !within[lower] {
			out = append(out, wire.Header{Name: lower, Value: header.Value})
		}
	}
	return out
}
