// Package rpc is remote calls on a stream of a channel: many at once, each with a deadline and able to be taken back, and
// notifications, from either side. The contract is spec/rpc.md.
package rpc
