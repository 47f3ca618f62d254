package dev.sealway.redis;

import io.lettuce.core.ConnectionFuture;
import io.lettuce.core.KeyValue;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.StatefulRedisConnection;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** One connection, which is closed when an answer is late. */
final class Link implements AutoCloseable {
    private static final byte[] EMPTY = {};
    private static final byte[] ZERO = {'0'};
    private final StatefulRedisConnection<byte[], byte[]> connection;
    private final String prefix;
    private final Duration deadline;
    private final byte[] epoch;
    private final byte[] canary;

    Link(ConnectionFuture<StatefulRedisConnection<byte[], byte[]>> connecting, String prefix, Duration deadline) {
        this.prefix = prefix;
        this.deadline = deadline;
        this.epoch = RedisStore.ascii("{" + prefix + ":0}:epoch");
        this.canary = RedisStore.ascii("{" + prefix + ":0}:canary");
        this.connection = await(connecting, () -> connecting.whenComplete((late, failed) -> {
            if (late != null) {
                late.closeAsync();
            }
        }));
    }

    boolean isOpen() {
        return connection.isOpen();
    }

    private <T> T await(Future<T> answer, Runnable giveUp) {
        try {
            return answer.get(deadline.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException late) {
            giveUp.run();
            throw RedisStore.away("it did not answer in time", late);
        } catch (ExecutionException failed) {
            if (failed.getCause() instanceof io.lettuce.core.RedisNoScriptException) {
                throw new NoScript(failed);
            }
            if (!(failed.getCause() instanceof io.lettuce.core.RedisCommandExecutionException)) {
                giveUp.run();
            }
            throw RedisStore.away("it did not answer", failed.getCause());
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw RedisStore.away("the call was cancelled", interrupted);
        }
    }

    /** Redis has not the script that it was given: it is not the memory that was joined. */
    private static final class NoScript extends RuntimeException {
        private static final long serialVersionUID = 1;

        NoScript(Throwable cause) {
            super(cause);
        }
    }

    byte[] get(byte[] key) {
        return await(connection.async().get(key), this::close);
    }

    /** The result of a claim. */
    record ClaimResult(String state, long timeMs, long floorMs) {
    }

    /** Looks which epoch is in force. */
    Epoch join() {
        long atNanos = System.nanoTime();
        Future<List<KeyValue<byte[], byte[]>>> fields = connection.async().hmget(epoch, RedisStore.ascii("gen"), RedisStore.ascii("made"),
                RedisStore.ascii("node"));
        Future<String> server = connection.async().info("server");
        Future<String> replication = connection.async().info("replication");
        Map<String, String> found = new HashMap<>();
        for (KeyValue<byte[], byte[]> field : await(fields, this::close)) {
            found.put(new String(field.getKey(), StandardCharsets.US_ASCII),
                    new String(field.getValueOrElse(EMPTY), StandardCharsets.ISO_8859_1));
        }
        Map<String, String> told = new HashMap<>();
        for (String line : (await(server, this::close) + "\n" + await(replication, this::close)).split("\r?\n")) {
            String[] parts = line.split(":", 2);
            if (parts.length == 2) {
                told.put(parts[0], parts[1].strip());
            }
        }
        String generation = found.get("gen");
        if (!generation.matches("[0-9a-f]{32}") || !found.get("made").matches("[0-9]{1,15}")) {
            throw RedisStore.away("no gateway has begun an epoch there", null);
        }
        // A cluster's nonces are in other buckets.
        if (!"standalone".equals(told.get("redis_mode"))) {
            throw RedisStore.away("it is a member of a cluster", null);
        }
        if (!"master".equals(told.get("role")) || !found.get("node").equals(told.get("master_replid"))) {
            throw RedisStore.away("it is not the server that the epoch was begun at", null);
        }
        return new Epoch(this, generation, Script.sha1(generation), Long.parseLong(found.get("made")), atNanos, false);
    }

    /** An epoch that was in force at a time.
     *
     * @param isLater whether this process was in another one before
     */
    record Epoch(Link link, String generation, String sha1, long madeMs, long atNanos, boolean isLater) {
        Epoch later(boolean value) {
            return new Epoch(link, generation, sha1, madeMs, atNanos, value);
        }

        boolean isOf(Link other) {
            return link == other;
        }

        ClaimResult claim(byte[] key, byte[] token, long keptMs, long stampMs, long goneMs) {
            byte[] head = RedisStore.ascii("{" + link.prefix + ":0}:n:");
            byte[] nonce = Arrays.copyOf(head, head.length + key.length);
            System.arraycopy(key, 0, nonce, head.length, key.length);
            return link.call(sha1, nonce, token, number(keptMs), number(stampMs), number(goneMs));
        }

        /** Returns the state of the epoch. */
        ClaimResult stillThere() {
            return link.call(sha1, link.epoch, EMPTY, ZERO, ZERO, ZERO);
        }

        private static byte[] number(long value) {
            return RedisStore.ascii(Long.toString(value));
        }
    }

    private ClaimResult call(String sha1, byte[] nonce, byte[]... arguments) {
        List<Object> answer;
        try {
            answer = await(connection.async().evalsha(sha1, ScriptOutputType.MULTI, new byte[][] {epoch, canary, nonce}, arguments),
                    this::close);
        } catch (NoScript lost) {
            return new ClaimResult("NOSCRIPT", 0, 0);
        }
        if (answer.size() == 3 && answer.get(0) instanceof byte[] state && answer.get(1) instanceof Long timeMs
                && answer.get(2) instanceof Long floorMs) {
            return new ClaimResult(new String(state, StandardCharsets.US_ASCII), timeMs, floorMs);
        }
        throw RedisStore.away("its script answered something else", null);
    }

    @Override
    public void close() {
        connection.closeAsync();
    }
}
