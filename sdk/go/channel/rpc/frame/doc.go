// Package frame is what streams of a channel carry: frames of JSON, the prologue that says what a stream is for, and the
// envelope of remote calls. It is pure: bytes in, values out. The contract is spec/rpc.md.
package frame
