package dev.sealway.session;

import dev.sealway.exchange.AnswerSeal;
import dev.sealway.exchange.Form;
import dev.sealway.exchange.Refusal;
import dev.sealway.exchange.Rejection;
import dev.sealway.exchange.Reply;
import dev.sealway.wire.Forms;
import java.util.HexFormat;

/** Seals the answer to one call of wires 1 and 2. {@code spec/session.md#answer}. */
public record CompatReply(SessionRecord session, String path) implements Reply {
    @Override
    public AnswerSeal answer(int status) {
        if (status == 400 || status == 422) {
            return new AnswerSeal.Plain(new Rejection(Refusal.UNREADABLE).answer(Form.PLAIN));
        }
        // Without a body there is nothing to seal, and an unsealed answer proves nothing.
        if (status == 304 || status < 200) {
            return new AnswerSeal.Plain(new Rejection(Refusal.UNANSWERED).answer(Form.PLAIN));
        }
        return new AnswerSeal.Whole(this, status < 300 ? 200 : status);
    }

    /** Seals the answer.
     *
     * @param status that the answer is sent with
     * @param nonceRandom 16 random bytes
     * @param iv 12 random bytes */
    public SealedMessage seal(int status, byte[] plaintext, long nowMs, byte[] nonceRandom, byte[] iv) {
        return CompatSeal.seal(session.wire(), session.key(), Integer.toString(status), path, Long.toString(nowMs),
                Forms.ANSWER_PREFIX + HexFormat.of().formatHex(nonceRandom), session.kid(), session.clientId(), iv, plaintext);
    }
}
