// Package sealway puts sealed envelopes around HTTP requests.
//
// A client wraps its http.RoundTripper in a [Transport]; a server wraps its http.Handler in a [Middleware]. Between the two
// only ciphertext passes, whatever terminates TLS on the way.
//
// The packages below are pure: they take the time and the randomness they need as arguments and open no connection.
//
//   - wire: names of headers, identifiers, stamps, nonces, frames, problems
//   - crypto: what a cryptographic library is asked for, and nothing else
//   - session: inits, calls and records of wires 1, 2 and 3, on both sides
//
// The contract is spec/session.md and spec/session-3.md of the project.
package sealway
