package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.SignatureAlgorithm;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.ProtocolException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** A service's published identity keys. Without a root's signature it proves nothing. {@code spec/session-3.md#identity-keys}. */
public final class KeySet {
    /** Path at which a service publishes its key set. */
    public static final String PATH = "/.well-known/sealway-keys";
    private static final int PUBLIC_KEY_MAX = 8192;
    private final RootSeal seal;
    private final List<Key> keys;

    private KeySet(RootSeal seal, List<Key> keys) {
        this.seal = seal;
        this.keys = keys;
    }

    /** A key with its validity period. A key of an algorithm that this library does not know is under the root's signature, and never trusted. */
    public record Key(String keyId, byte[] publicKey, long notBeforeMs, long notAfterMs) {
    }

    /** Reads a key set.
     *
     * @throws ProtocolException {@code body_too_large}, {@code json_invalid}, {@code field_invalid}
     */
    public static KeySet parse(byte[] body) {
        return read(RootSeal.members(body));
    }

    /** Reads a key set inside a problem.
     *
     * @throws ProtocolException {@code body_too_large}, {@code field_invalid}
     */
    public static KeySet of(Object value) {
        return read(RootSeal.members(value, "key_set"));
    }

    private static KeySet read(Members members) {
        if (!(members.get("keys") instanceof List<?> listed) || listed.size() > RootSeal.KEYS_MAX) {
            throw new ProtocolException(Code.FIELD_INVALID, "keys");
        }
        List<Key> keys = new ArrayList<>();
        Set<String> ids = new HashSet<>();
        for (Object each : listed) {
            Members key = Members.of(each, "keys");
            SignatureAlgorithm algorithm = SignatureAlgorithm.of(key.text("alg", Members::isAlgorithmName));
            Key read = new Key(key.text("key_id", Forms::isKeyId), key.base64UpTo("public_key", PUBLIC_KEY_MAX),
                    key.number("not_before_ms", Forms.TIME_MAX_MS), key.number("not_after_ms", Forms.TIME_MAX_MS));
            // Else a root's word for one key could be taken for its word for another.
            if (algorithm != SignatureAlgorithm.of(read.publicKey()) || algorithm != null && !algorithm.hasForm(read.publicKey())
                    || !read.keyId().equals(Identity.keyId(read.publicKey())) || !ids.add(read.keyId())) {
                throw new ProtocolException(Code.FIELD_INVALID, "keys");
            }
            keys.add(read);
        }
        return new KeySet(RootSeal.read(members), List.copyOf(keys));
    }

    /** Returns the time of issue, milliseconds of the epoch. */
    public long issuedMs() {
        return seal.issuedMs();
    }

    /** Returns the keys, at most 16. */
    public List<Key> keys() {
        return keys;
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
        long latestMs = Math.max(Math.max(serverTimeMs, nowMs), seal.issuedMs());
        for (Key key : keys) {
            if (key.keyId().equals(keyId) && key.notBeforeMs() <= serverTimeMs && latestMs < key.notAfterMs() && latestMs < seal.expiresMs()) {
                return key.publicKey();
            }
        }
        return null;
    }

    /** Checks that a pinned root signed the set, and that the set is not over or older than one before.
     *
     * @param root its public key
     * @param accepted names of the algorithms that the client accepts; empty for no restriction
     * @param nowMs the client's own clock
     * @param takenIssuedMs time of issue of the newest set that was accepted before, or null
     * @throws ProtocolException {@code key_untrusted}, {@code signature_invalid}
     */
    public void verify(byte[] root, List<String> accepted, long nowMs, Long takenIssuedMs) {
        Fields listed = new Fields();
        for (Key key : keys) {
            listed.add(new Fields().add(key.keyId()).add(key.publicKey()).number(key.notBeforeMs()).number(key.notAfterMs())
                    .bytes());
        }
        seal.verify(Protocol.SESSION.label("keys"), listed, root, accepted, nowMs, takenIssuedMs);
    }
}
