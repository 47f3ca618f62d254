package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Hashes;
import dev.sealway.exchange.AnswerSeal;
import dev.sealway.exchange.Reply;
import dev.sealway.session.SessionRecord;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;

/** Seals the answer to one request of wire 3. {@code spec/session-3.md#sealed-answers}. */
public record NativeReply(SessionRecord session, String method, String target, String requestNonce) implements Reply {
    /** The headers of an answer's seal, and the sealer of its frames. */
    public record Head(HeaderList headers, FrameSealer sealer) {
    }

    @Override
    public AnswerSeal answer(int status) {
        return new AnswerSeal.Frames(this, status);
    }

    /** Begins an answer with a given timestamp and nonce. The first frame begins with the encoded inner headers.
     *
     * @param contentType the outer one, or null */
    public Head begin(int status, String contentType, String stamp, String nonce) {
        HeaderList headers = HeaderList.of(HeaderNames.X_SEAL, "3", HeaderNames.X_KID, session.kid(),
                HeaderNames.X_IDEMPOTENCY_KEY, stamp + "." + nonce);
        FrameKeys keys = FrameKeys.ofAnswer(Protocol.SESSION, Hashes.kept(session.key(), "sealway/3 s2c"), requestNonce, status, method,
                target, contentType == null ? "" : contentType, stamp, nonce, session.id());
        return new Head(headers, new FrameSealer(keys));
    }
}
