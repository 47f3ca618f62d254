package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.SignatureAlgorithm;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.Json;
import dev.sealway.wire.ProtocolException;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** Times and root's signature of a list of keys that a service publishes. {@code spec/session-3.md#identity-keys}.
 *
 * @param issuedMs time of issue, milliseconds of the epoch
 * @param expiresMs end of validity, milliseconds of the epoch
 * @param rootKeyId the root that signed it, or null
 * @param signature the root's, or null */
record RootSeal(long issuedMs, long expiresMs, String rootKeyId, byte[] signature) {
    /** Bound on a list of keys, in bytes of JSON. */
    private static final int BYTES_MAX = 65_536;
    /** Bound on the number of its keys. */
    static final int KEYS_MAX = 16;

    /** Returns the members of a list that was fetched.
     *
     * @throws ProtocolException {@code body_too_large}, {@code json_invalid}, {@code field_invalid} */
    static Members members(byte[] body) {
        if (body.length > BYTES_MAX) {
            throw new ProtocolException(Code.BODY_TOO_LARGE);
        }
        return Members.parse(body, null);
    }

    /** Returns the members of a list inside a problem.
     *
     * @param name of the problem's member
     * @throws ProtocolException {@code body_too_large}, {@code field_invalid} */
    static Members members(Object value, String name) {
        Members members = Members.of(value, name);
        if (Json.write(value).getBytes(StandardCharsets.UTF_8).length > BYTES_MAX) {
            throw new ProtocolException(Code.BODY_TOO_LARGE, name);
        }
        return members;
    }

    static RootSeal read(Members members) {
        long issuedMs = members.number("issued_ms", Forms.TIME_MAX_MS);
        long expiresMs = members.number("expires_ms", Forms.TIME_MAX_MS);
        String root = members.has("root_key_id") ? members.text("root_key_id", Forms::isKeyId) : null;
        byte[] signature = members.has("root_signature") ? members.base64UpTo("root_signature", InitAnswer.SIGNATURE_MAX) : null;
        if ((root == null) != (signature == null)) {
            throw new ProtocolException(Code.FIELD_INVALID, root == null ? "root_key_id" : "root_signature");
        }
        return new RootSeal(issuedMs, expiresMs, root, signature);
    }

    /** Makes the steps of <i>take a set</i> from the root on.
     *
     * @param label of the list
     * @param keys encoded, one after the other
     * @param root its public key
     * @param accepted names of the algorithms that the client accepts; empty for no restriction
     * @param takenIssuedMs time of issue of the newest list that was accepted before, or null
     * @throws ProtocolException {@code key_untrusted}, {@code signature_invalid} */
    void verify(String label, Fields keys, byte[] root, List<String> accepted, long nowMs, Long takenIssuedMs) {
        if (!Identity.keyId(root).equals(rootKeyId) || !SignatureAlgorithm.accepts(accepted, root, true)) {
            throw new ProtocolException(Code.KEY_UNTRUSTED);
        }
        byte[] hash = Hashes.sha256(new Fields().number(issuedMs).number(expiresMs).add(keys.bytes()).bytes());
        if (!SignatureAlgorithm.verifies(root, Bytes.join(label.getBytes(StandardCharsets.US_ASCII), hash), signature)) {
            throw new ProtocolException(Code.SIGNATURE_INVALID);
        }
        if (nowMs >= expiresMs || takenIssuedMs != null && issuedMs < takenIssuedMs) {
            throw new ProtocolException(Code.KEY_UNTRUSTED);
        }
    }
}
