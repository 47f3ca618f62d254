// Package mle opens and seals the encrypted messages of card schemes: JSON Web Encryption (RFC 7516) in its compact form, as the body
// of an HTTP message or as the sole member of its JSON object. The contract is spec/mle.md of the project.
//
// The package is pure: it takes the time and the randomness it needs as arguments and opens no connection. Over HTTP it is
// sealway.MLEMiddleware on servers and sealway.MLETransport on clients.
//
// A token says who can read it. It does not say who wrote it: anybody can make one with the public key.
package mle
