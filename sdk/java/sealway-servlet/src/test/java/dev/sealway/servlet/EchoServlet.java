package dev.sealway.servlet;

import jakarta.servlet.http.Cookie;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;

/** Echoes, and does what the path says. */
final class EchoServlet extends HttpServlet {
    private static final long serialVersionUID = 1;
    final AtomicInteger served = new AtomicInteger();
    final transient CountDownLatch first = new CountDownLatch(1);
    final transient Semaphore underWay = new Semaphore(0);
    final transient Semaphore ended = new Semaphore(0);
    final transient CountDownLatch flushed = new CountDownLatch(1);
    final AtomicInteger exported = new AtomicInteger();
    final transient AtomicInteger endsAfterErrors = new AtomicInteger();
    transient volatile String trailers;

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
        served.incrementAndGet();
        for (String name : new String[] {"X-Sealway-Client-Id", "X-Sealway-Auth", "X-Sealway-Subject", "X-Kid", "X-Mine", "X-Forwarded-For",
                "X-Forwarded-Anything", "X_Forwarded_For", "Forwarded", "X-Real-IP", "Client-Cert", "Client-Cert-Chain", "X-Client-Cert", "Via"}) {
            response.setHeader("Seen-" + name, String.valueOf(request.getHeader(name)));
        }
        String path = request.getRequestURI();
        if (path.endsWith("/fails")) {
            throw new IllegalStateException("secret of the servlet");
        }
        if (path.contains("/status/")) {
            response.setStatus(Integer.parseInt(path.substring(path.lastIndexOf('/') + 1)));
        }
        if (path.endsWith("/part")) {
            response.getOutputStream().write(request.getInputStream().readNBytes(2));
            return;
        }
        if (path.endsWith("/insists")) {
            try {
                request.getInputStream().readAllBytes();
            } catch (IOException broken) {
                endsAfterErrors.addAndGet(request.getInputStream().read() < 0 ? 1 : 0);
            }
            return;
        }
        if (path.endsWith("/trailers")) {
            request.getInputStream().readAllBytes();
            trailers = request.getTrailerFields().toString();
            response.setTrailerFields(() -> Map.of("x-secret", "of the servlet"));
            response.setLocale(Locale.GERMAN);
            response.flushBuffer();
            return;
        }
        if (path.endsWith("/session")) {
            response.setHeader("Seen-Session", request.getRequestedSessionId() + " " + (request.getSession(false) != null));
            if (request.getParameter("make") != null) {
                request.getSession();
            }
            return;
        }
        if (path.endsWith("/ticks")) {
            underWay.release();
            try {
                while (true) {
                    response.getOutputStream().print("tick ");
                    response.flushBuffer();
                    Thread.sleep(5);
                }
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                throw new IOException(interrupted);
            } finally {
                ended.release();
            }
        }
        if (path.contains("/export/")) {
            export(response, path.substring(path.lastIndexOf('/') + 1));
            return;
        }
        if (path.endsWith("/begins")) {
            // Large enough that the first frame of the answer stays in the container's buffer.
            response.setBufferSize(200_000);
            response.addCookie(new Cookie("of", "servlet"));
            response.getOutputStream().write(new byte[40_000]);
            request.getInputStream().readAllBytes();
            return;
        }
        if (path.endsWith("/deaf")) {
            underWay.release();
            try {
                Thread.sleep(Long.MAX_VALUE);
            } catch (InterruptedException ignored) {
                // As a library may, that then reads on.
            }
            try {
                request.getInputStream().readAllBytes();
            } finally {
                ended.release();
            }
            return;
        }
        if (path.endsWith("/first")) {
            underWay.release();
            try {
                byte[] begin = request.getInputStream().readNBytes(2);
                first.countDown();
                response.getOutputStream().write(begin);
                response.getOutputStream().write(request.getInputStream().readAllBytes());
            } finally {
                ended.release();
            }
            return;
        }
        if (path.endsWith("/cookies")) {
            Cookie[] cookies = request.getCookies();
            response.getOutputStream().print(cookies == null ? "none"
                    : Arrays.stream(cookies).map(cookie -> cookie.getName() + "=" + cookie.getValue()).collect(Collectors.joining(",")));
            return;
        }
        if (path.endsWith("/writer")) {
            response.setContentType("text/plain; charset=utf-8");
            response.getWriter().print("Zoë");
            return;
        }
        if (path.endsWith("/flush")) {
            response.getOutputStream().print("first");
            response.flushBuffer();
            try {
                flushed.await();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
            response.getOutputStream().print("second");
            return;
        }
        response.setContentType("text/plain");
        byte[] body = request.getInputStream().readAllBytes();
        response.getOutputStream().write(body);
    }

    /** Writes far more than an answer that is sealed as a whole may have. */
    private void export(HttpServletResponse response, String how) throws IOException {
        try {
            for (int at = 0; at < 1000; at++) {
                if (how.equals("writer")) {
                    response.getWriter().write("x".repeat(100_000));
                } else {
                    response.getOutputStream().write(new byte[100_000]);
                }
                exported.incrementAndGet();
            }
        } catch (RuntimeException failed) {
            if (how.equals("wrapped")) {
                throw new IllegalStateException("as frameworks wrap what a handler throws", failed);
            }
            throw failed;
        }
    }
}
