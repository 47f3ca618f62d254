// Package broker is a client of `sealway broker`: a process beside the application, on a Unix socket, that does cryptography
// under named profiles, with keys that never cross the socket. The contract is spec/broker.md and spec/broker.proto.
//
// A [Client] has one connection, made when it is first used. Every call has a deadline, a place among those under way, and a
// breaker that lets calls fail at once while the broker is away; what may be repeated is repeated where the broker says that it
// is not there. Which those are says [RetryOptions].
//
// generate.sh writes the messages' code anew after a change of spec/broker.proto.
package broker
