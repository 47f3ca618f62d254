package dev.sealway.servlet;

import dev.sealway.exchange.AnswerSeal;
import dev.sealway.exchange.Refusal;
import dev.sealway.exchange.Rejection;
import dev.sealway.server.RequestReader;
import dev.sealway.server.SealGate;
import dev.sealway.session.nativeprotocol.FrameSealer;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.Arrays;

/** The body of an answer. A streamed one is held back until it is long or flushed, any other until it ends. */
final class SealedOutput implements PlainResponse.Sink {
    private static final int BUFFER = 32_768;
    private final SealGate gate;
    private final RequestReader reader;
    private final HttpServletResponse outer;
    private byte[] buffer = new byte[512];
    private int length;
    private PlainResponse answer;
    private AnswerSeal.Frames frames;
    private FrameSealer sealer;

    SealedOutput(SealGate gate, RequestReader reader, HttpServletResponse outer) {
        this.gate = gate;
        this.reader = reader;
        this.outer = outer;
    }

    void of(PlainResponse given) {
        answer = given;
    }

    @Override
    public void write(byte[] data, int from, int count, boolean isFlush) throws IOException {
        if (sealer == null) {
            frames = reader.request().reply().answer(answer.getStatus()) instanceof AnswerSeal.Frames found ? found : null;
        }
        if (frames != null && frames.isBodyless()) {
            return;
        }
        // One byte over its bound is enough to tell.
        int max = frames != null ? BUFFER : (int) Math.min(Integer.MAX_VALUE - 8, gate.bodyMaxBytes() + 1L);
        int at = from;
        int end = from + count;
        while (at < end && length < max) {
            int part = Math.min(end - at, max - length);
            if (length + part > buffer.length) {
                buffer = Arrays.copyOf(buffer, Math.min(max, Math.max(2 * buffer.length, length + part)));
            }
            System.arraycopy(data, at, buffer, length, part);
            length += part;
            at += part;
            if (frames != null && length == max) {
                frame(false);
            }
        }
        if (at < end) {
            // A PrintWriter would swallow an IOException, and its servlet would go on.
            throw new Rejection(Refusal.UNANSWERED);
        }
        if (frames != null && isFlush) {
            frame(false);
            outer.flushBuffer();
        }
    }

    /** True if the answer is longer than one that is sealed as a whole may be: {@link #finish} refuses it. */
    boolean isTooLong() {
        return frames == null && length > gate.bodyMaxBytes();
    }

    private void frame(boolean isLast) throws IOException {
        checkLife();
        boolean isFirst = sealer == null;
        if (isFirst) {
            SealGate.SealedHead head = gate.begin(reader, frames, answer.collected());
            sealer = head.sealer();
            outer.setStatus(answer.getStatus());
            head.headers().forEach(header -> outer.addHeader(header.name(), header.value()));
        }
        if (isFirst || length > 0 || isLast) {
            outer.getOutputStream().write(sealer.seal(buffer, 0, length, isLast));
        }
        length = 0;
    }

    private void checkLife() throws IOException {
        if (reader.isOver()) {
            throw new IOException("the session ended");
        }
    }

    void finish() throws IOException {
        checkLife();
        if (sealer == null) {
            SealwayFilter.write(outer, gate.seal(reader, answer.getStatus(), answer.collected(), Arrays.copyOf(buffer, length)));
        } else {
            frame(true);
            outer.flushBuffer();
        }
    }

    @Override
    public boolean isBegun() {
        return sealer != null;
    }

    @Override
    public void reset() {
        length = 0;
    }
}
