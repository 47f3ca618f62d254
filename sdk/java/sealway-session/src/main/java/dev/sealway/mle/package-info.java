/** Encrypted messages of card schemes: JSON Web Encryption (RFC 7516) in its compact form, in bodies. {@code spec/mle.md}. A token says who can
 * read it, and not who wrote it: any holder of the public key can make one. */
package dev.sealway.mle;
