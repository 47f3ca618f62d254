package dev.sealway.session.nativeprotocol;

import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.ProtocolException;

/** A request that was sent, and the opener of its one answer. {@code spec/session-3.md#sealed-answers}. */
public final class NativeCall {
    private static final int NONCE_MIN = 16;
    private static final String PROBLEM_PREFIX = "p-";
    private final RequestKeys keys;
    private final String method;
    private final String target;
    private final String stamp;
    private final String nonce;

    NativeCall(RequestKeys keys, String method, String target, String stamp, String nonce) {
        this.keys = keys;
        this.method = method;
        this.target = target;
        this.stamp = stamp;
        this.nonce = nonce;
    }

    /** The opener of an answer's stream.
     *
     * @param inHeader the stream, if it is in a header; else null
     * @param isProblem true if the server itself sealed the answer: a problem of wire 4 */
    public record Opening(FrameOpener opener, byte[] inHeader, boolean isProblem) {
    }

    /** A whole answer, opened.
     *
     * @param isProblem true if the server itself sealed the answer: a problem of wire 4 */
    public record PlainAnswer(HeaderList headers, byte[] body, boolean isProblem) {
    }

    /** Checks an answer's headers.
     *
     * @throws ProtocolException {@code unsealed} if the answer is not sealed; the code of the check that failed
     */
    public Opening opening(int status, HeaderList headers) {
        if (!headers.has(HeaderNames.X_SEAL)) {
            throw new ProtocolException(Code.UNSEALED);
        }
        Protocol protocol = keys.protocol();
        if (!headers.required(HeaderNames.X_SEAL).equals(protocol.number)) {
            throw new ProtocolException(Code.HEADER_INVALID, HeaderNames.X_SEAL);
        }
        String kid = headers.required(HeaderNames.X_KID);
        if (!kid.startsWith(protocol.kidPrefix)) {
            throw new ProtocolException(Code.KID_PREFIX);
        }
        if (!kid.substring(protocol.kidPrefix.length()).equals(keys.id())) {
            throw new ProtocolException(Code.ANSWER_MISMATCH);
        }
        Forms.StampAndNonce own = Forms.split(headers.required(HeaderNames.X_IDEMPOTENCY_KEY));
        boolean isProblem = protocol == Protocol.ONE_SHOT && own.nonce().startsWith(PROBLEM_PREFIX);
        if (isProblem) {
            Forms.checkRequestNonce(own.nonce(), NONCE_MIN);
        } else {
            Forms.checkAnswerNonce(own.nonce(), NONCE_MIN);
        }
        Forms.stampMs(own.stamp());
        String type = headers.optional("Content-Type");
        FrameKeys frames = FrameKeys.ofAnswer(protocol, keys.s2c(), nonce, status, method, target, type, own.stamp(), own.nonce(), keys.id());
        byte[] inHeader = Placement.inHeader(headers);
        // The body of a problem is one frame, wherever its stream is.
        return new Opening(new FrameOpener(frames, inHeader != null || isProblem), inHeader, isProblem);
    }

    /** Opens a whole answer.
     *
     * @throws ProtocolException the code of the check that failed; then nothing of the answer may be used
     */
    public PlainAnswer open(int status, HeaderList headers, byte[] body) {
        Opening opening = opening(status, headers);
        byte[] stream = Placement.whole(headers, body);
        byte[] plaintext = opening.opener().openAll(stream);
        return new PlainAnswer(opening.opener().headers(), plaintext, opening.isProblem());
    }

    /** Reads the body of a sealed problem.
     *
     * @throws ProtocolException {@code answer_mismatch} if it is none */
    public static Problem problem(int status, byte[] body) {
        Problem problem = Problem.parse(status, body);
        if (problem == null) {
            throw new ProtocolException(Code.ANSWER_MISMATCH);
        }
        return problem;
    }

    /** Returns true if a {@code clock_skew} of wire 3 carries a proof of its {@code server_time_ms}. */
    public boolean provesClock(Problem problem) {
        return Proofs.isClock(keys.s2c(), nonce, stamp, problem);
    }

    /** Returns true if the request is retried after this problem.
     *
     * @param isProven true if {@link #provesClock} holds for the problem; on wire 4 if it was sealed
     * @param elapsedMs as of {@link Resends#isSentAgain}
     */
    public boolean isSentAgain(Problem problem, boolean isProven, long elapsedMs) {
        return Resends.isSentAgain(keys.protocol(), problem, isProven, method, stamp, elapsedMs);
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
