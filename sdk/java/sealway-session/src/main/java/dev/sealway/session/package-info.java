/** Sessions on wires 1 and 2, and what all wires share: records, claims, replay. {@code spec/session.md}. */
package dev.sealway.session;
