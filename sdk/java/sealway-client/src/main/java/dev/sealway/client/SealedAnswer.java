package dev.sealway.client;

import dev.sealway.wire.HeaderList;
import java.nio.charset.StandardCharsets;

/** An answer that opened: all of it comes from the service.
 *
 * @param status HTTP status of the service; on wires 1 and 2 every success is 200
 * @param headers inside the seal; on wires 1 and 2 those outside, which nothing proves
 * @param body in plain
 * @param metrics measurements of the call
 */
public record SealedAnswer(int status, HeaderList headers, byte[] body, CallMetrics metrics) {
    /** Returns the body, decoded as UTF-8. */
    public String text() {
        return new String(body, StandardCharsets.UTF_8);
    }

    @Override
    public String toString() {
        return "SealedAnswer[" + status + ", " + body.length + " bytes]";
    }
}
