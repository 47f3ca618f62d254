package dev.sealway.client;

import dev.sealway.session.nativeprotocol.InitRequest;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Wire;
import java.net.URI;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.InstantSource;
import java.util.List;
import java.util.Locale;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/** The options of a client. */
record Settings(CallSettings calls, URI authorityUrl, Wire wire, String initPath, List<Suite> suites,
        List<String> signatureAlgorithms, String clientId, Long ttlSec, Trust trust, Supplier<String> authorization, UnaryOperator<InitRequest> proof) {
    URI url() {
        return calls.url();
    }

    Duration totalTimeout() {
        return calls.totalTimeout();
    }

    SecureRandom random() {
        return calls.random();
    }

    InstantSource day() {
        return calls.day();
    }

    /** Returns the name of the service in a trust store: scheme, host and port. */
    String origin() {
        return origin(authorityUrl);
    }

    String authorityHost() {
        return host(authorityUrl);
    }

    static String origin(URI url) {
        return url.getScheme().toLowerCase(Locale.ROOT) + "://" + host(url);
    }

    /** Returns host and port, also where the port is the scheme's own. */
    static String host(URI url) {
        int port = url.getPort() >= 0 ? url.getPort() : url.getScheme().equalsIgnoreCase("https") ? 443 : 80;
        return url.getHost().toLowerCase(Locale.ROOT) + ":" + port;
    }

    CallMetrics measured(CallMetrics metrics) {
        return calls.measured(metrics);
    }

    byte[] draw(int length) {
        return calls.draw(length);
    }
}
