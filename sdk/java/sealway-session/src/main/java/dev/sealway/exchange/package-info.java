/** A sealed request at a server, as a value: time and randomness are arguments, and nothing here waits. */
package dev.sealway.exchange;
