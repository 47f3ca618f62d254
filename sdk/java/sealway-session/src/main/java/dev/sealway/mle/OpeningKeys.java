package dev.sealway.mle;

import dev.sealway.wire.Options;
import dev.sealway.wire.UsageException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The keys that open messages, by name. All of them are live, so that keys can be rotated. */
public final class OpeningKeys {
    private final Map<String, OpeningKey> byKid = new HashMap<>();

    /** Puts keys together.
     *
     * @throws UsageException if two have one name, or there is none */
    public OpeningKeys(List<OpeningKey> keys) {
        for (OpeningKey key : Options.present(keys, "keys", "give the keys that open")) {
            if (byKid.put(Options.present(key, "one of keys", "leave it out").kid(), key) != null) {
                throw new UsageException("two keys that open have the kid " + MleException.quote(key.kid()));
            }
        }
        if (byKid.isEmpty()) {
            throw new UsageException("keys is empty: give at least one that opens");
        }
    }

    /** Puts keys together.
     *
     * @throws UsageException if two have one name, or there is none */
    public static OpeningKeys of(OpeningKey... keys) {
        return new OpeningKeys(List.of(keys));
    }

    OpeningKey get(String kid) {
        return byKid.get(kid);
    }

    /** Returns the key if there is exactly one, else null. */
    OpeningKey sole() {
        return byKid.size() == 1 ? byKid.values().iterator().next() : null;
    }
}
