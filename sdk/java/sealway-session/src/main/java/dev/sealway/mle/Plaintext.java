package dev.sealway.mle;

/** The content of a token. It is a body and nothing else: no header, method or path is in it.
 *
 * @param bytes the content
 * @param kid name of the key that opened the token
 * @param enc content encryption algorithm of the token */
public record Plaintext(byte[] bytes, String kid, Enc enc) {
    /** Shows no content. */
    @Override
    public String toString() {
        return "Plaintext[" + bytes.length + " bytes, " + kid + ", " + enc.text() + "]";
    }
}
