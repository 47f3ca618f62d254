package dev.sealway.redis;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SocketOptions;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.codec.ByteArrayCodec;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/** One connection at a time, made anew after it broke or did not answer in time. The driver reconnects none by itself: a claim is never
 * sent a second time, nor to a server that was not looked at. */
final class Links implements AutoCloseable {
    private static final long AGAIN_NANOS = 1_000_000_000L;
    private final RedisClient client;
    private final RedisURI uri;
    private final String prefix;
    private final Duration deadline;
    private final ReentrantLock lock = new ReentrantLock();
    private volatile Link link;
    private volatile Link.Epoch joined;
    private String firstGeneration;
    private boolean isClosed;

    Links(RedisURI uri, String prefix, Duration deadline) {
        this.uri = uri;
        this.prefix = prefix;
        this.deadline = deadline;
        this.client = RedisClient.create();
        client.setOptions(ClientOptions.builder().autoReconnect(false).disconnectedBehavior(ClientOptions.DisconnectedBehavior.REJECT_COMMANDS)
                .socketOptions(SocketOptions.builder().connectTimeout(deadline).build())
                .timeoutOptions(TimeoutOptions.enabled(deadline)).build());
    }

    private Link open() {
        Link there = link;
        if (there != null && there.isOpen()) {
            return there;
        }
        try {
            if (!lock.tryLock(deadline.toNanos(), TimeUnit.NANOSECONDS)) {
                throw RedisStore.away("it is not reached", null);
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw RedisStore.away("the call was cancelled", interrupted);
        }
        try {
            if (isClosed) {
                throw RedisStore.away("the store was closed", null);
            }
            if (link == null || !link.isOpen()) {
                joined = null;
                link = new Link(client.connectAsync(ByteArrayCodec.INSTANCE, uri), prefix, deadline);
            }
            return link;
        } finally {
            lock.unlock();
        }
    }

    byte[] get(byte[] key) {
        return open().get(key);
    }

    /** The epoch that claims are made in, looked at less than a second ago. */
    Link.Epoch joined() {
        Link there = open();
        Link.Epoch known = joined;
        if (known != null && known.isOf(there) && System.nanoTime() - known.atNanos() < AGAIN_NANOS) {
            return known;
        }
        Link.Epoch made = there.join();
        lock.lock();
        try {
            if (firstGeneration == null) {
                firstGeneration = made.generation();
            }
            Link.Epoch told = made.later(!made.generation().equals(firstGeneration));
            joined = told;
            return told;
        } finally {
            lock.unlock();
        }
    }

    /** Drops an epoch that is not in force any more. */
    void lost(Link.Epoch which) {
        if (joined == which) {
            joined = null;
        }
    }

    @Override
    public void close() {
        lock.lock();
        try {
            isClosed = true;
            if (link != null) {
                link.close();
            }
        } finally {
            lock.unlock();
        }
        client.shutdownAsync(0, deadline.toMillis(), TimeUnit.MILLISECONDS);
    }
}
