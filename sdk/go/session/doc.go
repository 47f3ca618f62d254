// Package session is the protocol of wires 1, 2 and 3, on both sides, and of wire 4 at the client: inits, sealed requests, sealed
// answers, key sets, key documents and the proofs of problems. Bytes, time and randomness come in as arguments; nothing here has a clock, a generator or a connection.
//
// A sealed request that was opened stays shut until its nonce is reserved: see [ClaimGuard].
package session
