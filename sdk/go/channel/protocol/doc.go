// Package protocol is the bytes of a channel: handshakes and records of two peers over a middle that neither trusts, in the
// profile flowersec-v1 and in the native one. The contract is spec/channel.md.
//
// The package is pure: time and randomness come as arguments, messages come as bytes, and nothing here reaches a clock, a
// source of randomness or a network. A test holds its imports to that. Package channel runs it over a WebSocket.
//
// Every error is an [*Error] and ends the channel: nothing is answered, nothing goes on.
package protocol
