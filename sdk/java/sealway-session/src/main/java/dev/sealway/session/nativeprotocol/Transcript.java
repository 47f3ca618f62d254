package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Hashes;
import java.nio.charset.StandardCharsets;

/** The transcript of an init or a renewal, and what is made of it. {@code spec/session-3.md#init}. */
final class Transcript {
    private Transcript() {
    }

    /** @param credential a SHA-256, or empty
     * @param renewed the id of the session that a renewal is about, or null */
    static byte[] of(InitRequest request, byte[] credential, InitAnswer answer, String renewed) {
        Fields out = new Fields();
        if (renewed == null) {
            out.add("sealway/3 init");
        } else {
            out.add("sealway/3 renew").add(renewed);
        }
        return out.add(request.suite()).list(request.suites()).add(request.share()).add(request.clientId())
                .optional(request.ttlSec()).text(request.proof()).list(request.pinnedKeyIds()).algorithms(request.signatureAlgorithms())
                .add(credential)
                .add(answer.sessionId()).add(answer.suite()).list(answer.suites()).add(answer.share())
                .number(answer.expiresInSec()).number(answer.serverTimeMs()).add(answer.keyId()).list(answer.keyIds())
                .add(answer.auth()).text(answer.subject()).text(answer.tenant()).bytes();
    }

    /** Returns the message that the identity key signs. */
    static byte[] signed(byte[] hash) {
        return Bytes.join("sealway/3 signature".getBytes(StandardCharsets.US_ASCII), hash);
    }

    /** SHA-256 of an {@code Authorization} header's value as sent; empty without one. */
    static byte[] credential(String authorization) {
        return authorization == null ? new byte[0] : Hashes.sha256(authorization.getBytes(StandardCharsets.ISO_8859_1));
    }
}
