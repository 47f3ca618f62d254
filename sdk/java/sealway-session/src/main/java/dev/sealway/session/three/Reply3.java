package dev.sealway.session.three;

import dev.sealway.crypto.Hashes;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.SessionRecord;
import dev.sealway.wire.Forms;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.RefusedException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/** Seals the answer to one request of wire 3. {@code spec/session-3.md#sealed-answers}. */
public final class Reply3 {
    private final SessionRecord session;
    private final String method;
    private final String target;
    private final String requestNonce;

    Reply3(SessionRecord session, String method, String target, String requestNonce) {
        this.session = session;
        this.method = method;
        this.target = target;
        this.requestNonce = requestNonce;
    }

    /** Whose request it was. */
    public SessionRecord session() {
        return session;
    }

    /** An answer that is sealed frame by frame. */
    public record Begun(HeaderList headers, FrameSealer sealer) {
    }

    /** Seals a whole answer.
     *
     * @param nonceRandom 16 random bytes
     * @throws RefusedException {@code inner_headers_invalid} for headers that a seal does not hold
     */
    public SealedMessage seal(int status, Iterable<Header> inner, byte[] body, long nowMs, byte[] nonceRandom) {
        boolean isBodiless = Placement.isBodilessAnswer(method, status);
        Begun begun = begin(status, isBodiless ? null : Placement.OCTETS, Long.toString(nowMs),
                Forms.ANSWER_PREFIX + HexFormat.of().formatHex(nonceRandom));
        byte[] stream = begun.sealer().sealAll(InnerHeaders.encode(inner), isBodiless ? new byte[0] : body);
        if (!isBodiless) {
            return new SealedMessage(begun.headers(), Placement.OCTETS, stream);
        }
        List<Header> headers = new ArrayList<>(begun.headers().list());
        headers.add(new Header(HeaderNames.X_SEALED, Placement.header(stream)));
        return new SealedMessage(new HeaderList(headers), null, new byte[0]);
    }

    /** Begins an answer with this very stamp and nonce; its first frame begins with the encoded inner headers.
     *
     * @param contentType the outer one, or null
     */
    public Begun begin(int status, String contentType, String stamp, String nonce) {
        HeaderList headers = HeaderList.of(HeaderNames.X_SEAL, "3", HeaderNames.X_KID, session.kid(),
                HeaderNames.X_IDEMPOTENCY_KEY, stamp + "." + nonce);
        FrameKeys keys = FrameKeys.ofAnswer(Hashes.kept(session.key(), "sealway/3 s2c"), requestNonce, status, method, target,
                contentType == null ? "" : contentType, stamp, nonce, session.id());
        return new Begun(headers, new FrameSealer(keys));
    }

    @Override
    public String toString() {
        return "Reply3[" + session + "]";
    }
}
