package dev.sealway.servlet;

import dev.sealway.server.Held;
import dev.sealway.server.Life;
import dev.sealway.server.PlainAnswer;
import dev.sealway.server.RefusalException;
import dev.sealway.server.SealGate;
import dev.sealway.server.SealGate.Kind;
import dev.sealway.session.ServerCall;
import dev.sealway.session.three.ServerCall3;
import dev.sealway.wire.Code;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.Options;
import dev.sealway.wire.RefusedException;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Opens sealed requests and seals their answers around the servlets behind. Map it to everything, before other filters.
 *
 * <p>Servlets behind it see a plain request with {@code X-Sealway-Client-Id}, {@code -Auth}, {@code -Subject} and {@code -Tenant}.
 * A servlet that works asynchronously is not supported on a sealed path, nor are the container's own sessions: their cookie stands
 * outside the seal. The gate bounds how long a body may take to come, and the container's idle time each wait for a part of it. */
public final class SealwayFilter implements Filter {
    private static final System.Logger LOG = System.getLogger("dev.sealway.servlet");
    private static final int DRAIN_MAX = 1 << 20;
    private static final long DRAIN_NANOS = 2_000_000_000L;
    private final SealGate gate;

    /** By this gate. */
    public SealwayFilter(SealGate gate) {
        this.gate = Options.present(gate, "gate", "new SealGate makes one of a store and routes");
    }

