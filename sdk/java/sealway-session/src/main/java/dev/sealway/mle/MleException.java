package dev.sealway.mle;

import dev.sealway.wire.Blame;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Stage;
import java.util.Locale;

/** A rejected message of a card scheme. Its text is for the log: it holds no plaintext, no key and no token, and a text of the peer only cut to 64
 * characters and escaped. All reasons must be answered alike. */
public final class MleException extends SealwayException {
    private static final long serialVersionUID = 1;
    private static final int QUOTE_MAX = 64;
    private final Reason reason;

    /** Classes of refusals, in the order of {@code spec/mle.md#refusals}. */
    public enum Reason {
        /** A body, token or header over its bound. */
        SIZE,
        /** Not five parts, or an encrypted key that does not fit its algorithm. */
        SHAPE,
        /** A part that is not canonical base64url. */
        BASE64,
        /** A header that is not one JSON object without duplicates. */
        HEADER,
        /** An alg that is absent, unknown, outside of the profile, or not the key's. */
        ALG,
        /** An enc that is absent, unknown, or outside of the profile. */
        ENC,
        /** Content that was compressed before its encryption. */
        ZIP,
        /** The parameter crit, or one that needs it. */
        CRIT,
        /** A parameter that brings or names key material, contradicts the key, or belongs to another algorithm. */
        PARAM,
        /** A kid that is absent, malformed, or names no live key. */
        KID,
        /** An iat that is absent, malformed, in the other unit, or outside of the window. */
        IAT,
        /** A malformed ephemeral key. */
        EPK,
        /** An initialisation vector of a wrong length. */
        IV,
        /** An encrypted key that did not decrypt to a key of the right length. */
        UNWRAP,
        /** A tag of a wrong length, or one that does not verify. */
        TAG,
        /** A body that is not the JSON that is due. */
        JSON,
        /** A message that was received before. */
        REPLAYED;

        /** Returns the stable name, for logs and metrics. */
        public String text() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    MleException(Reason reason, String detail) {
        super("mle: " + reason.text() + ": " + detail, null);
        this.reason = reason;
    }

    private MleException(MleException cause, String host) {
        super(Stage.CALL, host, false, message("unsealable", null, host, cause.getMessage() + "."), cause);
        this.reason = cause.reason;
    }

    /** Returns this error of an answer, with the host and the remedy.
     *
     * @param host and port that answered */
    public MleException at(String host) {
        return new MleException(this, host);
    }

    /** Returns the class, for logs and metrics and never for the peer. */
    public Reason reason() {
        return reason;
    }

    /** Always {@code unsealable}: the message does not open. */
    @Override
    public String code() {
        return "unsealable";
    }

    @Override
    public Blame blame() {
        return Blame.PEER;
    }

    /** Makes a text of the peer fit for a log. */
    static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");
        text.codePoints().limit(QUOTE_MAX).forEach(c -> {
            if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
                out.appendCodePoint(c);
            } else {
                out.append("\\u{").append(Integer.toHexString(c)).append('}');
            }
        });
        return out.append(text.codePointCount(0, text.length()) > QUOTE_MAX ? "\"…" : "\"").toString();
    }
}
