package dev.sealway.examples;

import dev.sealway.client.SealwayClient;
import dev.sealway.wire.Json;
import dev.sealway.wire.SealwayException;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;

/** Many sealed calls, and how long they took. {@code benchmark N [--json]}. */
public final class Benchmark {
    private static final int CALLS_MAX = 10_000_000;
    private static final int PROGRESS_MS = 500;

    private Benchmark() {
    }

    /** Runs it. */
    public static void main(String[] args) {
        Environment.run(() -> run(List.of(args)));
    }

    private static boolean run(List<String> args) throws InterruptedException {
        List<String> plain = args.stream().filter(arg -> !arg.equals("--json")).toList();
        boolean isJson = plain.size() < args.size();
        if (plain.size() != 1) {
            throw new Environment.ArgumentException("usage: benchmark N [--json]");
        }
        int calls = Environment.number("N", plain.getFirst(), 1, CALLS_MAX);
        int concurrency = Environment.number("BENCHMARK_CONCURRENCY", Environment.get("BENCHMARK_CONCURRENCY", "1"), 1, 1000);
        int warmup = Math.clamp(calls / 10, 1, 1000);
        try (SealwayClient client = Environment.client()) {
            int failedWarm = calls(client, warmup, concurrency, new long[warmup], false);
            long[] nanos = new long[calls];
            long begin = System.nanoTime();
            int failed = calls(client, calls, concurrency, nanos, true);
            double seconds = (System.nanoTime() - begin) / 1e9;
            Arrays.sort(nanos);
            Map<String, Object> latency = new LinkedHashMap<>();
            latency.put("min", millis(nanos[0]));
            latency.put("mean", round(Arrays.stream(nanos).average().orElse(0) / 1e6));
            for (int percent : new int[] {50, 90, 95, 99}) {
                latency.put("p" + percent, millis(nanos[Math.max(0, (int) Math.ceil(calls * percent / 100.0) - 1)]));
            }
            latency.put("max", millis(nanos[calls - 1]));
            Map<String, Object> out = new LinkedHashMap<>();
            out.put("program", "benchmark");
            out.put("language", "java");
            out.put("wire", Environment.wire().number());
            out.put("n", calls);
            out.put("concurrency", concurrency);
            out.put("warmup", warmup);
            out.put("failed", failed);
            out.put("seconds", round(seconds));
            out.put("throughput_per_s", round((calls - failed) / seconds));
            out.put("latency_ms", latency);
            if (isJson) {
                System.out.println(Json.write(out));
            } else {
                out.forEach((name, value) -> System.out.println(name + ": " + Json.write(value)));
            }
            return failed == 0 && failedWarm == 0;
        }
    }

    private static int calls(SealwayClient client, int calls, int concurrency, long[] nanos, boolean isShown) throws InterruptedException {
        AtomicInteger next = new AtomicInteger();
        AtomicInteger failed = new AtomicInteger();
        AtomicInteger done = new AtomicInteger();
        CountDownLatch end = new CountDownLatch(concurrency);
        for (int worker = 0; worker < concurrency; worker++) {
            Thread.ofVirtual().start(() -> {
                for (int at = next.getAndIncrement(); at < calls; at = next.getAndIncrement()) {
                    long begin = System.nanoTime();
                    try {
                        if (!Environment.isPurchase(client.send(Environment.PURCHASE))) {
                            failed.incrementAndGet();
                        }
                    } catch (SealwayException refused) {
                        if (failed.getAndIncrement() == 0) {
                            System.err.println(refused.getMessage());
                        }
                    }
                    nanos[at] = System.nanoTime() - begin;
                    done.incrementAndGet();
                }
                end.countDown();
            });
        }
        while (!end.await(PROGRESS_MS, java.util.concurrent.TimeUnit.MILLISECONDS)) {
            if (isShown) {
                System.err.print("\r" + done.get() + " of " + calls + ", " + failed.get() + " failed ");
            }
        }
        if (isShown) {
            System.err.println("\r" + done.get() + " of " + calls + ", " + failed.get() + " failed ");
        }
        return failed.get();
    }

    private static double millis(long nanos) {
        return round(nanos / 1e6);
    }

    private static double round(double value) {
        return Math.round(value * 1000) / 1000.0;
    }
}
