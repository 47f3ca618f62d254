package dev.sealway.client;

import java.net.URI;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.InstantSource;
import java.util.function.Consumer;

/** The options of calls, with or without a session. */
record CallSettings(URI url, Duration totalTimeout, Duration idleTimeout, Consumer<CallMetrics> onMetrics, SecureRandom random, InstantSource day) {
    String host() {
        return Settings.host(url);
    }

    CallMetrics measured(CallMetrics metrics) {
        onMetrics.accept(metrics);
        return metrics;
    }

    byte[] draw(int length) {
        byte[] out = new byte[length];
        random.nextBytes(out);
        return out;
    }
}
