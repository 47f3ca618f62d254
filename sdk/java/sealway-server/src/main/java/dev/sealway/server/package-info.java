/** What middleware of any framework does: routes, stores of sessions and nonces, opening and sealing. */
package dev.sealway.server;
