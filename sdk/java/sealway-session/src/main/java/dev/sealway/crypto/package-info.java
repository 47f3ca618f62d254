/** The platform's cryptography, as the wires use it. Randomness is the caller's to give. */
package dev.sealway.crypto;
