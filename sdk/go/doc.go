// Package sealway seals HTTP requests and their answers end to end.
//
// A client wraps its http.RoundTripper in a [Transport]; a server wraps its http.Handler in a [Middleware]. Between the two
// only ciphertext passes, also where a proxy terminates TLS.
//
// The packages below are pure: they take the time and the randomness they need as arguments and open no connection.
//
//   - wire: names of headers, identifiers, stamps, nonces, frames, problems
//   - crypto: the cryptographic primitives
//   - session: inits, calls and records of wires 1, 2 and 3, on both sides, and requests of wire 4
//   - mle: messages of card schemes (JWE)
//
// An [MLETransport] and an [MLEMiddleware] encrypt bodies as card schemes do.
//
// [OneShot] seals single requests without a session.
//
// The contract is spec/session.md, spec/session-3.md, spec/one-shot.md and spec/mle.md of the project.
package sealway
