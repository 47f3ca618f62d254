package dev.sealway.client;

import dev.sealway.crypto.KemSender;
import dev.sealway.session.nativeprotocol.KeyConfig;
import dev.sealway.wire.Options;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.StrictBase64;
import dev.sealway.wire.UsageException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Source of the service's keys for a client of wire 4. {@code spec/one-shot.md#the-key-document}. */
public sealed interface OneShotTrust permits Trust.Root, OneShotTrust.Configs, OneShotTrust.Kids {
    /** Trusts these keys alone: either key configurations, with which nothing is fetched, or kids, whose keys come from the key document.
     *
     * @param texts key configurations in base64, or kids ({@code hpke:} and 32 hexadecimal digits), 1 to 16 */
    static OneShotTrust pins(List<String> texts) {
        if (Options.present(texts, "pins", Configs.FORM).isEmpty() || texts.size() > 16) {
            throw new UsageException("pins has " + texts.size() + " entries: give 1 to 16 key configurations or kids");
        }
        texts.forEach(text -> Options.present(text, "one of pins", Configs.FORM));
        List<String> kids = texts.stream().filter(KeyConfig::isKid).toList();
        if (kids.size() == texts.size()) {
            return new Kids(kids);
        }
        if (!kids.isEmpty()) {
            throw new UsageException("pins has both key configurations and kids: give one of the two");
        }
        List<KeyConfig> configs = new ArrayList<>();
        for (String text : texts) {
            byte[] bytes = StrictBase64.decode(text);
            if (bytes == null) {
                throw new UsageException("one of pins is not what it should be: " + Configs.FORM);
            }
            try {
                KeyConfig config = KeyConfig.read(bytes);
                if (config.kem() != null) {
                    KemSender.check(config.kem(), config.publicKey());
                }
                configs.add(config);
            } catch (ProtocolException malformed) {
                throw new UsageException("one of pins is no valid key configuration (" + malformed.code() + "): " + Configs.FORM);
            }
        }
        return new Configs(List.copyOf(configs));
    }

    /** Trusts these keys alone; see {@link #pins(List)}. */
    static OneShotTrust pins(String... texts) {
        return pins(Arrays.asList(Options.present(texts, "pins", Configs.FORM)));
    }

    /** Trusts the keys of the document that this root signs; after a restart an older document is accepted again. */
    static OneShotTrust root(String publicKey) {
        return root(publicKey, TrustStore.inMemory());
    }

    /** Trusts the keys of the document that this root signs.
     *
     * @param publicKey in base64, of any algorithm
     * @param store keeps the time at which the newest document was issued, so that no older one is accepted */
    static OneShotTrust root(String publicKey, TrustStore store) {
        return (Trust.Root) Trust.root(publicKey, store);
    }

    /** Trust in key configurations, by {@link #pins(List)}. */
    record Configs(List<KeyConfig> keys) implements OneShotTrust {
        private static final String FORM = "give a key configuration in base64, or a kid (hpke: and 32 hexadecimal digits)";
    }

    /** Trust in kids, by {@link #pins(List)}. */
    record Kids(List<String> kids) implements OneShotTrust {
    }
}