    @Override
    public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain) throws IOException, ServletException {
        HttpServletRequest plain = (HttpServletRequest) request;
        HttpServletResponse answer = (HttpServletResponse) response;
        HeaderList headers = headers(plain);
        String path = plain.getRequestURI();
        Kind kind = gate.kind(plain.getMethod(), path, headers);
        try {
            switch (kind) {
                case PASS -> chain.doFilter(new PlainRequest(plain, gate.passed(headers), null), answer);
                case QUESTION -> write(answer, gate.question());
                case DISGUISED -> throw gate.disguised();
                case OLD -> old(plain, answer, headers, path, chain);
                case THREE -> three(plain, answer, headers, path, chain);
            }
        } catch (RefusalException refused) {
            if (answer.isCommitted()) {
                throw new IOException("the request broke off", refused);
            }
            answer.resetBuffer();
            drain(plain, answer);
            write(answer, refused.answer());
        }
    }

    /** Lets a client that still sends come to read its refusal; one that sends for too long loses its connection. */
    private static void drain(HttpServletRequest request, HttpServletResponse response) {
        byte[] buffer = new byte[16_384];
        long until = System.nanoTime() + DRAIN_NANOS;
        int left = DRAIN_MAX;
        try {
            InputStream body = request.getInputStream();
            while (left > 0 && System.nanoTime() < until) {
                int read = body.read(buffer);
                if (read < 0) {
                    return;
                }
                left -= read;
            }
        } catch (IOException | IllegalStateException broken) {
            LOG.log(System.Logger.Level.DEBUG, "a refused request broke off");
        }
        response.setHeader("Connection", "close");
    }

    private static HeaderList headers(HttpServletRequest request) {
        List<Header> out = new ArrayList<>();
        for (String name : Collections.list(request.getHeaderNames())) {
            for (String value : Collections.list(request.getHeaders(name))) {
                out.add(new Header(name, value));
            }
        }
        return new HeaderList(out);
    }

    static void write(HttpServletResponse response, PlainAnswer answer) throws IOException {
        response.setStatus(answer.status());
        for (Header header : answer.headers()) {
            if (header.name().equalsIgnoreCase("Content-Type")) {
                response.setContentType(header.value());
            } else {
                response.addHeader(header.name(), header.value());
            }
        }
        if (answer.body().length > 0 || answer.status() != 204 && answer.status() != 205 && answer.status() != 304) {
            response.setContentLength(answer.body().length);
        }
        response.getOutputStream().write(answer.body());
        response.flushBuffer();
    }

    private void old(HttpServletRequest request, HttpServletResponse response, HeaderList headers, String path, FilterChain chain)
            throws IOException, ServletException {
        SealGate.Old begun = gate.old(request.getMethod(), path, headers);
        ServerCall.Opened opened;
        try (Held held = gate.hold(Kind.OLD, request.getRemoteAddr())) {
            opened = begun.open(read(request, begun.bodyMax(), held));
        }
        PlainRequest plain = new PlainRequest(request, begun.headers(), new ByteArrayInputStream(opened.plaintext()));
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        PlainResponse answer = new PlainResponse(response, new Buffer(body, gate.bodyMax()));
        run(plain, answer, chain);
        write(response, gate.seal(opened.reply(), answer.getStatus(), answer.collected(), body.toByteArray()));
    }

    private byte[] read(HttpServletRequest request, int max, Held held) throws IOException {
        if (request.getContentLengthLong() > max) {
            throw gate.tooLarge(Kind.OLD);
        }
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        byte[] buffer = new byte[16_384];
        Interruption late = Interruption.after(gate.bodyTime());
        try {
            InputStream source = request.getInputStream();
            for (int read = source.read(buffer); read >= 0; read = source.read(buffer)) {
                body.write(buffer, 0, read);
                if (body.size() > max) {
                    throw gate.tooLarge(Kind.OLD);
                }
                held.grow(read);
                if (late.hasHappened()) {
                    throw gate.broken(Kind.OLD);
                }
            }
        } catch (IOException broken) {
            throw gate.broken(Kind.OLD);
        } finally {
            late.close();
        }
        return body.toByteArray();
    }

    /** Whatever a servlet throws, its peer gets a sealed 500 that says nothing. */
    private static void run(PlainRequest request, PlainResponse response, FilterChain chain) throws IOException, ServletException {
        try {
            chain.doFilter(request, response);
            response.finish();
        } catch (IOException | ServletException | RuntimeException failed) {
            if (request.fault() != null) {
                throw request.fault();
            }
            // Its message may quote what was sealed.
            LOG.log(System.Logger.Level.ERROR, "a servlet failed on a sealed request: {0}", failed.getClass().getName());
            if (response.isCommitted()) {
                throw failed;
            }
            response.fail();
        }
        if (request.fault() != null && !response.isCommitted()) {
            throw request.fault();
        }
    }

    private void three(HttpServletRequest request, HttpServletResponse response, HeaderList headers, String path, FilterChain chain)
            throws IOException, ServletException {
        String target = request.getQueryString() == null ? path : path + "?" + request.getQueryString();
        SealGate.Three begun = gate.three(request.getMethod(), target, headers);
        if (request.getContentLengthLong() > gate.bodyMax()) {
            throw gate.tooLarge(Kind.THREE);
        }
        try (Held held = gate.hold(Kind.THREE, request.getRemoteAddr())) {
            three(request, response, begun, new SealedInput(gate, begun, request, held), chain);
        }
    }

    private void three(HttpServletRequest request, HttpServletResponse response, SealGate.Three begun, SealedInput input, FilterChain chain)
            throws IOException, ServletException {
        ServerCall3.Begun opened;
        Interruption late = Interruption.after(gate.bodyTime());
        try {
            opened = input.begin();
        } finally {
            late.close();
        }
        Interruption cut = new Interruption();
        Life life = begun.watch(cut::happen);
        try {
            input.of(life);
            PlainRequest plain = new PlainRequest(request, begun.headers(opened), input);
            SealedOutput output = new SealedOutput(gate, opened.reply(), request.getMethod(), response, life);
            PlainResponse answer = new PlainResponse(response, output);
            output.of(answer);
            run(plain, answer, chain);
            output.finish();
        } catch (IOException | ServletException | RuntimeException failed) {
            if (life.isOver()) {
                throw gate.ended();
            }
            throw failed;
        } finally {
            life.close();
            cut.close();
        }
        if (life.isOver()) {
            throw gate.ended();
        }
    }

    /** The body of an answer of wires 1 and 2, kept up to one byte over its bound. */
    private record Buffer(ByteArrayOutputStream body, int max) implements PlainResponse.Sink {
        @Override
        public void write(byte[] data, int from, int length, boolean isFlush) {
            body.write(data, from, Math.min(length, max + 1 - body.size()));
        }

        @Override
        public void reset() {
            body.reset();
        }
    }

    /** The body of a request of wire 3, opened as it is read. */
    static final class SealedInput extends InputStream {
        private final SealGate gate;
        private final SealGate.Three begun;
        private final InputStream sealed;
        /** What came of frames that have not opened yet. */
        private final Held held;
        private final byte[] buffer = new byte[16_384];
        private Life life;
        private final List<byte[]> parts = new ArrayList<>();
        private ServerCall3.Begun opened;
        private long total;
        private int at;
        private boolean isEnded;
        private RefusalException fault;

        SealedInput(SealGate gate, SealGate.Three begun, HttpServletRequest request, Held held) throws IOException {
            this.held = held;
            this.gate = gate;
            this.begun = begun;
            this.sealed = request.getInputStream();
        }

        RefusalException fault() {
            return fault;
        }

        void of(Life given) {
            life = given;
        }

        ServerCall3.Begun begin() {
            byte[] inHeader = begun.inHeader();
            if (inHeader != null) {
                boolean isOpen = begun.feed(inHeader, 0, inHeader.length);
                if (!isOpen || pull() >= 0) {
                    throw gate.broken(Kind.THREE);
                }
            } else {
                boolean isOpen = false;
                while (!isOpen) {
                    int read = pull();
                    if (read < 0) {
                        throw gate.broken(Kind.THREE);
                    }
                    isOpen = begun.feed(buffer, 0, read);
                }
                if (begun.isDone()) {
                    expectEnd();
                }
            }
            opened = begun.admit();
            parts.addAll(opened.parts());
            if (isEnded || inHeader != null) {
                end();
                held.keep(0);
            } else {
                held.keep(buffer.length);
            }
            return opened;
        }

        private int pull() {
            int read;
            try {
                read = sealed.read(buffer);
                if (opened == null && Thread.currentThread().isInterrupted()) {
                    throw new IOException("the first frame took too long");
                }
            } catch (IOException broken) {
                throw gate.broken(Kind.THREE);
            }
            total += Math.max(0, read);
            if (total > gate.bodyMax()) {
                throw gate.tooLarge(Kind.THREE);
            }
            held.grow(Math.max(0, read));
            isEnded = read < 0;
            return read;
        }

        /** A byte behind the last frame makes the whole a forgery, so nobody sees that frame before the body has ended. */
        private void expectEnd() {
            while (!isEnded) {
                if (pull() > 0) {
                    throw gate.refusal(Kind.THREE, new RefusedException(Code.FRAME_INVALID));
                }
            }
        }

        private void end() {
            try {
                opened.rest().finish();
            } catch (dev.sealway.wire.SealwayException truncated) {
                throw gate.refusal(Kind.THREE, truncated);
            }
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int read(byte[] out, int from, int length) throws IOException {
            if (length == 0) {
                return 0;
            }
            try {
                while (parts.isEmpty() || parts.getFirst().length == at) {
                    if (!parts.isEmpty()) {
                        parts.removeFirst();
                        at = 0;
                    } else if (isEnded) {
                        return -1;
                    } else {
                        next();
                    }
                }
            } catch (RefusalException refused) {
                fault = refused;
                throw new IOException("the sealed body does not open", refused);
            }
            byte[] part = parts.getFirst();
            int count = Math.min(length, part.length - at);
            System.arraycopy(part, at, out, from, count);
            at += count;
            return count;
        }

        private void next() {
            int read = pull();
            if (life.isOver()) {
                throw gate.ended();
            }
            if (read < 0) {
                end();
                held.keep(0);
                return;
            }
            try {
                List<byte[]> frames = opened.rest().feed(buffer, 0, read);
                if (opened.rest().isDone()) {
                    expectEnd();
                }
                parts.addAll(frames);
                if (!frames.isEmpty()) {
                    held.keep(read);
                }
            } catch (dev.sealway.wire.SealwayException refused) {
                throw gate.refusal(Kind.THREE, refused);
            }
        }
    }
}
