package dev.sealway.exchange;

/** A part of a body: the plaintext of a frame, or all of a sealed message where the protocol has no frames.
 *
 * @param isLast true if nothing stands behind it */
public record Piece(byte[] bytes, boolean isLast) {
    @Override
    public String toString() {
        return "Piece[" + bytes.length + " bytes, isLast=" + isLast + "]";
    }
}
