package dev.sealway.client;

import dev.sealway.client.Transport.Deadline;
import dev.sealway.crypto.SignatureAlgorithm;
import dev.sealway.session.nativeprotocol.Identity;
import dev.sealway.session.nativeprotocol.InitAnswer;
import dev.sealway.session.nativeprotocol.KeySet;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.StrictBase64;
import dev.sealway.wire.UsageException;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** The identity keys of one service that a client trusts. */
final class Keyring {
    private static final System.Logger LOG = System.getLogger("dev.sealway.client");
    private static final int KEYS_MAX = 16;
    private final Trust trust;
    /** Names of the signature algorithms that the client accepts; empty for no restriction. */
    private final List<String> accepted;
    private final String origin;
    private final Function<Deadline, KeySet> fetch;
    private final Map<String, byte[]> keys = new LinkedHashMap<>();
    private final RootHistory history;
    /** Key set that the root signed last, or null. */
    private KeySet set;

    /** @param fetch asks the service for its key set */
    Keyring(Trust trust, List<String> accepted, String origin, Function<Deadline, KeySet> fetch) {
        this.trust = trust;
        this.accepted = accepted;
        this.origin = origin;
        this.fetch = fetch;
        switch (trust) {
            case Trust.Pins pins -> pins.texts().stream().filter(text -> !Forms.isKeyId(text))
                    .forEach(text -> keys.putAll(decoded(List.of(text))));
            case Trust.Root root -> { }
            case Trust.FirstUse met -> keys.putAll(decoded(RootHistory.load(met.store(), origin)));
        }
        if (trust instanceof Trust.FirstUse && !keys.isEmpty() && keys.values().stream().noneMatch(this::accepts)) {
            throw new UsageException("the trust store has no key of " + origin + " that is accepted: one "
                    + Trust.notAccepted(accepted, keys.values().iterator().next()));
        }
        this.history = trust instanceof Trust.Root root ? new RootHistory(root, accepted, origin, "root") : null;
    }

    private Map<String, byte[]> decoded(List<String> lines) {
        Map<String, byte[]> out = new LinkedHashMap<>();
        for (String base64 : lines) {
            byte[] key = StrictBase64.decode(base64);
            if (key == null || SignatureAlgorithm.of(key) == null) {
                throw RootHistory.damaged(origin, null);
            }
            out.put(Identity.keyId(key), key);
        }
        return out;
    }

    /** Returns the {@code pinned_key_ids} of an init. */
    synchronized List<String> pinned() {
        return switch (trust) {
            case Trust.Pins pins -> pins.texts().stream()
                    .map(text -> Forms.isKeyId(text) ? text : Identity.keyId(StrictBase64.decode(text))).distinct().toList();
            case Trust.Root root -> List.of();
            case Trust.FirstUse met -> List.copyOf(keys.keySet());
        };
    }

    /** Decides if the client accepts the algorithm of a trusted key. Pins, and the keys of a service that was met before, are pinned. */
    private boolean accepts(byte[] key) {
        return SignatureAlgorithm.accepts(accepted, key, trust instanceof Trust.Pins || trust instanceof Trust.FirstUse && !keys.isEmpty());
    }

    /** Returns the public key of an id, if it is trusted to have signed at this time of the server, and of an algorithm that the client accepts.
     * Fetches the key set where needed.
     *
     * @throws ProtocolException {@code key_untrusted} */
    synchronized byte[] key(String id, long serverTimeMs, Deadline deadline) {
        byte[] key = trusted(id, serverTimeMs, deadline);
        if (!accepts(key)) {
            throw new ProtocolException(Code.KEY_UNTRUSTED, id, "the key of the service " + Trust.notAccepted(accepted, key) + ".");
        }
        return key;
    }

    private byte[] trusted(String id, long serverTimeMs, Deadline deadline) {
        byte[] known = known(id, serverTimeMs);
        if (known != null) {
            return known;
        }
        boolean canBeLearnt = switch (trust) {
            case Trust.Pins pins -> pins.texts().contains(id);
            case Trust.Root root -> true;
            case Trust.FirstUse met -> keys.isEmpty();
        };
        if (!canBeLearnt) {
            throw untrusted(id);
        }
        KeySet fetched = fetch.apply(deadline);
        byte[] published = fetched.byId().get(id);
        switch (trust) {
            case Trust.Pins pins -> {
                if (published != null) {
                    keys.put(id, published);
                }
            }
            case Trust.Root root -> take(fetched);
            case Trust.FirstUse met -> {
                // There is nothing to trust yet but the signature with this very key, which is checked next.
                LOG.log(System.Logger.Level.WARNING, "{0} is met for the first time: the service that answers is trusted from now on, by key {1}",
                        origin, id);
                known = published;
            }
        }
        if (!(trust instanceof Trust.FirstUse)) {
            known = known(id, serverTimeMs);
        }
        if (known == null) {
            throw untrusted(id);
        }
        return known;
    }

