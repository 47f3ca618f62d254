package dev.sealway.exchange;

import dev.sealway.wire.HeaderList;

/** A request that was opened, and is no replay.
 *
 * @param headers inside the seal; null if the protocol seals none, and those outside count
 * @param first the beginning of its body; all of it, if the piece was the last
 * @param reply seals its answer */
public record PlainRequest(HeaderList headers, byte[] first, Reply reply) {
    @Override
    public String toString() {
        return "PlainRequest(redacted)";
    }
}
