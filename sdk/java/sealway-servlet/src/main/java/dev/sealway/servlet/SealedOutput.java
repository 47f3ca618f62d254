package dev.sealway.servlet;

import dev.sealway.server.Life;
import dev.sealway.server.SealGate;
import dev.sealway.session.three.FrameSealer;
import dev.sealway.session.three.Reply3;
import dev.sealway.wire.Header;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.Arrays;

/** The body of an answer of wire 3: in one frame if it is short and nobody flushes, else sealed as it comes. */
final class SealedOutput implements PlainResponse.Sink {
    private static final int BUFFER = 32_768;
    private final SealGate gate;
    private final Reply3 reply;
    private final String method;
    private final HttpServletResponse outer;
    private final Life life;
    private byte[] buffer = new byte[512];
    private int length;
    private PlainResponse answer;
    private FrameSealer sealer;
    private boolean isDone;

    SealedOutput(SealGate gate, Reply3 reply, String method, HttpServletResponse outer, Life life) {
        this.gate = gate;
        this.reply = reply;
        this.method = method;
        this.outer = outer;
        this.life = life;
    }

    void of(PlainResponse given) {
        answer = given;
    }

    @Override
    public void write(byte[] data, int from, int count, boolean isFlush) throws IOException {
        if (SealGate.isBodiless(method, answer.getStatus())) {
            return;
        }
        int at = from;
        int end = from + count;
        while (at < end) {
            int part = Math.min(end - at, BUFFER - length);
            if (length + part > buffer.length) {
                buffer = Arrays.copyOf(buffer, Math.min(BUFFER, Math.max(2 * buffer.length, length + part)));
            }
            System.arraycopy(data, at, buffer, length, part);
            length += part;
            at += part;
            if (length == BUFFER) {
                frame(false);
            }
        }
        if (isFlush) {
            frame(false);
            outer.flushBuffer();
        }
    }

    private void frame(boolean isLast) throws IOException {
        checkLife();
        byte[] plain = buffer;
        int plainLen = length;
        if (sealer == null) {
            SealGate.Begun3 begun = gate.begin(reply, answer.getStatus(), answer.collected());
            sealer = begun.sealer();
            outer.setStatus(answer.getStatus());
            for (Header header : begun.headers()) {
                outer.addHeader(header.name(), header.value());
            }
            plain = Arrays.copyOf(begun.innerHeaders(), begun.innerHeaders().length + length);
            System.arraycopy(buffer, 0, plain, begun.innerHeaders().length, length);
            plainLen = plain.length;
        }
        if (plainLen > 0 || isLast) {
            outer.getOutputStream().write(sealer.seal(plain, 0, plainLen, isLast));
        }
        length = 0;
    }

    private void checkLife() throws IOException {
        if (life.isOver()) {
            throw new IOException("the session ended");
        }
    }

    void finish() throws IOException {
        if (isDone) {
            return;
        }
        isDone = true;
        checkLife();
        if (sealer == null) {
            SealwayFilter.write(outer, gate.seal(reply, answer.getStatus(), answer.collected(), Arrays.copyOf(buffer, length)));
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
