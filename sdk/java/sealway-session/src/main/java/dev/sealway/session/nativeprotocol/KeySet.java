package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.P256;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.ProtocolException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A service's published identity keys. Without a root's signature it proves nothing. {@code spec/session-3.md#identity-keys}.
 *
 * @param issuedMs time of issue, milliseconds of the epoch
 * @param expiresMs end of validity, milliseconds of the epoch
 * @param keys at most 16
 * @param rootKeyId the root that signed it, or null
 * @param rootSignature its signature, or null
 */
public record KeySet(long issuedMs, long expiresMs, List<Key> keys, String rootKeyId, byte[] rootSignature) {
    /** Path at which a service publishes its key set. */
    public static final String PATH = "/.well-known/sealway-keys";
    private static final int KEYS_MAX = 16;

    /** A key with its validity period. */
    public record Key(String keyId, byte[] publicKey, long notBeforeMs, long notAfterMs) {
    }

    /** Reads a key set.
     *
     * @throws ProtocolException {@code json_invalid}, {@code field_invalid}
     */
    public static KeySet parse(byte[] body) {
        return read(Members.parse(body, null));
    }

    /** Reads a key set inside a problem.
     *
     * @throws ProtocolException {@code field_invalid}
     */
    public static KeySet of(Object value) {
        return read(Members.of(value, "key_set"));
    }

    private static KeySet read(Members members) {
        long issuedMs = members.number("issued_ms", Long.MAX_VALUE);
        long expiresMs = members.number("expires_ms", Long.MAX_VALUE);
        if (!(members.get("keys") instanceof List<?> listed) || listed.size() > KEYS_MAX) {
            throw new ProtocolException(Code.FIELD_INVALID, "keys");
        }
        List<Key> keys = new ArrayList<>();
        for (Object each : listed) {
            Members key = Members.of(each, "keys");
            key.text("alg", "ES256"::equals);
            Key read = new Key(key.text("key_id", Forms::isKeyId), key.base64("public_key", P256.PUBLIC_LEN),
                    key.number("not_before_ms", Long.MAX_VALUE), key.number("not_after_ms", Long.MAX_VALUE));
            // Else a root's word for one key could be taken for its word for another.
            if (read.publicKey()[0] != 4 || !read.keyId().equals(Identity.keyId(read.publicKey()))) {
                throw new ProtocolException(Code.FIELD_INVALID, "keys");
            }
            keys.add(read);
        }
        String root = members.has("root_key_id") ? members.text("root_key_id", Forms::isKeyId) : null;
        byte[] signature = members.has("root_signature") ? members.base64("root_signature", -1) : null;
        if ((root == null) != (signature == null)) {
            throw new ProtocolException(Code.FIELD_INVALID, root == null ? "root_key_id" : "root_signature");
        }
        return new KeySet(issuedMs, expiresMs, List.copyOf(keys), root, signature);
    }

    /** Returns the public keys by their ids. */
    public Map<String, byte[]> byId() {
        Map<String, byte[]> out = new LinkedHashMap<>();
        keys.forEach(key -> out.put(key.keyId(), key.publicKey()));
        return out;
    }

    /** Returns the key of an id if it may have signed an answer; null if the set does not have it, or not at this time. Validity ends by the
     * latest of three times: the answer's, this client's, and the issue of the set. Else the thief of an expired key could give an earlier one.
     *
     * @param serverTimeMs time in the answer
     * @param nowMs the client's own clock
     */
    public byte[] signer(String keyId, long serverTimeMs, long nowMs) {
        long latestMs = Math.max(Math.max(serverTimeMs, nowMs), issuedMs);
        for (Key key : keys) {
            if (key.keyId().equals(keyId) && key.notBeforeMs() <= serverTimeMs && latestMs < key.notAfterMs() && latestMs < expiresMs) {
                return key.publicKey();
            }
        }
        return null;
    }

    /** Checks that a pinned root signed the set, and that the set is not over or older than one before.
     *
     * @param root 65 bytes
     * @param takenIssuedMs time of issue of the newest set that was accepted before, or null
     * @throws ProtocolException {@code key_untrusted}, {@code signature_invalid}
     */
    public void verify(byte[] root, long nowMs, Long takenIssuedMs) {
        if (!Identity.keyId(root).equals(rootKeyId)) {
            throw new ProtocolException(Code.KEY_UNTRUSTED);
        }
        Fields listed = new Fields();
        for (Key key : keys) {
            listed.add(new Fields().add(key.keyId()).add(key.publicKey()).number(key.notBeforeMs()).number(key.notAfterMs())
                    .bytes());
        }
        byte[] hash = Hashes.sha256(new Fields().number(issuedMs).number(expiresMs).add(listed.bytes()).bytes());
        byte[] message = Bytes.join("sealway/3 keys".getBytes(StandardCharsets.US_ASCII), hash);
        if (!P256.verifies(root, message, rootSignature)) {
            throw new ProtocolException(Code.SIGNATURE_INVALID);
        }
        if (nowMs >= expiresMs || takenIssuedMs != null && issuedMs < takenIssuedMs) {
            throw new ProtocolException(Code.KEY_UNTRUSTED);
        }
    }
}
