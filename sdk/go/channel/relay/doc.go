// Package relay is what endpoints and a relay say to one another before a channel begins: grants, tokens and the attach
// message. It is pure: time comes as an argument, keys and random ids too. The contract is spec/relay.md.
package relay
