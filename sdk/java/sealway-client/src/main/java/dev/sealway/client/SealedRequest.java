package dev.sealway.client;

import dev.sealway.wire.Header;
import dev.sealway.wire.Options;
import dev.sealway.wire.UsageException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** A request to be sealed. Headers and body go inside the seal. On wires 1 and 2 it is a POST, and its headers are not sent.
 *
 * @param method any but CONNECT, TRACE and OPTIONS
 * @param target path and query, beginning with a slash, with their escapes
 * @param headers inside the seal
 * @param body empty for none
 * @param totalTimeout of this call; zero for none, null for the client's own
 */
public record SealedRequest(String method, String target, List<Header> headers, byte[] body, Duration totalTimeout) {
    /** Creates a request.
     *
     * @throws UsageException for a part that is missing or malformed */
    public SealedRequest {
        Options.present(method, "method", "give one, as POST");
        if (!Options.present(target, "target", "give a path that begins with a slash").startsWith("/")) {
            throw new UsageException("target does not begin with a slash: give path and query alone, as /purchase?id=1");
        }
        Options.present(headers, "headers", "List.of() is none").forEach(header -> Options.present(header, "one of headers", "leave it out"));
        Options.present(body, "body", "new byte[0] is none");
        if (totalTimeout != null) {
            SealwayClient.totalTimeout(totalTimeout);
        }
        headers = List.copyOf(headers);
    }

    /** Creates a GET without headers. */
    public static SealedRequest get(String target) {
        return new SealedRequest("GET", target, List.of(), new byte[0], null);
    }

    /** Creates a POST of JSON. */
    public static SealedRequest postJson(String target, String json) {
        return new SealedRequest("POST", target, List.of(new Header("content-type", "application/json")),
                Options.present(json, "json", "give the body").getBytes(StandardCharsets.UTF_8), null);
    }

    /** Returns this request with one more header. */
    public SealedRequest withHeader(String name, String value) {
        List<Header> all = new ArrayList<>(headers);
        all.add(new Header(name, value));
        return new SealedRequest(method, target, all, body, totalTimeout);
    }

    /** Returns this request with a total timeout of its own; zero for none. */
    public SealedRequest withTotalTimeout(Duration limit) {
        return new SealedRequest(method, target, headers, body, limit);
    }

    @Override
    public String toString() {
        return "SealedRequest[" + method + " " + target + "]";
    }
}
