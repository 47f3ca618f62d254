package dev.sealway.client;

import dev.sealway.wire.HeaderList;
import java.nio.charset.StandardCharsets;

/** An answer that opened: all of it comes from the service.
 *
 * @param status the service's; on wires 1 and 2 a success is 200
 * @param headers those within the seal; on wires 1 and 2 those outside, which nothing proves
 * @param body the body
 * @param metrics what the call cost
 */
public record SealedAnswer(int status, HeaderList headers, byte[] body, CallMetrics metrics) {
    /** The body as UTF-8. */
    public String text() {
        return new String(body, StandardCharsets.UTF_8);
    }

    @Override
    public String toString() {
        return "SealedAnswer[" + status + ", " + body.length + " bytes]";
    }
}
