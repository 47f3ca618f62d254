package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Kem;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.ProtocolException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;

/** A service's published keys for requests without a session. Without a root's signature it proves nothing.
 * {@code spec/one-shot.md#the-key-document}. */
public final class KeyDocument {
    /** Path at which a service publishes its key document. */
    public static final String PATH = "/.well-known/sealway-hpke-keys";
    private final RootSeal seal;
    private final List<Key> keys;

    private KeyDocument(RootSeal seal, List<Key> keys) {
        this.seal = seal;
        this.keys = keys;
    }

    /** A key and its times, milliseconds of the epoch. Clients use it before {@code useUntilMs}, servers accept it before {@code notAfterMs}. */
    public record Key(KeyConfig config, long notBeforeMs, long useUntilMs, long notAfterMs) {
        boolean isInUse(long atMs) {
            return notBeforeMs <= atMs && atMs < useUntilMs;
        }
    }

    /** Reads a key document.
     *
     * @throws ProtocolException {@code body_too_large}, {@code json_invalid}, {@code field_invalid} */
    public static KeyDocument parse(byte[] body) {
        return read(RootSeal.members(body));
    }

    /** Reads a key document inside a problem.
     *
     * @throws ProtocolException {@code body_too_large}, {@code field_invalid} */
    public static KeyDocument of(Object value) {
        return read(RootSeal.members(value, "key_document"));
    }

    private static KeyDocument read(Members members) {
        if (!(members.get("keys") instanceof List<?> listed) || listed.size() > RootSeal.KEYS_MAX) {
            throw new ProtocolException(Code.FIELD_INVALID, "keys");
        }
        List<Key> keys = new ArrayList<>();
        Set<String> names = new HashSet<>();
        for (Object each : listed) {
            Members key = Members.of(each, "keys");
            Key read = new Key(KeyConfig.read(key.base64("config", -1)), key.number("not_before_ms", Forms.TIME_MAX_MS),
                    key.number("use_until_ms", Forms.TIME_MAX_MS), key.number("not_after_ms", Forms.TIME_MAX_MS));
            if (read.useUntilMs() < read.notBeforeMs() || read.notAfterMs() < read.useUntilMs() || !names.add(read.config().name())) {
                throw new ProtocolException(Code.FIELD_INVALID, "keys");
            }
            keys.add(read);
        }
        return new KeyDocument(RootSeal.read(members), List.copyOf(keys));
    }

    /** Returns the time of issue, milliseconds of the epoch. */
    public long issuedMs() {
        return seal.issuedMs();
    }

    /** Returns true if the document is over at this time, milliseconds of the epoch. */
    public boolean isOver(long atMs) {
        return atMs >= seal.expiresMs();
    }

    /** Returns the keys, the one that the service prefers first, also those of KEMs that this library does not know. */
    public List<Key> keys() {
        return keys;
    }

    /** Returns the first key that is in use at a time, or null.
     *
     * @param kems that the client allows and has
     * @param trusted decides if the client trusts a key */
    public KeyConfig choose(long atMs, Set<Kem> kems, Predicate<KeyConfig> trusted) {
        for (Key key : keys) {
            if (key.isInUse(atMs) && key.config().kem() != null && kems.contains(key.config().kem()) && trusted.test(key.config())) {
                return key.config();
            }
        }
        return null;
    }

    /** Checks that a pinned root signed the document, and that it is not over or older than one before.
     *
     * @param root its public key
     * @param accepted names of the algorithms that the client accepts of the root; empty for no restriction
     * @param nowMs the client's own clock
     * @param takenIssuedMs time of issue of the newest document that was accepted before, or null
     * @throws ProtocolException {@code key_untrusted}, {@code signature_invalid} */
    public void verify(byte[] root, List<String> accepted, long nowMs, Long takenIssuedMs) {
        Fields listed = new Fields();
        for (Key key : keys) {
            listed.add(new Fields().add(key.config().bytes()).number(key.notBeforeMs()).number(key.useUntilMs()).number(key.notAfterMs()).bytes());
        }
        seal.verify(Protocol.ONE_SHOT.label("keys"), listed, root, accepted, nowMs, takenIssuedMs);
    }
}
