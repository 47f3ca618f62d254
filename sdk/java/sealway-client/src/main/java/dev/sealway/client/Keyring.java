package dev.sealway.client;

import dev.sealway.client.Transport.Deadline;
import dev.sealway.session.three.Identity;
import dev.sealway.session.three.InitAnswer;
import dev.sealway.session.three.KeySet;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.RefusedException;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.StrictBase64;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** The identity keys that a client takes for one service's own. */
final class Keyring {
    private static final System.Logger LOG = System.getLogger("dev.sealway.client");
    private static final int KEYS_MAX = 16;
    private final Trust trust;
    private final String origin;
    private final Function<Deadline, KeySet> fetch;
    private final Map<String, byte[]> keys = new LinkedHashMap<>();
    private Long issuedMs;
    private long expiresMs;

    /** @param fetch asks the service for its key set */
    Keyring(Trust trust, String origin, Function<Deadline, KeySet> fetch) {
        this.trust = trust;
        this.origin = origin;
        this.fetch = fetch;
        switch (trust) {
            case Trust.Pins pins -> pins.texts().stream().filter(text -> !Forms.isKeyId(text)).forEach(this::add);
            case Trust.Root root -> root.store().load(name(root)).stream().findFirst().ifPresent(line -> issuedMs = number(line));
            case Trust.FirstUse met -> met.store().load(origin).forEach(this::add);
        }
    }

    private void add(String base64) {
        byte[] key = StrictBase64.decode(base64);
        if (key == null) {
            throw new IllegalStateException("what was kept of " + origin + " is damaged");
        }
        keys.put(Identity.keyId(key), key);
    }

    private long number(String line) {
        try {
            return Long.parseLong(line);
        } catch (NumberFormatException damaged) {
            throw new IllegalStateException("what was kept of " + origin + " is damaged", damaged);
        }
    }

    private String name(Trust.Root root) {
        return origin + "#root:" + Identity.keyId(root.key());
    }

    /** What is sent as {@code pinned_key_ids}. */
    synchronized List<String> pinned() {
        return switch (trust) {
            case Trust.Pins pins -> pins.texts().stream()
                    .map(text -> Forms.isKeyId(text) ? text : Identity.keyId(StrictBase64.decode(text))).distinct().toList();
            case Trust.Root root -> List.of();
            case Trust.FirstUse met -> List.copyOf(keys.keySet());
        };
    }

    /** A trusted key; null if it is not. Asks the service for its key set where that is needed. */
    synchronized byte[] key(String id, Deadline deadline) {
        boolean isStale = trust instanceof Trust.Root && System.currentTimeMillis() >= expiresMs;
        if (!isStale && keys.containsKey(id)) {
            return keys.get(id);
        }
        boolean canBeLearnt = switch (trust) {
            case Trust.Pins pins -> pins.texts().contains(id);
            case Trust.Root root -> true;
            case Trust.FirstUse met -> keys.isEmpty();
        };
        if (!canBeLearnt) {
            return null;
        }
        KeySet set = fetch.apply(deadline);
        switch (trust) {
            case Trust.Pins pins -> {
                return set.byId().get(id) instanceof byte[] key ? keep(id, key) : null;
            }
            case Trust.Root root -> take(root, set);
            case Trust.FirstUse met -> {
                // There is nothing to trust yet but the signature with this very key, which is checked next.
                LOG.log(System.Logger.Level.WARNING, "{0} is met for the first time: whoever answers is trusted from now on, by key {1}",
                        origin, id);
                return set.byId().get(id);
            }
        }
        return keys.get(id);
    }

    /** One that is trusted already; null if it is not. */
    synchronized byte[] known(String id) {
        return keys.get(id);
    }

    private byte[] keep(String id, byte[] key) {
        keys.put(id, key);
        return key;
    }

    private void take(Trust.Root root, KeySet set) {
        set.verify(root.key(), System.currentTimeMillis(), issuedMs);
        keys.clear();
        keys.putAll(set.byId());
        expiresMs = set.expiresMs();
        if (issuedMs == null || set.issuedMs() > issuedMs) {
            issuedMs = set.issuedMs();
            save(root.store(), name(root), List.of(Long.toString(issuedMs)));
        }
    }

    /** What a {@code key_retired} is good for: whether a root's word on new keys was taken, and the init can begin anew. */
    synchronized boolean retired(Object keySet) {
        if (trust instanceof Trust.Root root && keySet != null) {
            take(root, KeySet.of(keySet));
            return true;
        }
        return false;
    }

    /** Keeps what an authenticated answer says of the service's keys, where trust comes from the first use. Only the first key is needed
     * for a session; that others are not to be had ends no agreement. */
    synchronized void remember(InitAnswer agreed, Deadline deadline) {
        if (!(trust instanceof Trust.FirstUse met) || keys.keySet().containsAll(agreed.keyIds()) && keys.containsKey(agreed.keyId())) {
            return;
        }
        boolean isFirst = keys.isEmpty();
        KeySet set;
        try {
            set = fetch.apply(deadline);
        } catch (SealwayException absent) {
            if (isFirst) {
                throw absent;
            }
            LOG.log(System.Logger.Level.WARNING, "{0} has keys that are not to be had ({1}); they are asked for again at the next agreement",
                    origin, absent.code());
            return;
        }
        Map<String, byte[]> published = set.byId();
        for (String id : agreed.keyIds()) {
            byte[] key = published.get(id);
            if (key != null) {
                makeRoom(id, agreed.keyId(), published);
                if (keys.size() < KEYS_MAX) {
                    keys.put(id, key);
                }
            }
        }
        if (isFirst && !keys.containsKey(agreed.keyId())) {
            keys.clear();
            throw new RefusedException(Code.KEY_UNTRUSTED, agreed.keyId());
        }
        List<String> lines = new ArrayList<>();
        keys.values().forEach(key -> lines.add(StrictBase64.encode(key)));
        save(met.store(), origin, lines);
    }

    /** Lets the oldest keys go that the service has no more: else a keyring that is full could never meet a new one. */
    private void makeRoom(String id, String signing, Map<String, byte[]> published) {
        Iterator<String> oldest = keys.keySet().iterator();
        while (!keys.containsKey(id) && keys.size() >= KEYS_MAX && oldest.hasNext()) {
            String old = oldest.next();
            if (!published.containsKey(old) && !old.equals(signing)) {
                oldest.remove();
                oldest = keys.keySet().iterator();
            }
        }
    }

    /** What cannot be kept is told of, and ends no call: what is trusted in this process is right either way. */
    private void save(TrustStore store, String name, List<String> lines) {
        try {
            store.save(name, lines);
        } catch (RuntimeException unwritable) {
            LOG.log(System.Logger.Level.ERROR, "what is known of " + name + " could not be kept: the next start will not know of it",
                    unwritable);
        }
    }
}
