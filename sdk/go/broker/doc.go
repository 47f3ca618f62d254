// Package broker is a client of `sealway broker`: a process beside the application, on a Unix socket, that does cryptography
// under named profiles, with keys that never cross the socket. The contract is spec/broker.md and spec/broker.proto.
//
// A [Client] has one connection, which the first call opens. Every call has a deadline. A bound limits concurrent calls, and a breaker
// lets calls fail at once while the broker is unavailable. [RetryOptions] says which calls are retried.
//
// generate.sh generates the code of the messages from spec/broker.proto.
package broker
