package dev.sealway.servlet;

import dev.sealway.exchange.Answer;
import dev.sealway.exchange.Rejection;
import dev.sealway.server.RequestReader;
import dev.sealway.server.SealGate;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.Options;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Opens sealed requests and seals their answers around the servlets behind. Map it to everything, before other filters.
 *
 * <p>Servlets behind it see a plain request with {@code X-Sealway-Client-Id}, {@code -Auth}, {@code -Subject} and {@code -Tenant}.
 * A servlet that works asynchronously is not supported on a sealed path, nor are the container's own sessions: their cookie stands
 * outside the seal. The gate bounds how long a body may take to come, and the container's idle time each wait for a part of it. */
public final class SealwayFilter implements Filter {
    private static final System.Logger LOG = System.getLogger("dev.sealway.servlet");
    private static final int DRAIN_MAX = 1 << 20;
    private static final Duration DRAIN_TIME = Duration.ofSeconds(2);
    private final SealGate gate;

    /** Creates a filter for a gate. */
    public SealwayFilter(SealGate gate) {
        this.gate = Options.present(gate, "gate", "new SealGate makes one of a store and routes");
    }

    @Override
    public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain) throws IOException, ServletException {
        HttpServletRequest outer = (HttpServletRequest) request;
        HttpServletResponse answer = (HttpServletResponse) response;
        HeaderList headers = headers(outer);
        switch (gate.kind(outer.getMethod(), outer.getRequestURI(), headers)) {
            case PASS -> chain.doFilter(new PlainRequest(outer, gate.passed(headers), null), answer);
            case PREFLIGHT -> write(answer, gate.preflight());
            case DISGUISED -> refuse(outer, answer, gate.disguised());
            case SEALED -> {
                // Those of filters in front: what a servlet has set goes out within the seal, or not at all.
                Map<String, List<String>> outside = new LinkedHashMap<>();
                answer.getHeaderNames().forEach(name -> outside.put(name, List.copyOf(answer.getHeaders(name))));
                try {
                    serve(outer, answer, headers, chain);
                } catch (Rejection refused) {
                    if (answer.isCommitted()) {
                        throw new IOException("the request broke off", refused);
                    }
                    answer.reset();
                    outside.forEach((name, values) -> put(answer, name, values));
                    refuse(outer, answer, gate.answer(refused, headers));
                }
            }
        }
    }

    /** Sets a header, also one that the container's reset leaves in place. */
    private static void put(HttpServletResponse response, String name, List<String> values) {
        for (int at = 0; at < values.size(); at++) {
            if (at == 0) {
                response.setHeader(name, values.get(at));
            } else {
                response.addHeader(name, values.get(at));
            }
        }
    }

    static void refuse(HttpServletRequest request, HttpServletResponse response, Answer answer) throws IOException {
        drain(request, response);
        write(response, answer);
    }

    /** Lets a client that still sends come to read its refusal; one that sends for too long loses its connection. */
    private static void drain(HttpServletRequest request, HttpServletResponse response) {
        byte[] buffer = new byte[16_384];
        Interruption late = Interruption.after(DRAIN_TIME);
        try {
            InputStream body = request.getInputStream();
            for (int left = DRAIN_MAX; left > 0 && !late.hasHappened();) {
                int read = body.read(buffer);
                if (read < 0) {
                    return;
                }
                left -= read;
            }
        } catch (IOException | IllegalStateException broken) {
            LOG.log(System.Logger.Level.DEBUG, "a refused request broke off");
        } finally {
            late.close();
        }
        response.setHeader("Connection", "close");
    }

    static HeaderList headers(HttpServletRequest request) {
        List<Header> out = new ArrayList<>();
        for (String name : Collections.list(request.getHeaderNames())) {
            for (String value : Collections.list(request.getHeaders(name))) {
                out.add(new Header(name, value));
            }
        }
        return new HeaderList(out);
    }

    static void write(HttpServletResponse response, Answer answer) throws IOException {
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

    private void serve(HttpServletRequest request, HttpServletResponse response, HeaderList headers, FilterChain chain)
            throws IOException, ServletException {
        String query = request.getQueryString();
        String target = query == null ? request.getRequestURI() : request.getRequestURI() + "?" + query;
        try (RequestReader reader = gate.begin(request.getMethod(), target, headers, request.getRemoteAddr(), request.getContentLengthLong())) {
            SealedInput input = new SealedInput(reader, request.getInputStream());
            input.open(gate.bodyTimeout());
            Interruption cut = new Interruption();
            reader.watch(cut::happen);
            try {
                SealedOutput output = new SealedOutput(gate, reader, response);
                PlainResponse answer = new PlainResponse(response, output);
                output.of(answer);
                run(new PlainRequest(request, reader.headers(), input), answer, chain, reader, output);
                output.finish();
            } catch (IOException | ServletException | RuntimeException failed) {
                if (reader.isOver()) {
                    throw reader.ended();
                }
                throw failed;
            } finally {
                cut.close();
            }
        }
    }

    /** Runs the servlet. If it throws, its client gets a sealed 500 that says nothing. */
    private static void run(PlainRequest request, PlainResponse response, FilterChain chain, RequestReader reader, SealedOutput output)
            throws IOException, ServletException {
        try {
            chain.doFilter(request, response);
            response.finish();
        } catch (IOException | ServletException | RuntimeException failed) {
            if (reader.fault() != null) {
                throw reader.fault();
            }
            if (output.isTooLong()) {
                return;
            }
            if (failed instanceof Rejection) {
                throw failed;
            }
            // Its message may quote what was sealed.
            LOG.log(System.Logger.Level.ERROR, "a servlet failed on a sealed request: {0}", failed.getClass().getName());
            if (response.isCommitted()) {
                throw failed;
            }
            response.fail();
        }
    }
}
