/** Sealed calls over {@code java.net.http}. Begin with {@link dev.sealway.client.SealwayClient}. */
package dev.sealway.client;
