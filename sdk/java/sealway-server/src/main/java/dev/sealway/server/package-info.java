/** Middleware without a framework: routes, stores of sessions and nonces, opening and sealing. */
package dev.sealway.server;
