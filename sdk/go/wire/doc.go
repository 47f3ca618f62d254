// Package wire knows the forms of spec/session.md and spec/session-3.md that all wires share: header names, base64,
// identifiers, stamps, nonces, JSON, and the codes of refusals. It computes and decides nothing.
package wire
