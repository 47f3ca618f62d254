package dev.sealway.client;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/** Measures the steps of a call. */
final class Laps {
    private final long begin = System.nanoTime();
    private final Map<String, Duration> steps = new LinkedHashMap<>();
    private long last = begin;
    private Duration http = Duration.ZERO;

    /** What has passed since the last step was this one. */
    void named(String step) {
        long now = System.nanoTime();
        steps.merge(step, Duration.ofNanos(now - last), Duration::plus);
        last = now;
    }

    void http() {
        long now = System.nanoTime();
        http = Duration.ofNanos(now - last);
        last = now;
    }

    /** What has passed since the last step is nobody's. */
    void skip() {
        last = System.nanoTime();
    }

    CallMetrics metrics(String endpoint, String serverTiming) {
        return new CallMetrics(endpoint, Duration.ofNanos(System.nanoTime() - begin), http, java.util.Collections.unmodifiableMap(steps),
                CallMetrics.serverTiming(serverTiming));
    }
}
