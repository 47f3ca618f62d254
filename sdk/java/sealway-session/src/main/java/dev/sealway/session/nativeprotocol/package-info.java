/** Sessions on wire 3, both sides. {@code spec/session-3.md}. */
package dev.sealway.session.nativeprotocol;
