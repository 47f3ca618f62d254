package dev.sealway.session.nativeprotocol;

import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;

/** Headers that a client may not say of itself: {@code stripped_headers} of {@code spec/registry.toml}. */
public final class OuterHeaders {
    private static final Set<String> ORIGIN = Set.of("forwarded", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip",
            "cf-connecting-ip", "fastly-client-ip", "client-cert", "client-cert-chain", "x-arr-clientcert");
    private static final List<String> ORIGIN_PREFIXES = List.of("x-forwarded-", "x-client-cert", "x-ssl-client-", "ssl-client-",
            "x-amzn-mtls-");
    private static final Set<String> WAY = Set.of("via", "traceparent", "tracestate");
    private static final Set<String> FALLBACK = Set.of("host", "user-agent", "accept-language");

    private OuterHeaders() {
    }

    /** A name as services that make variables of headers read it: an underscore is a hyphen. */
    private static String alike(String name) {
        return name.toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /** Returns true for a header of the request's origin or of a client certificate, in any spelling. */
    public static boolean isOrigin(String name) {
        String alike = alike(name);
        return ORIGIN.contains(alike) || ORIGIN_PREFIXES.stream().anyMatch(alike::startsWith);
    }

    /** Returns true for a header that only the server may set, in any spelling. */
    public static boolean isClaimed(String name) {
        return alike(name).startsWith("x-sealway-");
    }

    /** Returns true if a header of the origin may come from outside a seal: in its own spelling alone, as a proxy in front removes no other,
     * where that proxy is trusted. */
    public static boolean isBelieved(String name, boolean isFrontTrusted) {
        return isFrontTrusted && isOrigin(name) && name.indexOf('_') < 0;
    }

    /** Returns the headers that a handler sees, in lower case: the inner ones, and those outside that count.
     * {@code spec/session-3.md#sealed-requests}. */
    public static List<Header> service(HeaderList outer, HeaderList inner, boolean isFrontTrusted) {
        List<Header> out = new ArrayList<>();
        Set<String> within = new HashSet<>();
        for (Header header : inner) {
            String name = alike(header.name());
            within.add(name);
            if (!isOrigin(name) && !isClaimed(name) && !WAY.contains(name)) {
                out.add(header);
            }
        }
        for (Header header : outer) {
            String name = header.name().toLowerCase(Locale.ROOT);
            if (WAY.contains(name) || isBelieved(name, isFrontTrusted) || FALLBACK.contains(name) && !within.contains(name)) {
                out.add(new Header(name, header.value()));
            }
        }
        return out;
    }
}
