package dev.sealway.servlet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.server.RouteTable;
import dev.sealway.server.SessionStore;
import dev.sealway.session.Claim;
import dev.sealway.session.CompatSession;
import dev.sealway.session.Family;
import dev.sealway.session.Fresh;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.nativeprotocol.NativeSession;
import dev.sealway.wire.Wire;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Requests whose bodies come late: claims that were forgotten and sessions that ended meanwhile. */
@Timeout(120)
class LateTest {
    private final EchoServlet servlet = new EchoServlet();
    private final Semaphore found = new Semaphore(0);
    private Fixture fixture;

    @BeforeEach
    void start() throws Exception {
        fixture = new Fixture(servlet, this::telling, new RouteTable(), gate -> gate.bodyTimeout(Duration.ofSeconds(30)));
    }

    @AfterEach
    void stop() {
        fixture.close();
    }

    /** Says when a session was looked up. */
    private SessionStore telling(SessionStore store) {
        return new SessionStore() {
            @Override
            public SessionRecord find(String id) {
                try {
                    return store.find(id);
                } finally {
                    found.release();
                }
            }

            @Override
            public Fresh reserve(Claim claim) {
                return store.reserve(claim);
            }
        };
    }

    /** A request whose head has arrived and was checked, and whose body is held back. */
    private record Late(Socket socket, byte[] body) {
        String finish() throws IOException {
            try (socket) {
                socket.getOutputStream().write(body);
                StringBuilder answer = new StringBuilder();
                byte[] buffer = new byte[4096];
                InputStream in = socket.getInputStream();
                for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
                    answer.append(new String(buffer, 0, read));
                }
                return answer.toString();
            }
        }
    }

    private Late head(SealedMessage message) throws Exception {
        Socket socket = new Socket("127.0.0.1", fixture.port());
        socket.setSoTimeout(30_000);
        StringBuilder head = new StringBuilder("POST /sealed/echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: " + message.body().length
                + "\r\nContent-Type: " + message.contentType() + "\r\n");
        message.headers().forEach(header -> head.append(header.name()).append(": ").append(header.value()).append("\r\n"));
        socket.getOutputStream().write((head + "\r\n").getBytes());
        assertTrue(found.tryAcquire(30, TimeUnit.SECONDS));
        return new Late(socket, message.body());
    }

    private record SealedCall(String sessionId, SealedMessage message) {
    }

    private SealedCall seal(Wire wire) {
        if (wire == Wire.NATIVE) {
            NativeSession session = fixture.nativeSession(null);
            return new SealedCall(session.id(), session.seal("POST", "/sealed/echo", List.of(), "pay".getBytes(), fixture.nowMs(), fixture.draw(16)).message());
        }
        CompatSession session = fixture.compatSession(wire, Family.SESSION);
        return new SealedCall(session.id(), session.seal("/sealed/echo", "pay".getBytes(), fixture.nowMs(), fixture.draw(16), fixture.draw(12)).message());
    }

    @Test
    void aRequestHeldBackUntilItsClaimIsForgottenIsNotServedAgain() throws Exception {
        for (Wire wire : Wire.values()) {
            SealedMessage message = seal(wire).message();
            Late first = head(message);
            Late second = head(message);
            int served = servlet.served.get();
            assertTrue(first.finish().startsWith("HTTP/1.1 200"));
            // The store may forget the claim; the session lives on.
            fixture.aheadMs += 11 * 60_000;
            String told = second.finish();
            assertTrue(told.startsWith("HTTP/1.1 400") && told.contains(wire == Wire.NATIVE ? "clock_skew" : "CRYPTO_ERROR"), told);
            assertEquals(served + 1, servlet.served.get(), wire.toString());
            found.drainPermits();
        }
    }

    @Test
    void aRequestWhoseSessionEndsBeforeItsBodyArrivesIsNotServed() throws Exception {
        for (Wire wire : Wire.values()) {
            for (boolean isRevoked : new boolean[] {true, false}) {
                SealedCall sealed = seal(wire);
                Late late = head(sealed.message());
                if (isRevoked) {
                    fixture.store.delete(sealed.sessionId());
                } else {
                    fixture.expire(sealed.sessionId());
                }
                String told = late.finish();
                assertTrue(told.startsWith("HTTP/1.1 401") && told.toLowerCase(java.util.Locale.ROOT).contains("session_expired"), told);
                found.drainPermits();
            }
        }
        assertEquals(0, servlet.served.get());
    }

    /** Sends the first frame of a request, and waits until its servlet has begun.
     *
     * @param isAll whether no more comes; else the rest of the body stays out */
    private Socket underWay(NativeSession session, String path, boolean isAll) throws Exception {
        var begun = session.begin("POST", path, "application/octet-stream", Long.toString(fixture.nowMs()), "0123456789abcdef");
        byte[] frame = begun.sealer().seal(new byte[] {0, 0, 'a', 'b'}, 0, 4, isAll);
        Socket socket = new Socket("127.0.0.1", fixture.port());
        socket.setSoTimeout(30_000);
        StringBuilder head = new StringBuilder("POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: "
                + (frame.length + (isAll ? 0 : 100)) + "\r\nContent-Type: application/octet-stream\r\n");
        begun.headers().forEach(header -> head.append(header.name()).append(": ").append(header.value()).append("\r\n"));
        socket.getOutputStream().write((head + "\r\n").getBytes());
        socket.getOutputStream().write(frame);
        assertTrue(servlet.underWay.tryAcquire(30, TimeUnit.SECONDS));
        return socket;
    }

    @Test
    void aRequestInFlightIsCutWithinASecondOfTheEndOfItsSession() throws Exception {
        for (boolean isRevoked : new boolean[] {true, false}) {
            for (String path : new String[] {"/sealed/first", "/sealed/ticks"}) {
                NativeSession session = fixture.nativeSession(null);
                try (Socket socket = underWay(session, path, path.endsWith("ticks"))) {
                    // Longer than one look: a session that lives is left alone.
                    assertEquals(false, servlet.ended.tryAcquire(600, TimeUnit.MILLISECONDS));
                    long began = System.nanoTime();
                    if (isRevoked) {
                        fixture.store.delete(session.id());
                    } else {
                        fixture.expire(session.id());
                    }
                    assertTrue(servlet.ended.tryAcquire(30, TimeUnit.SECONDS));
                    // What a busy machine adds is not the rule's.
                    assertTrue(System.nanoTime() - began < 5_000_000_000L);
                    byte[] rest = drain(socket);
                    assertTrue(rest.length < 10_000_000);
                }
            }
        }
    }

    @Test
    void aReadAfterTheEndOfTheSessionFailsAtOnceEvenIfTheInterruptionWasSwallowed() throws Exception {
        fixture.close();
        // No idle time of the container's ends the read.
        fixture = new Fixture(servlet, store -> store, new RouteTable(), gate -> gate, 300_000);
        NativeSession session = fixture.nativeSession(null);
        try (Socket socket = underWay(session, "/sealed/deaf", false)) {
            fixture.store.delete(session.id());
            assertTrue(servlet.ended.tryAcquire(30, TimeUnit.SECONDS));
            String told = new String(drain(socket));
            assertTrue(told.startsWith("HTTP/1.1 401") && told.contains("session_expired"), told);
        }
    }

    private static byte[] drain(Socket socket) {
        try {
            return socket.getInputStream().readAllBytes();
        } catch (IOException reset) {
            return new byte[0];
        }
    }
}
