package dev.sealway.client;

import dev.sealway.crypto.SignatureAlgorithm;
import dev.sealway.session.nativeprotocol.Identity;
import dev.sealway.wire.Forms;
import dev.sealway.wire.Options;
import dev.sealway.wire.StrictBase64;
import dev.sealway.wire.UsageException;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/** Verification of the service's identity by a client of wire 3. {@code spec/session-3.md#identity-keys}. */
public sealed interface Trust {
    /** Trusts these identity keys alone.
     *
     * @param texts key ids (32 hexadecimal digits) or public keys (base64, of any algorithm), 1 to 16
     */
    static Trust pins(List<String> texts) {
        if (Options.present(texts, "pins", Pins.FORM).isEmpty() || texts.size() > 16) {
            throw new UsageException("pins has " + texts.size() + " entries: give 1 to 16 key ids or public keys");
        }
        for (String text : texts) {
            if (!Forms.isKeyId(Options.present(text, "one of pins", Pins.FORM))) {
                publicKey(text, "one of pins");
            }
        }
        return new Pins(List.copyOf(texts));
    }

    /** Trusts these identity keys alone; see {@link #pins(List)}. */
    static Trust pins(String... texts) {
        return pins(Arrays.asList(Options.present(texts, "pins", Pins.FORM)));
    }

    /** Trusts the keys that this root signs; after a restart an older set of keys is accepted again. */
    static Trust root(String publicKey) {
        return root(publicKey, TrustStore.inMemory());
    }

    /** Trusts the keys that this root signs.
     *
     * @param publicKey in base64, of any algorithm
     * @param store keeps the time at which the newest set was issued, so that no older one is accepted
     */
    static Trust root(String publicKey, TrustStore store) {
        return new Root(publicKey(Options.present(publicKey, "root", "give its public key in base64"), "root"), store(store));
    }

    /** Trusts the key that answers first, and from then on that key alone. A machine in between at the first use is not detected.
     *
     * @param store keeps the keys, such as a {@link FileTrustStore}
     */
    static Trust firstUse(TrustStore store) {
        return new FirstUse(store(store));
    }

    private static TrustStore store(TrustStore store) {
        return Options.present(store, "store", "new FileTrustStore keeps keys in a file");
    }

    private static byte[] publicKey(String text, String name) {
        byte[] key = StrictBase64.decode(text);
        if (key == null || SignatureAlgorithm.of(key) == null) {
            throw new UsageException(name + " is not what it should be: " + Pins.FORM);
        }
        if (!SignatureAlgorithm.isValid(key)) {
            throw new UsageException(name + " is no point of its curve: " + Pins.FORM);
        }
        return key;
    }

    /** Rejects pinned keys and roots that a client with this restriction would never accept.
     *
     * @param accepted names of algorithms; empty for no restriction */
    static void check(Object trust, List<String> accepted) {
        List<byte[]> keys = switch (trust) {
            case Pins pins -> pins.texts().stream().filter(text -> !Forms.isKeyId(text)).map(StrictBase64::decode).toList();
            case Root root -> List.of(root.key());
            case null, default -> List.of();
        };
        for (byte[] key : keys) {
            if (!SignatureAlgorithm.accepts(accepted, key, true)) {
                throw new UsageException("trust has the key " + Identity.keyId(key) + ", which " + notAccepted(accepted, key));
            }
        }
    }

    /** Says why a client does not accept the algorithm of a key. */
    static String notAccepted(List<String> accepted, byte[] key) {
        SignatureAlgorithm algorithm = SignatureAlgorithm.of(key);
        if (algorithm == null) {
            return "is of an algorithm that this client does not know";
        }
        if (!algorithm.isAvailable()) {
            return "is of " + algorithm.text() + ", which needs Bouncy Castle: do not exclude bcprov-jdk18on";
        }
        return "is of " + algorithm.text() + (accepted.isEmpty() ? ", which a client accepts only of a pinned key, or if signatureAlgorithms names it"
                : ", and signatureAlgorithms is " + accepted + ": pin another key, or name its algorithm");
    }

    /** Trust by {@link #pins(List)}. */
    record Pins(List<String> texts) implements Trust {
        private static final String NAMES = Arrays.stream(SignatureAlgorithm.values()).map(SignatureAlgorithm::text)
                .collect(Collectors.joining(", "));
        private static final String FORM = "give a key id (32 hexadecimal digits) or a public key in base64, of one of " + NAMES;
    }

    /** Trust by {@link #root(String, TrustStore)}. */
    record Root(byte[] key, TrustStore store) implements Trust, OneShotTrust {
    }

    /** Trust by {@link #firstUse}. */
    record FirstUse(TrustStore store) implements Trust {
    }
}
