// Package channel is an end of a channel: two peers agree keys over a relay that neither trusts, and exchange streams of bytes.
//
// [Attach] makes a channel from a grant, [Dial] and [Accept] make one without a relay, and a [Listener] and a [Connector] make
// channels for as long as a program runs. Streams come by [Channel.Open] and [Channel.Accept]; package rpc has remote calls
// on them.
//
// The contracts are spec/channel.md, spec/relay.md and spec/rpc.md. Package protocol below has the bytes and reaches no clock,
// randomness or network; this one has all three.
package channel
