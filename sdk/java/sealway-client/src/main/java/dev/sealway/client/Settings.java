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

/** What a client was built with. */
record Settings(URI sessionUrl, URI serverUrl, Wire wire, String initPath, List<Suite> suites, String clientId, Long ttlSec,
        Trust trust, Supplier<String> authorization, UnaryOperator<InitRequest> prove, Duration timeout, Duration idleTimeout,
        long streamMax, SecureRandom random, InstantSource day) {
    /** How the service is named in a trust store: scheme, host and port. */
    String origin() {
        return origin(sessionUrl);
    }

    static String origin(URI url) {
        String scheme = url.getScheme().toLowerCase(Locale.ROOT);
        int port = url.getPort() >= 0 ? url.getPort() : scheme.equals("https") ? 443 : 80;
        return scheme + "://" + url.getHost().toLowerCase(Locale.ROOT) + ":" + port;
    }

    byte[] draw(int length) {
        byte[] out = new byte[length];
        random.nextBytes(out);
        return out;
    }
}
