package dev.sealway.exchange;

import dev.sealway.wire.Header;
import java.util.List;

/** A whole answer as it goes out: an error, or a sealed one.
 *
 * @param headers {@code Content-Type} included */
public record Answer(int status, List<Header> headers, byte[] body) {
    @Override
    public String toString() {
        return "Answer[" + status + "]";
    }
}
