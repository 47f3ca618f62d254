package dev.sealway.server;

import dev.sealway.wire.Header;
import java.util.List;

/** An answer as it goes out: a refusal in plain, or a sealed one.
 *
 * @param status its status
 * @param headers its headers, {@code Content-Type} included
 * @param body its body
 */
public record PlainAnswer(int status, List<Header> headers, byte[] body) {
    @Override
    public String toString() {
        return "PlainAnswer[" + status + "]";
    }
}