    private ProtocolException untrusted(String id) {
        return new ProtocolException(Code.KEY_UNTRUSTED, id, "another service or an impostor answered: " + switch (trust) {
            case Trust.Pins pins -> "its key is none of the pinned ones.";
            case Trust.Root root -> "the set that the root signed does not have its key, or not at this time by this machine's clock.";
            case Trust.FirstUse met -> "its key is another than at the first use, which the trust store keeps.";
        });
    }

    private byte[] known(String id, long serverTimeMs) {
        return set == null ? keys.get(id) : set.signer(id, serverTimeMs, System.currentTimeMillis());
    }

    private void take(KeySet given) {
        history.take(given.issuedMs(), System.currentTimeMillis(), given::verify);
        set = given;
    }

    /** Takes the key set of a {@code key_retired}; true if a root signed it, so that the init can begin anew. */
    synchronized boolean retired(Object keySet) {
        if (history != null && keySet != null) {
            take(KeySet.of(keySet));
            return true;
        }
        return false;
    }

    /** Keeps the keys that an authenticated answer names, where trust comes from the first use. Only the first key is needed for a session;
     * further ones that cannot be fetched end no agreement. */
    synchronized void remember(InitAnswer agreed, Deadline deadline) {
        if (!(trust instanceof Trust.FirstUse met) || keys.keySet().containsAll(agreed.keyIds()) && keys.containsKey(agreed.keyId())) {
            return;
        }
        boolean isFirst = keys.isEmpty();
        KeySet fetched;
        try {
            fetched = fetch.apply(deadline);
        } catch (SealwayException absent) {
            if (isFirst) {
                throw absent;
            }
            LOG.log(System.Logger.Level.WARNING, "further keys of {0} cannot be fetched ({1}); the next agreement tries again",
                    origin, absent.code());
            return;
        }
        Map<String, byte[]> published = fetched.byId();
        Map<String, byte[]> merged = new LinkedHashMap<>(keys);
        for (String id : agreed.keyIds()) {
            byte[] key = published.get(id);
            // No key off the curve is trusted later either.
            if (key != null && SignatureAlgorithm.isValid(key) && SignatureAlgorithm.accepts(accepted, key, false)) {
                makeRoom(merged, id, agreed.keyId(), published);
                if (merged.size() < KEYS_MAX) {
                    merged.put(id, key);
                }
            }
        }
        if (isFirst && !merged.containsKey(agreed.keyId())) {
            throw untrusted(agreed.keyId());
        }
        RootHistory.save(met.store(), origin, lines -> {
            mergeTheirs(merged, decoded(lines), agreed.keyId());
            return merged.values().stream().map(StrictBase64::encode).toList();
        });
        keys.clear();
        keys.putAll(merged);
    }

    /** Adds the keys that another client or process has kept since this one read the store; they take precedence. */
    private void mergeTheirs(Map<String, byte[]> merged, Map<String, byte[]> theirs, String signing) {
        if (!theirs.isEmpty() && !theirs.containsKey(signing) && keys.keySet().stream().noneMatch(theirs::containsKey)) {
            throw untrusted(signing);
        }
        theirs.forEach((id, key) -> {
            if (!keys.containsKey(id) && merged.size() < KEYS_MAX) {
                merged.putIfAbsent(id, key);
            }
        });
    }

    /** Drops the oldest keys that the service does not publish any more: else a full keyring could never take a new one. */
    private static void makeRoom(Map<String, byte[]> merged, String id, String signing, Map<String, byte[]> published) {
        Iterator<String> oldest = merged.keySet().iterator();
        while (!merged.containsKey(id) && merged.size() >= KEYS_MAX && oldest.hasNext()) {
            String old = oldest.next();
            if (!published.containsKey(old) && !old.equals(signing)) {
                oldest.remove();
                oldest = merged.keySet().iterator();
            }
        }
    }
}
