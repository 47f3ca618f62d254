package dev.sealway.client;

import dev.sealway.wire.Header;
import dev.sealway.wire.Options;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** A request to be sealed. Headers and body go within the seal; on wires 1 and 2 it is a POST and its headers are not sent.
 *
 * @param method any but CONNECT, TRACE and OPTIONS
 * @param target path and query, beginning with a slash, escaped as it is to be sent
 * @param headers within the seal
 * @param body empty for none
 * @param timeout for the whole call, or null for the client's own
 */
public record SealedRequest(String method, String target, List<Header> headers, byte[] body, Duration timeout) {
    /** Checks what is missing.
     *
     * @throws IllegalArgumentException which names it */
    public SealedRequest {
        Options.present(method, "method", "give one, as POST");
        if (!Options.present(target, "target", "give a path that begins with a slash").startsWith("/")) {
            throw new IllegalArgumentException("target does not begin with a slash: give path and query alone, as /purchase?id=1");
        }
        Options.present(headers, "headers", "List.of() is none").forEach(header -> Options.present(header, "one of headers", "leave it out"));
        Options.present(body, "body", "new byte[0] is none");
        if (timeout != null) {
            Options.within(timeout, Duration.ZERO, Duration.ofDays(365), "timeout");
        }
        headers = List.copyOf(headers);
    }

    /** A GET. */
    public static SealedRequest get(String target) {
        return new SealedRequest("GET", target, List.of(), new byte[0], null);
    }

    /** A POST of JSON. */
    public static SealedRequest postJson(String target, String json) {
        return new SealedRequest("POST", target, List.of(new Header("content-type", "application/json")),
                Options.present(json, "json", "give the body").getBytes(StandardCharsets.UTF_8), null);
    }

    /** The same with one more header. */
    public SealedRequest withHeader(String name, String value) {
        List<Header> all = new ArrayList<>(headers);
        all.add(new Header(name, value));
        return new SealedRequest(method, target, all, body, timeout);
    }

    /** The same with a time limit of its own. */
    public SealedRequest withTimeout(Duration limit) {
        return new SealedRequest(method, target, headers, body, limit);
    }

    @Override
    public String toString() {
        return "SealedRequest[" + method + " " + target + "]";
    }
}
