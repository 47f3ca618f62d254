package dev.sealway.exchange;

import dev.sealway.session.CompatReply;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.nativeprotocol.InnerHeaders;
import dev.sealway.session.nativeprotocol.NativeReply;
import dev.sealway.session.nativeprotocol.Placement;
import dev.sealway.wire.Forms;
import dev.sealway.wire.Header;
import java.util.HexFormat;

/** Ways to seal an answer. */
public sealed interface AnswerSeal {
    /** Seals the whole body; the headers stay outside.
     *
     * @param status that the answer is sent with */
    record Whole(CompatReply reply, int status) implements AnswerSeal {
        /** Seals the answer.
         *
         * @param nonceRandom 16 random bytes
         * @param iv 12 random bytes */
        public SealedMessage seal(byte[] body, long nowMs, byte[] nonceRandom, byte[] iv) {
            return reply.seal(status, body, nowMs, nonceRandom, iv);
        }
    }

    /** Seals frame by frame, with the headers inside. */
    record Frames(NativeReply reply, int status) implements AnswerSeal {
        /** Returns true if the answer has no body: its stream is in a header then. */
        public boolean isBodyless() {
            return Placement.isBodilessAnswer(reply.method(), status);
        }

        /** Begins a streamed answer.
         *
         * @param nonceRandom 16 random bytes
         * @throws dev.sealway.wire.ProtocolException {@code inner_headers_invalid} for headers that a seal does not hold */
        public NativeReply.Head begin(Iterable<Header> inner, long nowMs, byte[] nonceRandom) {
            byte[] encoded = InnerHeaders.encode(inner);
            NativeReply.Head head = head(nowMs, nonceRandom);
            head.sealer().begin(encoded);
            return head;
        }

        /** Seals a whole answer.
         *
         * @throws dev.sealway.wire.ProtocolException as {@link #begin} */
        public SealedMessage seal(Iterable<Header> inner, byte[] body, long nowMs, byte[] nonceRandom) {
            byte[] encoded = InnerHeaders.encode(inner);
            NativeReply.Head head = head(nowMs, nonceRandom);
            return Placement.message(head.headers(), head.sealer().sealAll(encoded, isBodyless() ? new byte[0] : body), isBodyless());
        }

        private NativeReply.Head head(long nowMs, byte[] nonceRandom) {
            return reply.begin(status, isBodyless() ? null : Placement.OCTETS, Long.toString(nowMs),
                    Forms.ANSWER_PREFIX + HexFormat.of().formatHex(nonceRandom));
        }
    }

    /** Sends this answer in plain instead. */
    record Plain(Answer answer) implements AnswerSeal {
    }
}
