package dev.sealway.servlet;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.sealway.server.RouteTable;
import dev.sealway.session.CompatSession;
import dev.sealway.session.Family;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.nativeprotocol.NativeSession;
import dev.sealway.wire.Wire;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

/** Bodies that are held back before their last byte, of addresses of their own. */
@Timeout(120)
class RoomTest {
    private static final long LIMIT_NANOS = 60_000_000_000L;
    private final List<Socket> slow = new ArrayList<>();

    /** The head and a part of the body. */
    private static Socket send(Fixture fixture, String address, SealedMessage message, int length) throws IOException {
        Socket socket = new Socket("127.0.0.1", fixture.port(), InetAddress.getByName(address), 0);
        socket.setSoTimeout(30_000);
        StringBuilder head = new StringBuilder("POST /sealed/echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: " + message.body().length
                + "\r\nContent-Type: " + message.contentType() + "\r\n");
        message.headers().forEach(header -> head.append(header.name()).append(": ").append(header.value()).append("\r\n"));
        socket.getOutputStream().write((head + "\r\n").getBytes());
        socket.getOutputStream().write(message.body(), 0, length);
        return socket;
    }

    private static int status(Fixture fixture, String address, SealedMessage message) throws IOException {
        try (Socket socket = send(fixture, address, message, message.body().length)) {
            return Integer.parseInt(new String(socket.getInputStream().readNBytes(12)).substring(9));
        }
    }

    /** What is held back arrives, and is given back, some time later. A request that comes before it may take its place. */
    private void awaitStatus(int wanted, Fixture fixture, String address, IntFunction<SealedMessage> seal, int length) throws IOException {
        long until = System.nanoTime() + LIMIT_NANOS;
        int status = status(fixture, address, seal.apply(length));
        while (status != wanted && System.nanoTime() < until) {
            if (wanted == 503) {
                holdBack(fixture, address, seal, length, 1);
            }
            status = status(fixture, address, seal.apply(length));
        }
        assertEquals(wanted, status);
    }

    private static IntFunction<SealedMessage> seal(Fixture fixture, Wire wire) {
        if (wire == Wire.NATIVE) {
            NativeSession session = fixture.nativeSession(null);
            return length -> session.seal("POST", "/sealed/echo", List.of(), new byte[length], fixture.nowMs(), fixture.draw(16)).message();
        }
        CompatSession session = fixture.compatSession(wire, Family.SESSION);
        return length -> session.seal("/sealed/echo", new byte[length], fixture.nowMs(), fixture.draw(16), fixture.draw(12)).message();
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void slowBodiesUseNoMoreThanTheBudgetAndTheirShareOfIt() throws Exception {
        for (Wire wire : Wire.values()) {
            // The room is 1 MiB, a share 400,000 bytes: the longest body.
            try (Fixture fixture = new Fixture(new EchoServlet(), store -> store, new RouteTable(),
                    gate -> gate.bodyTimeout(Duration.ofMinutes(2)).bufferedMaxBytes(1 << 20), 120_000)) {
                IntFunction<SealedMessage> seal = seal(fixture, wire);
                int length = 60_000;
                int sealed = seal.apply(length).body().length;
                int ofShare = Fixture.BODY_MAX / sealed;
                for (int at = 0; at < 20; at++) {
                    // What is only announced takes nothing.
                    slow.add(send(fixture, "127.0.0.2", seal.apply(length), 0));
                }
                assertEquals(200, status(fixture, "127.0.0.2", seal.apply(length)));
                holdBack(fixture, "127.0.0.2", seal, length, ofShare);
                awaitStatus(503, fixture, "127.0.0.2", seal, length);
                assertEquals(200, status(fixture, "127.0.0.3", seal.apply(length)));
                holdBack(fixture, "127.0.0.3", seal, length, ofShare);
                holdBack(fixture, "127.0.0.4", seal, length, (1 << 20) / sealed - 2 * ofShare);
                awaitStatus(503, fixture, "127.0.0.5", seal, length);
                for (Socket each : slow) {
                    each.close();
                }
                awaitStatus(200, fixture, "127.0.0.5", seal, length);
                awaitStatus(200, fixture, "127.0.0.2", seal, length);
            }
        }
    }

    private void holdBack(Fixture fixture, String address, IntFunction<SealedMessage> seal, int length, int count) throws IOException {
        for (int at = 0; at < count; at++) {
            SealedMessage message = seal.apply(length);
            slow.add(send(fixture, address, message, message.body().length - 1));
        }
    }
}
