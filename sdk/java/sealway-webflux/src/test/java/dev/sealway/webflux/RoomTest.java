package dev.sealway.webflux;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.sealway.crypto.Curve;
import dev.sealway.server.MemoryStore;
import dev.sealway.server.RouteTable;
import dev.sealway.server.SealGate;
import dev.sealway.session.CompatInit;
import dev.sealway.session.CompatSession;
import dev.sealway.session.Family;
import dev.sealway.session.Fresh;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.ServerInit;
import dev.sealway.session.Unreplayed;
import dev.sealway.session.nativeprotocol.Acceptance;
import dev.sealway.session.nativeprotocol.Agreement;
import dev.sealway.session.nativeprotocol.ClientShare;
import dev.sealway.session.nativeprotocol.Identity;
import dev.sealway.session.nativeprotocol.InitRequest;
import dev.sealway.session.nativeprotocol.NativeSession;
import dev.sealway.session.nativeprotocol.ServerShare;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Wire;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.security.KeyPair;
import java.security.SecureRandom;
import java.security.interfaces.ECPublicKey;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.http.server.reactive.ReactorHttpHandlerAdapter;
import org.springframework.web.server.adapter.WebHttpHandlerBuilder;
import reactor.netty.DisposableServer;
import reactor.netty.http.server.HttpServer;

/** Bodies that are held back before their last byte, of addresses of their own. */
@Timeout(120)
class RoomTest {
    private static final long LIMIT_NANOS = 60_000_000_000L;
    private static final int BODY_MAX = 400_000;
    private final SecureRandom random = new SecureRandom();
    private final MemoryStore store = new MemoryStore(1000, System::currentTimeMillis);
    private final List<Socket> slow = new ArrayList<>();

    /** The head and a part of the body. */
    private static Socket send(DisposableServer server, String address, SealedMessage message, int length) throws IOException {
        Socket socket = new Socket("127.0.0.1", server.port(), InetAddress.getByName(address), 0);
        socket.setSoTimeout(30_000);
        StringBuilder head = new StringBuilder("POST /sealed/echo HTTP/1.1\r\nHost: a\r\nContent-Length: " + message.body().length
                + "\r\nContent-Type: " + message.contentType() + "\r\n");
        message.headers().forEach(header -> head.append(header.name()).append(": ").append(header.value()).append("\r\n"));
        socket.getOutputStream().write((head + "\r\n").getBytes());
        socket.getOutputStream().write(message.body(), 0, length);
        return socket;
    }

    private static int status(DisposableServer server, String address, SealedMessage message) throws IOException {
        try (Socket socket = send(server, address, message, message.body().length)) {
            return Integer.parseInt(new String(socket.getInputStream().readNBytes(12)).substring(9));
        }
    }

    /** What is held back arrives, and is given back, some time later. A request that comes before it may take its place. */
    private void awaitStatus(int wanted, DisposableServer server, String address, IntFunction<SealedMessage> seal, int length) throws IOException {
        long until = System.nanoTime() + LIMIT_NANOS;
        int status = status(server, address, seal.apply(length));
        while (status != wanted && System.nanoTime() < until) {
            if (wanted == 503) {
                holdBack(server, address, seal, length, 1);
            }
            status = status(server, address, seal.apply(length));
        }
        assertEquals(wanted, status);
    }

    private IntFunction<SealedMessage> seal(Wire wire) {
        long nowMs = System.currentTimeMillis();
        if (wire == Wire.NATIVE) {
            KeyPair pair = Curve.P256.generate(random);
            Identity identity = new Identity(Curve.P256.encode((ECPublicKey) pair.getPublic()), 0, Long.MAX_VALUE,
                    message -> Curve.P256.sign(pair.getPrivate(), message, random));
            Agreement agreement = new Agreement(new Agreement.Offer(List.of("P256"), "client-1", null, List.of(), null),
                    ClientShare.generate(Suite.P256, random), (UnaryOperator<InitRequest>) null);
            Acceptance.Grant accepted = Acceptance.accept(agreement.request(), null, new Acceptance.Decision(draw(16), 3600, nowMs, "none", null, null),
                    List.of("P256"), List.of(identity), suite -> ServerShare.generate(suite, random), null);
            store.put(accepted.session());
            NativeSession session = agreement.finish(201, accepted.body(), id -> identity.publicKey());
            return length -> session.seal("POST", "/sealed/echo", List.of(), new byte[length], System.currentTimeMillis(), draw(16)).message();
        }
        CompatInit init = new CompatInit(wire, false, "client-1", null, Curve.P256.generate(random), draw(16), nowMs);
        Unreplayed<ServerInit> read = ServerInit.read(Family.SESSION, init.request().headers(), init.request().body(), nowMs, ReplayPolicy.DEFAULT);
        ServerInit.Grant accepted = read.release(Fresh.granted(read.claim())).accept(false, null, draw(16), Curve.P256.generate(random));
        store.put(accepted.session());
        CompatSession session = init.finish(accepted.answer().getBytes(), nowMs);
        return length -> session.seal("/sealed/echo", new byte[length], System.currentTimeMillis(), draw(16), draw(12)).message();
    }

    private byte[] draw(int length) {
        byte[] out = new byte[length];
        random.nextBytes(out);
        return out;
    }

    private DisposableServer serve() {
        SealGate gate = SealGate.builder(store, new RouteTable()).bodyMaxBytes(BODY_MAX).bodyTimeout(Duration.ofMinutes(2)).bufferedMaxBytes(1 << 20).build();
        var handler = WebHttpHandlerBuilder.webHandler(exchange -> exchange.getRequest().getBody().doOnNext(DataBufferUtils::release).then())
                .filter(new SealwayWebFilter(gate)).build();
        return HttpServer.create().host("127.0.0.1").port(0).handle(new ReactorHttpHandlerAdapter(handler)).bindNow();
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void slowBodiesUseNoMoreThanTheBudgetAndTheirShareOfIt() throws Exception {
        for (Wire wire : Wire.values()) {
            // The room is 1 MiB, a share 400,000 bytes: the longest body.
            DisposableServer server = serve();
            try {
                IntFunction<SealedMessage> seal = seal(wire);
                int length = 60_000;
                int sealed = seal.apply(length).body().length;
                int ofShare = BODY_MAX / sealed;
                for (int at = 0; at < 20; at++) {
                    // What is only announced takes nothing.
                    slow.add(send(server, "127.0.0.2", seal.apply(length), 0));
                }
                assertEquals(200, status(server, "127.0.0.2", seal.apply(length)));
                holdBack(server, "127.0.0.2", seal, length, ofShare);
                awaitStatus(503, server, "127.0.0.2", seal, length);
                assertEquals(200, status(server, "127.0.0.3", seal.apply(length)));
                holdBack(server, "127.0.0.3", seal, length, ofShare);
                holdBack(server, "127.0.0.4", seal, length, (1 << 20) / sealed - 2 * ofShare);
                awaitStatus(503, server, "127.0.0.5", seal, length);
                for (Socket each : slow) {
                    each.close();
                }
                awaitStatus(200, server, "127.0.0.5", seal, length);
                awaitStatus(200, server, "127.0.0.2", seal, length);
            } finally {
                server.disposeNow();
            }
        }
    }

    private void holdBack(DisposableServer server, String address, IntFunction<SealedMessage> seal, int length, int count) throws IOException {
        for (int at = 0; at < count; at++) {
            SealedMessage message = seal.apply(length);
            slow.add(send(server, address, message, message.body().length - 1));
        }
    }
}
