package dev.sealway.servlet;

import dev.sealway.exchange.Answer;
import dev.sealway.exchange.Refusal;
import dev.sealway.exchange.Rejection;
import dev.sealway.mle.SealingKey;
import dev.sealway.server.MleGate;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.Options;
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
import java.util.List;
import java.util.function.Function;

/** Opens requests that are encrypted as card schemes do, and seals their answers, around the servlets behind. Servlets read from
 * {@code X-Sealway-Wire} that a request came as a token. As behind a {@link SealwayFilter}, a servlet cannot be asynchronous, and has no session of
 * the container.
 *
 * <p>Any holder of the public key can make a token: a filter in front, or the function of recipients, authenticates the sender. */
public final class MleFilter implements Filter {
    private static final System.Logger LOG = System.getLogger("dev.sealway.servlet");
    private final MleGate gate;
    private final Function<HttpServletRequest, List<SealingKey>> recipients;

    /** Creates a filter for a gate.
     *
     * @param recipients returns the keys of the caller of a request, to which the answer is sealed; none for a caller that may not use the route, which
     *     gets 403 before a private key is used */
    public MleFilter(MleGate gate, Function<HttpServletRequest, List<SealingKey>> recipients) {
        this.gate = Options.present(gate, "gate", "MleGate.builder makes one");
        this.recipients = Options.present(recipients, "recipients", "request -> List.of(key) seals every answer to one recipient");
    }

    @Override
    public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain) throws IOException, ServletException {
        HttpServletRequest outer = (HttpServletRequest) request;
        HttpServletResponse answer = (HttpServletResponse) response;
        HeaderList headers = SealwayFilter.headers(outer);
        try (MleGate.Call call = gate.begin(recipients.apply(outer), headers, outer.getRemoteAddr(), outer.getContentLengthLong())) {
            read(outer, call);
            MleGate.OpenRequest open = call.open(outer.getMethod());
            // The answer is sealed whole: nothing of it goes out before its end.
            SealwayFilter.write(answer, serve(new PlainRequest(outer, open.headers(), new ByteArrayInputStream(open.body())), answer, chain, call));
        } catch (Rejection refused) {
            SealwayFilter.refuse(outer, answer, gate.answer(refused));
        }
    }

    /** Reads the body, as a whole within its time. */
    private void read(HttpServletRequest request, MleGate.Call call) {
        byte[] part = new byte[16_384];
        Interruption late = Interruption.after(gate.bodyTimeout());
        try {
            InputStream body = request.getInputStream();
            for (int length = body.read(part); length >= 0; length = body.read(part)) {
                call.feed(part, length);
                if (late.hasHappened()) {
                    throw new Rejection(Refusal.BODY_TOO_SLOW);
                }
            }
        } catch (IOException broken) {
            throw new Rejection(late.hasHappened() ? Refusal.BODY_TOO_SLOW : Refusal.BODY_BROKEN);
        } finally {
            late.close();
        }
    }

    /** Runs the servlet. If it throws, its client gets a 500 that says nothing. */
    private Answer serve(PlainRequest request, HttpServletResponse outer, FilterChain chain, MleGate.Call call) {
        Whole body = new Whole(gate.answerMaxBytes());
        PlainResponse response = new PlainResponse(outer, body);
        try {
            chain.doFilter(request, response);
            response.finish();
        } catch (IOException | ServletException | RuntimeException failed) {
            if (!body.isTooLong) {
                // Its message may quote what was sealed.
                LOG.log(System.Logger.Level.ERROR, "a servlet failed on a request of a card scheme: {0}", failed.getClass().getName());
                response.fail();
            }
        }
        if (body.isTooLong) {
            throw new Rejection(Refusal.UNANSWERED);
        }
        return call.seal(response.getStatus(), response.collected(), body.bytes.toByteArray());
    }

    /** The body of an answer, up to a bound. */
    private static final class Whole implements PlainResponse.Sink {
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        private final int max;
        private boolean isTooLong;

        Whole(int max) {
            this.max = max;
        }

        @Override
        public void write(byte[] data, int from, int length, boolean isFlush) throws IOException {
            if (length > max - bytes.size()) {
                isTooLong = true;
                throw new IOException("the answer is longer than " + max + " bytes (option `answerMaxBytes`)");
            }
            bytes.write(data, from, length);
        }

        @Override
        public void reset() {
            bytes.reset();
        }
    }
}
