// Package crypto is what the session protocols ask of a cryptographic library, and nothing else: AES-256-GCM, HKDF-SHA256,
// the signatures of identity keys and the key agreements of spec/session-3.md#suites. All of it is the standard library's but ML-DSA,
// which the module sealway.dev/go/mldsa adds.
//
// Randomness comes in as an argument, so everything here can be computed twice.
package crypto
