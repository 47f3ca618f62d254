package dev.sealway.session.nativeprotocol;

import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.ProtocolException;

/** A request that was sent, and the opener of its one answer. {@code spec/session-3.md#sealed-answers}. */
public final class NativeCall {
    private static final int NONCE_MIN = 16;
    private final NativeSession session;
    private final String method;
    private final String target;
    private final String stamp;
    private final String nonce;

    NativeCall(NativeSession session, String method, String target, String stamp, String nonce) {
        this.session = session;
        this.method = method;
        this.target = target;
        this.stamp = stamp;
        this.nonce = nonce;
    }

    /** Returns the session of the call. */
    public NativeSession session() {
        return session;
    }

    /** The opener of an answer's stream.
     *
     * @param inHeader the stream, if it is in a header; else null */
    public record Opening(FrameOpener opener, byte[] inHeader) {
    }

    /** A whole answer, opened. */
    public record PlainAnswer(HeaderList headers, byte[] body) {
    }

    /** Checks an answer's headers.
     *
     * @throws ProtocolException {@code unsealed} if the answer is not sealed; the code of the check that failed
     */
    public Opening opening(int status, HeaderList headers) {
        if (!headers.has(HeaderNames.X_SEAL)) {
            throw new ProtocolException(Code.UNSEALED);
        }
        if (!headers.required(HeaderNames.X_SEAL).equals("3")) {
            throw new ProtocolException(Code.HEADER_INVALID, HeaderNames.X_SEAL);
        }
        if (!session.id().equals(Forms.idOfKid(headers.required(HeaderNames.X_KID)))) {
            throw new ProtocolException(Code.ANSWER_MISMATCH);
        }
        Forms.StampAndNonce own = Forms.split(headers.required(HeaderNames.X_IDEMPOTENCY_KEY));
        Forms.checkAnswerNonce(own.nonce(), NONCE_MIN);
        Forms.stampMs(own.stamp());
        String type = headers.optional("Content-Type");
        FrameKeys keys = FrameKeys.ofAnswer(session.keys().s2c, nonce, status, method, target, type,
                own.stamp(), own.nonce(), session.id());
        byte[] inHeader = Placement.inHeader(headers);
        return new Opening(new FrameOpener(keys, inHeader != null), inHeader);
    }

    /** Opens a whole answer.
     *
     * @throws ProtocolException the code of the check that failed; then nothing of the answer may be used
     */
    public PlainAnswer open(int status, HeaderList headers, byte[] body) {
        Opening opening = opening(status, headers);
        byte[] stream = Placement.whole(headers, body);
        byte[] plaintext = opening.opener().openAll(stream);
        return new PlainAnswer(opening.opener().headers(), plaintext);
    }

    /** Returns true if a {@code clock_skew} carries a proof of its {@code server_time_ms}. */
    public boolean provesClock(Problem problem) {
        return Proofs.isClock(session.keys().s2c, nonce, stamp, problem);
    }

    /** Returns true if the request is retried after this problem.
     *
     * @param isProven true if {@link #provesClock} holds for the problem
     * @param elapsedMs as of {@link Resends#isSentAgain}
     */
    public boolean isSentAgain(Problem problem, boolean isProven, long elapsedMs) {
        return Resends.isSentAgain(problem, isProven, method, stamp, elapsedMs);
    }

    /** Returns true if this problem proves that the request was not served.
     *
     * <p>The parameters are those of {@link #isSentAgain}. */
    public boolean isUnserved(Problem problem, boolean isProven, long elapsedMs) {
        return Resends.isUnserved(problem, isProven, stamp, elapsedMs);
    }

    @Override
    public String toString() {
        return "NativeCall[" + method + " " + target + "]";
    }
}
