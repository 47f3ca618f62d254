package dev.sealway.session;

import dev.sealway.wire.HeaderList;

/** A sealed message as it goes out.
 *
 * @param headers those of the wire, without {@code Content-Type}
 * @param contentType of the body; null if there is none
 * @param body the sealed body
 */
public record SealedMessage(HeaderList headers, String contentType, byte[] body) {
    @Override
    public String toString() {
        return "SealedMessage[" + body.length + " bytes]";
    }
}
