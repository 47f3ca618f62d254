package dev.sealway.client;

import dev.sealway.wire.HeaderList;
import java.nio.charset.StandardCharsets;

/** An answer to a request that was encrypted as a card scheme does.
 *
 * @param status HTTP status, which nothing proves
 * @param headers in clear, which nothing proves
 * @param body in plain
 * @param isOpened true if the body came as a token; false for one that was empty, or an error in clear that the client allows */
public record MleAnswer(int status, HeaderList headers, byte[] body, boolean isOpened) {
    /** Returns the body, decoded as UTF-8. */
    public String text() {
        return new String(body, StandardCharsets.UTF_8);
    }

    @Override
    public String toString() {
        return "MleAnswer[" + status + ", " + body.length + " bytes]";
    }
}
