package dev.sealway.redis;

import dev.sealway.redis.Link.ClaimResult;
import dev.sealway.server.SessionStore;
import dev.sealway.server.StoreException;
import dev.sealway.session.Claim;
import dev.sealway.session.Fresh;
import dev.sealway.session.SessionRecord;
import dev.sealway.wire.Code;
import dev.sealway.wire.Options;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.UsageException;
import io.lettuce.core.RedisURI;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.Instant;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;

/** Sessions and nonces in the Redis that a session authority keeps them in. {@code spec/redis-store.md}.
 *
 * <p>A session is used for less than a second without asking again; a claim is asked for once. If Redis does not answer in time, or has
 * lost its memory, a {@link StoreException} rejects the request with 503. A claim that is stamped
 * ahead of Redis's clock waits, for 2 seconds at most. */
public final class RedisStore implements SessionStore, AutoCloseable {
    private static final int KEPT_MAX = 10_000;
    private static final long KEPT_NANOS = 500_000_000L;
    private static final long AHEAD_MS = 500;
    private static final long AHEAD_MAX_MS = 2_500;
    private static final long CLOCKS_MS = 20;
    private static final int TOKEN_LEN = 8;
    private static final Pattern PREFIX = Pattern.compile("[A-Za-z0-9._:-]{1,64}");
    private final SecureRandom random = new SecureRandom();
    private final Map<String, CacheEntry> kept = new ConcurrentHashMap<>();
    private final KeyEncryptionKeys keks;
    private final String prefix;
    private final long windowMs;
    private final boolean isPostgresBehind;
    private final long acceptUntilMs;
    private final Links links;

    private record CacheEntry(SessionRecord session, long sinceNanos) {
    }

    private RedisStore(Builder builder) {
        this.keks = builder.keks;
        this.prefix = builder.prefix;
        this.windowMs = builder.window.toMillis();
        this.isPostgresBehind = builder.isPostgresBehind;
        this.acceptUntilMs = builder.acceptUntilMs;
        this.links = new Links(builder.uri, builder.prefix, builder.deadline);
    }

    /** Begins to build a store.
     *
     * @param uri a single server, 7.0 or newer
     * @param keks the authority's, which wrap session keys
     */
    public static Builder builder(RedisURI uri, KeyEncryptionKeys keks) {
        return new Builder(uri, keks);
    }

    @Override
    public SessionRecord find(String id) {
        CacheEntry known = kept.get(id);
        if (known != null && System.nanoTime() - known.sinceNanos() < KEPT_NANOS) {
            return known.session();
        }
        long askedNanos = System.nanoTime();
        byte[] value = links.get(ascii(prefix + ":s:" + id));
        kept.remove(id);
        // Never agreed, forgotten, or revoked.
        if (value == null || isRevoked(value)) {
            return null;
        }
        StoredSession stored = StoredSession.read(id, value, acceptUntilMs, keks::key);
        // The end of one session is the end of its whole chain of renewals.
        if (stored == null || stored.lineage() != null && isRevoked(links.get(ascii(prefix + ":s:" + stored.lineage())))) {
            return null;
        }
        SessionRecord session = stored.session();
        if (kept.size() >= KEPT_MAX) {
            kept.clear();
        }
        kept.put(id, new CacheEntry(session, askedNanos));
        return session;
    }

    private static boolean isRevoked(byte[] value) {
        return value != null && value.length == 1 && value[0] == 'x';
    }

    @Override
    public Fresh reserve(Claim claim) {
        Link.Epoch joined = links.joined();
        // The gateway that began this generation may not know the nonces that were lost with the one before.
        if (joined.isLater() && !isPostgresBehind && claim.stampMs() <= joined.madeMs() + windowMs) {
            throw away("its memory is younger than this request may be", null);
        }
        byte[] token = new byte[TOKEN_LEN];
        random.nextBytes(token);
        long keptMs = 2 * windowMs + 1;
        long goneMs = claim.stampMs() + windowMs + 1;
        ClaimResult answer = joined.claim(HexFormat.of().parseHex(claim.key()), token, keptMs, claim.stampMs(), goneMs);
        return switch (answer.state()) {
            case "FRESH" -> Fresh.granted(claim);
            case "AHEAD" -> ahead(joined, claim, answer.timeMs());
            case "REPLAYED", "FORGOTTEN" -> throw new ProtocolException(Code.REPLAYED);
            case "FLOOR" -> {
                if (answer.floorMs() < answer.timeMs()) {
                    throw new ProtocolException(Code.REPLAYED);
                }
                throw away("its floor lies ahead of its clock", null);
            }
            default -> {
                links.lost(joined);
                throw away("its memory is another one: " + answer.state(), null);
            }
        };
    }

