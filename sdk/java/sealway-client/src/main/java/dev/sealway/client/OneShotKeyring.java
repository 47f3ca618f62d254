package dev.sealway.client;

import dev.sealway.client.Transport.Deadline;
import dev.sealway.crypto.Kem;
import dev.sealway.session.nativeprotocol.KeyConfig;
import dev.sealway.session.nativeprotocol.KeyDocument;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.UsageException;
import java.time.InstantSource;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/** The key of one service for requests without a session: pinned, or of the key document, which is fetched once and kept. */
final class OneShotKeyring {
    private final String host;
    private final Set<Kem> kems;
    private final InstantSource day;
    private final Function<Deadline, KeyDocument> fetch;
    /** The pinned key configuration; null if keys come from the document. */
    private final KeyConfig pinned;
    private final Predicate<KeyConfig> trusted;
    private final RootHistory history;
    private final ReentrantLock lock = new ReentrantLock();
    private volatile KeyDocument document;

    /** @param accepted names of the signature algorithms that the client accepts of a root; empty for no restriction
     * @param kems that the client allows
     * @param fetch asks the service for its key document */
    OneShotKeyring(OneShotTrust trust, List<String> accepted, Set<Kem> kems, CallSettings settings, Function<Deadline, KeyDocument> fetch) {
        Trust.check(trust, accepted);
        this.host = settings.host();
        this.kems = kems.stream().filter(Kem::isAvailable).collect(Collectors.toUnmodifiableSet());
        if (this.kems.isEmpty()) {
            throw new UsageException("kems has none that this platform has: those with ML-KEM need JDK 24 or Bouncy Castle, Kem.P256 needs neither");
        }
        this.day = settings.day();
        this.fetch = fetch;
        this.pinned = trust instanceof OneShotTrust.Configs configs ? first(configs) : null;
        this.trusted = trust instanceof OneShotTrust.Kids kids ? key -> kids.kids().contains(key.kid()) : key -> true;
        this.history = trust instanceof Trust.Root root ? new RootHistory(root, accepted, Settings.origin(settings.url()), "one-shot-root") : null;
    }

    private KeyConfig first(OneShotTrust.Configs configs) {
        return configs.keys().stream().filter(key -> key.kem() != null && kems.contains(key.kem())).findFirst()
                .orElseThrow(() -> new UsageException("pins has no key of a KEM that this client allows and this platform has: pin a key of "
                        + names(kems)));
    }

    private static String names(Set<Kem> kems) {
        return Arrays.stream(Kem.values()).filter(kems::contains).map(Kem::text).collect(Collectors.joining(", "));
    }

    /** Returns the key for a request. Fetches the document if the client has no key in use.
     *
     * @throws KeyRetiredException if the document has none either
     * @throws ProtocolException if the document is refused */
    KeyConfig key(Deadline deadline) {
        KeyConfig usable = usable();
        if (usable != null) {
            return usable;
        }
        deadline.lock(lock, host);
        try {
            usable = usable();
            if (usable != null) {
                return usable;
            }
            KeyDocument before = document;
            KeyDocument fetched = fetch.apply(deadline);
            if (!isNewer(before, fetched)) {
                take(fetched);
            }
            usable = usable();
            if (usable == null) {
                throw KeyRetiredException.of(host, fetched);
            }
            return usable;
        } finally {
            lock.unlock();
        }
    }

    private KeyConfig usable() {
        KeyDocument kept = document;
        long nowMs = day.millis();
        if (pinned != null || kept == null || history != null && kept.isOver(nowMs)) {
            return pinned;
        }
        return kept.choose(nowMs, kems, trusted);
    }

    /** Returns true if a document came while another one was fetched, and is the newer of the two. */
    private boolean isNewer(KeyDocument before, KeyDocument fetched) {
        KeyDocument now = document;
        return now != before && now != null && now.issuedMs() > fetched.issuedMs();
    }

    private synchronized void take(KeyDocument given) {
        if (history != null) {
            history.take(given.issuedMs(), day.millis(), given::verify);
        }
        document = given;
    }

    /** Takes the document of a {@code key_retired}, if a root signed it; true if it was taken.
     *
     * <p>Without a root nothing of the problem is used. The next call with pinned kids fetches the document, since this one no longer serves.
     *
     * @param error the rejection, to which the reason is added if the document is refused */
    boolean retired(Object given, ProblemException error) {
        if (history == null) {
            document = null;
            return false;
        }
        try {
            take(KeyDocument.of(given));
            return true;
        } catch (ProtocolException refused) {
            error.addSuppressed(refused);
            return false;
        }
    }
}