    /** A loss of memory could forget a nonce that is stamped ahead of the clock: it is granted when the clock has come to it. */
    private Fresh ahead(Link.Epoch joined, Claim claim, long timeMs) {
        long aheadMs = claim.stampMs() - timeMs;
        if (aheadMs > AHEAD_MAX_MS) {
            throw away("the request is stamped too far ahead of its clock", null);
        }
        try {
            Thread.sleep(Math.max(0, aheadMs - AHEAD_MS) + CLOCKS_MS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw away("the call was cancelled", interrupted);
        }
        ClaimResult answer = joined.stillThere();
        if (!answer.state().equals("OK") || answer.timeMs() < claim.stampMs() - AHEAD_MS) {
            links.lost(joined);
            throw away("its memory was lost while a request waited", null);
        }
        return Fresh.granted(claim);
    }

    static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    static StoreException away(String what, Throwable cause) {
        return new StoreException(false, "Redis is of no use: " + what, cause);
    }

    @Override
    public void close() {
        links.close();
    }

    @Override
    public String toString() {
        return "RedisStore[" + prefix + "]";
    }

    /** Builds a store. */
    public static final class Builder {
        private final RedisURI uri;
        private final KeyEncryptionKeys keks;
        private String prefix = "sealway";
        private Duration window = Duration.ofMinutes(5);
        private Duration deadline = Duration.ofMillis(500);
        private boolean isPostgresBehind;
        private long acceptUntilMs;

        private Builder(RedisURI uri, KeyEncryptionKeys keks) {
            this.uri = Options.present(uri, "uri", "RedisURI.create makes one of redis:// or rediss://");
            this.keks = Options.present(keks, "keks", "KeyEncryptionKeys.inFile reads the authority's");
        }

        /** Sets the prefix of keys, {@code sessions.redis.prefix} of the authority; {@code sealway} by default. */
        public Builder prefix(String value) {
            if (!PREFIX.matcher(Options.present(value, "prefix", "leave it out for sealway")).matches()) {
                throw new UsageException("prefix is not 1 to 64 letters, digits, - _ . :");
            }
            prefix = value;
            return this;
        }

        /** Sets the window, which must be the gate's; nonces are kept for twice as long. 5 minutes by default, at most a day. */
        public Builder window(Duration value) {
            if (Options.present(value, "window", "leave it out for 5 minutes").isNegative() || value.compareTo(Duration.ofDays(1)) > 0) {
                throw new UsageException("window is " + value + ": give 0 to a day");
            }
            window = value;
            return this;
        }

        /** Sets the timeout of each request and of connecting; 500 ms by default. */
        public Builder deadline(Duration value) {
            deadline = Options.within(value, Duration.ZERO, Duration.ofDays(365), "deadline");
            return this;
        }

        /** Says that the authority keeps what Redis may lose in PostgreSQL ({@code postgres://… + redis://…}). By default, after a loss
         * of memory, requests are rejected until none of them can be older than the new memory. */
        public Builder postgresBehind(boolean value) {
            isPostgresBehind = value;
            return this;
        }

        /** Accepts sessions of earlier releases that end by this date, on wires 1 and 2 alone; none by default. A party that can write Redis can give
         * the client of such a session another name. Set it once for a migration: to the longest life of a session after the last start of a
         * gateway of the earlier release. */
        public Builder acceptUnauthenticatedRowsUntil(Instant value) {
            acceptUntilMs = Math.max(0, Options.present(value, "acceptUnauthenticatedRowsUntil", "leave it out for none").toEpochMilli());
            return this;
        }

        /** Builds the store. Nothing is sent yet. */
        public RedisStore build() {
            return new RedisStore(this);
        }
    }
}
