package dev.sealway.servlet;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.server.RouteTable.Mode;
import dev.sealway.server.RouteTable;
import dev.sealway.server.SessionStore;
import dev.sealway.server.StoreException;
import dev.sealway.session.Claim;
import dev.sealway.session.CompatSession;
import dev.sealway.session.Family;
import dev.sealway.session.Fresh;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.nativeprotocol.NativeCall;
import dev.sealway.session.nativeprotocol.NativeSession;
import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.Wire;
import java.io.InputStream;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The filter in Jetty, over real sockets: right calls, and those of a client that replays, forges and breaks off. */
@Timeout(30)
class SealwayFilterTest {
    private final EchoServlet servlet = new EchoServlet();
    private volatile boolean isStoreAway;
    private Fixture fixture;

    @BeforeEach
    void start() throws Exception {
        fixture = new Fixture(servlet, store -> new SessionStore() {
            @Override
            public SessionRecord find(String id) {
                if (isStoreAway) {
                    throw new StoreException(false, "away", null);
                }
                return store.find(id);
            }

            @Override
            public Fresh reserve(Claim claim) {
                return store.reserve(claim);
            }
        });
    }

    @AfterEach
    void stop() throws Exception {
        fixture.close();
    }

    private NativeSession.WholeRequest seal(NativeSession session, String method, String target, byte[] body) {
        return session.seal(method, target, List.of(new Header("content-type", "text/plain"), new Header("x-mine", "1")), body,
                System.currentTimeMillis(), fixture.draw(16));
    }

    private NativeCall.PlainAnswer open(NativeSession.WholeRequest sealed, Fixture.Reply reply) {
        return sealed.call().open(reply.status(), reply.headers(), reply.body());
    }

    private static void assertProblem(String code, Fixture.Reply reply) {
        Problem problem = Problem.parse(reply.status(), reply.body());
        assertEquals(code, problem == null ? reply.status() + reply.text() : problem.code());
        assertEquals("application/problem+json", reply.headers().first("content-type"));
    }

    @Test
    void wire3OpensAndSealsAroundAnOrdinaryServlet() throws Exception {
        NativeSession session = fixture.nativeSession("Zoë 100%");
        for (int length : new int[] {0, 5, 40_000, 300_000}) {
            byte[] body = fixture.draw(length);
            NativeSession.WholeRequest sealed = seal(session, "POST", "/sealed/echo?a=%20b", body);
            Fixture.Reply reply = fixture.send("POST", "/sealed/echo?a=%20b", sealed.message());
            NativeCall.PlainAnswer opened = open(sealed, reply);
            assertEquals(200, reply.status());
            assertArrayEquals(body, opened.body());
            assertEquals("text/plain", opened.headers().first("content-type"));
            assertEquals("client-1", opened.headers().first("seen-x-sealway-client-id"));
            assertEquals("bearer", opened.headers().first("seen-x-sealway-auth"));
            assertEquals("Zo%C3%AB 100%25", opened.headers().first("seen-x-sealway-subject"));
            assertEquals("null", opened.headers().first("seen-x-kid"));
            assertEquals("1", opened.headers().first("seen-x-mine"));
            assertNull(reply.headers().first("seen-x-mine"));
        }
        NativeSession.WholeRequest get = seal(session, "GET", "/sealed/writer", new byte[0]);
        assertEquals("Zoë", new String(open(get, fixture.send("GET", "/sealed/writer", get.message())).body()));
        NativeSession.WholeRequest none = seal(session, "DELETE", "/sealed/status/204", new byte[0]);
        Fixture.Reply empty = fixture.send("DELETE", "/sealed/status/204", none.message());
        assertTrue(empty.headers().has("X-Sealed"));
        assertEquals("null", String.valueOf(open(none, empty).headers().first("content-length")));
        NativeSession.WholeRequest teapot = seal(session, "POST", "/sealed/status/418", new byte[] {1});
        Fixture.Reply kept = fixture.send("POST", "/sealed/status/418", teapot.message());
        assertEquals(418, kept.status());
        assertArrayEquals(new byte[] {1}, open(teapot, kept).body());
    }

    @Test
    void aReplayIsRejectedAndNotServed() throws Exception {
        NativeSession.WholeRequest sealed = seal(fixture.nativeSession(null), "POST", "/sealed/echo", "once".getBytes());
        assertEquals(200, fixture.send("POST", "/sealed/echo", sealed.message()).status());
        assertProblem("replayed", fixture.send("POST", "/sealed/echo", sealed.message()));
        assertEquals(1, servlet.served.get());
    }

    @Test
    void aTamperedRequestIsUnsealableAndNotServed() throws Exception {
        NativeSession session = fixture.nativeSession(null);
        NativeSession.WholeRequest sealed = seal(session, "POST", "/sealed/echo", "body".getBytes());
        assertProblem("unsealable", fixture.send("POST", "/sealed/other", sealed.message()));
        assertProblem("unsealable", fixture.send("PUT", "/sealed/echo", sealed.message()));
        byte[] cut = java.util.Arrays.copyOf(sealed.message().body(), 30);
        assertProblem("unsealable", fixture.send("POST", "/sealed/echo", new SealedMessage(sealed.message().headers(),
                sealed.message().contentType(), cut)));
        byte[] flipped = sealed.message().body().clone();
        flipped[flipped.length - 1] ^= 1;
        assertProblem("unsealable", fixture.send("POST", "/sealed/echo", new SealedMessage(sealed.message().headers(),
                sealed.message().contentType(), flipped)));
        assertEquals(0, servlet.served.get());
        // None of that burnt the nonce of the request that was not tampered with.
        assertEquals(200, fixture.send("POST", "/sealed/echo", sealed.message()).status());
    }

    @Test
    void aLaterFrameThatDoesNotOpenAbortsTheRequest() throws Exception {
        NativeSession.WholeRequest sealed = seal(fixture.nativeSession(null), "POST", "/sealed/echo", fixture.draw(300_000));
        byte[] body = sealed.message().body();
        body[250_000] ^= 1;
        assertProblem("unsealable", fixture.send("POST", "/sealed/echo", sealed.message()));
        NativeSession.WholeRequest other = seal(fixture.nativeSession(null), "POST", "/sealed/echo", fixture.draw(300_000));
        byte[] cut = java.util.Arrays.copyOf(other.message().body(), 200_000);
        assertProblem("unsealable", fixture.send("POST", "/sealed/echo", new SealedMessage(other.message().headers(),
                other.message().contentType(), cut)));
    }

    @Test
    void aBrokenStreamHasNoEndForAReaderThatContinues() throws Exception {
        NativeSession.WholeRequest sealed = seal(fixture.nativeSession(null), "POST", "/sealed/insists", fixture.draw(300_000));
        byte[] cut = java.util.Arrays.copyOf(sealed.message().body(), 200_000);
        assertProblem("unsealable", fixture.send("POST", "/sealed/insists", new SealedMessage(sealed.message().headers(),
                sealed.message().contentType(), cut)));
        assertEquals(1, servlet.served.get());
        assertEquals(0, servlet.endsAfterErrors.get());
    }

    @Test
    void severalFramesInAHeaderAreRejected() throws Exception {
        NativeSession.StreamRequest begun = fixture.nativeSession(null).begin("GET", "/sealed/echo", null, Long.toString(System.currentTimeMillis()),
                "0123456789abcdef");
        byte[] first = begun.sealer().seal(new byte[] {0, 0, 'a'}, 0, 3, false);
        byte[] last = begun.sealer().seal(new byte[] {'b'}, 0, 1, true);
        for (byte[] stream : new byte[][] {first, dev.sealway.crypto.Bytes.join(first, last)}) {
            List<Header> headers = new java.util.ArrayList<>(begun.headers().list());
            headers.add(new Header("X-Sealed", dev.sealway.wire.StrictBase64.encode(stream)));
            Fixture.Reply reply = fixture.send("GET", "/sealed/echo", new SealedMessage(new HeaderList(headers), null, new byte[0]));
            assertEquals(400, reply.status());
            assertEquals(0, servlet.served.get());
        }
    }

    @Test
    void aSealedPathIsNotReachableInPlainByAnotherSpelling() throws Exception {
        fixture.close();
        fixture = new Fixture(servlet, store -> store, new RouteTable(Mode.OFF).prefix("/sealed/", Mode.REQUIRED)
                .prefix("/maybe/", Mode.OPTIONAL), gate -> gate);
        for (String target : new String[] {"/sealed;x/echo", "/%73ealed/echo", "/%2573ealed/echo", "//sealed/echo", "/./sealed/echo",
                "/maybe/../sealed/echo", "/maybe/%2e%2e/sealed/echo", "/SEALED/echo", "/sealed", "/sealed;/echo"}) {
            Fixture.Reply reply = fixture.send(fixture.request(target, HeaderList.of(), null)
                    .POST(HttpRequest.BodyPublishers.ofString("plain")).build());
            assertEquals(400, reply.status(), target);
        }
        assertEquals(0, servlet.served.get());
        for (String target : new String[] {"/files/a%20b;v=1", "/.well-known/x", "/sealedness"}) {
            assertEquals("plain", fixture.send(fixture.request(target, HeaderList.of(), null)
                    .POST(HttpRequest.BodyPublishers.ofString("plain")).build()).text(), target);
        }
    }

    @Test
    void onlyCookiesInsideTheSealAreSeen() throws Exception {
        NativeSession session = fixture.nativeSession(null);
        List<Header> outside = List.of(new Header("Cookie", "who=root"));
        for (String within : new String[] {null, "who=ann; b=2"}) {
            List<Header> inner = within == null ? List.of() : List.of(new Header("cookie", within));
            NativeSession.WholeRequest sealed = session.seal("POST", "/sealed/cookies", inner, new byte[1], System.currentTimeMillis(),
                    fixture.draw(16));
            List<Header> headers = new java.util.ArrayList<>(sealed.message().headers().list());
            headers.addAll(outside);
            Fixture.Reply reply = fixture.send("POST", "/sealed/cookies", new SealedMessage(new HeaderList(headers),
                    sealed.message().contentType(), sealed.message().body()));
            assertEquals(within == null ? "none" : "who=ann,b=2", new String(open(sealed, reply).body()));
        }
    }

    @Test
    void aByteAfterTheLastFrameIsRejectedBeforeThatFrameIsRead() throws Exception {
        NativeSession.WholeRequest sealed = seal(fixture.nativeSession(null), "POST", "/sealed/part", "body".getBytes());
        InputStream late = new InputStream() {
            private int left = 1;

            @Override
            public int read() throws java.io.IOException {
                try {
                    Thread.sleep(300);
                } catch (InterruptedException interrupted) {
                    throw new java.io.InterruptedIOException();
                }
                return left-- > 0 ? 0 : -1;
            }
        };
        HttpRequest.BodyPublisher body = HttpRequest.BodyPublishers.concat(
                HttpRequest.BodyPublishers.ofByteArray(sealed.message().body()), HttpRequest.BodyPublishers.ofInputStream(() -> late));
        assertProblem("unsealable", fixture.send(fixture.request("/sealed/part", sealed.message().headers(),
                sealed.message().contentType()).POST(body).build()));
        assertEquals(0, servlet.served.get());
        // Nor has it burnt the nonce of the request that was not tampered with.
        assertEquals(200, fixture.send("POST", "/sealed/part", sealed.message()).status());
    }

    @Test
    void boundsClocksAndSessionsAreRejectedAsTheSpecSays() throws Exception {
        NativeSession session = fixture.nativeSession(null);
        NativeSession.WholeRequest large = seal(session, "POST", "/sealed/echo", new byte[Fixture.BODY_MAX]);
        assertProblem("too_large", fixture.send("POST", "/sealed/echo", large.message()));
        NativeSession.WholeRequest early = session.seal("POST", "/sealed/echo", List.of(), new byte[1], 1_000_000, fixture.draw(16));
        Fixture.Reply skewed = fixture.send("POST", "/sealed/echo", early.message());
        assertProblem("clock_skew", skewed);
        assertTrue(early.call().provesClock(Problem.parse(400, skewed.body())));
        fixture.expire(session.id());
        NativeSession.WholeRequest late = seal(session, "POST", "/sealed/echo", new byte[1]);
        assertProblem("session_expired", fixture.send("POST", "/sealed/echo", late.message()));
        fixture.store.delete(session.id());
        assertProblem("session_expired", fixture.send("POST", "/sealed/echo", late.message()));
        isStoreAway = true;
        assertProblem("store_unavailable", fixture.send("POST", "/sealed/echo", late.message()));
        assertEquals(0, servlet.served.get());
    }

    @Test
    void anUnknownExceptionOfTheStoreIsStoreUnavailable() throws Exception {
        for (boolean isFound : new boolean[] {false, true}) {
            fixture.close();
            fixture = new Fixture(servlet, store -> new SessionStore() {
                @Override
                public SessionRecord find(String id) {
                    if (isFound) {
                        return store.find(id);
                    }
                    throw new IllegalStateException("secret of the store");
                }

                @Override
                public Fresh reserve(Claim claim) {
                    throw new UnsupportedOperationException("secret of the store");
                }
            });
            NativeSession.WholeRequest sealed = seal(fixture.nativeSession(null), "POST", "/sealed/echo", new byte[1]);
            assertProblem("store_unavailable", fixture.send("POST", "/sealed/echo", sealed.message()));
            Fixture.Reply reply = callCompat(fixture.compatSession(Wire.TWO, Family.SESSION), "/sealed/echo", "x", false);
            assertEquals("503{\"error\":\"SERVICE_UNAVAILABLE\"}", reply.status() + reply.text());
        }
        assertEquals(0, servlet.served.get());
    }

    @Test
    void anAnswerBeyondTheBoundOfWholeAnswersEndsItsServletAndIs502() throws Exception {
        for (Wire wire : new Wire[] {Wire.ONE, Wire.TWO}) {
            for (String how : new String[] {"stream", "writer", "wrapped"}) {
                servlet.exported.set(0);
                Fixture.Reply reply = callCompat(fixture.compatSession(wire, Family.SESSION), "/sealed/export/" + how, "x", false);
                assertEquals("502{\"error\":\"SERVICE_UNAVAILABLE\"}", reply.status() + reply.text(), wire + " " + how);
                assertTrue(servlet.exported.get() <= Fixture.BODY_MAX / 100_000 + 1, wire + " " + how + " " + servlet.exported);
            }
        }
    }

    @Test
    void aRejectionHasNoHeaderOfAnAnswerThatHadBegun() throws Exception {
        NativeSession.WholeRequest sealed = seal(fixture.nativeSession(null), "POST", "/sealed/begins", fixture.draw(300_000));
        sealed.message().body()[250_000] ^= 1;
        Fixture.Reply reply = fixture.send("POST", "/sealed/begins", sealed.message());
        assertProblem("unsealable", reply);
        for (String name : new String[] {"X-Seal", "X-Kid", "X-Idempotency-Key", "Set-Cookie"}) {
            assertFalse(reply.headers().has(name), name);
        }
        assertEquals(List.of("a", "b"), reply.headers().list().stream().filter(header -> header.name().equalsIgnoreCase("X-Front"))
                .map(Header::value).toList());
        assertEquals(1, reply.headers().list().stream().filter(header -> header.name().equalsIgnoreCase("Cache-Control")).count());
    }

    @Test
    void aFailingServletIsASealed500WithoutDetails() throws Exception {
        NativeSession.WholeRequest sealed = seal(fixture.nativeSession(null), "POST", "/sealed/fails", new byte[1]);
        Fixture.Reply reply = fixture.send("POST", "/sealed/fails", sealed.message());
        assertEquals(500, reply.status());
        assertEquals(0, open(sealed, reply).body().length);
        CompatSession compat = fixture.compatSession(Wire.TWO, Family.SESSION);
        CompatSession.Call call = compat.seal("/sealed/fails", new byte[1], System.currentTimeMillis(), fixture.draw(16), fixture.draw(12));
        assertEquals(500, fixture.send("POST", "/sealed/fails", call.message()).status());
    }

    @Test
    void flushedBytesArriveBeforeTheServletEnds() throws Exception {
        NativeSession.WholeRequest sealed = seal(fixture.nativeSession(null), "GET", "/sealed/flush", new byte[0]);
        HttpResponse<InputStream> response = fixture.open(fixture.request("/sealed/flush", sealed.message().headers(), null).GET().build());
        NativeCall.Opening opening = sealed.call().opening(200, Fixture.headers(response));
        byte[] buffer = new byte[1000];
        StringBuilder text = new StringBuilder();
        try (InputStream body = response.body()) {
            while (text.isEmpty()) {
                int read = body.read(buffer);
                opening.opener().feed(buffer, 0, read).forEach(part -> text.append(new String(part)));
            }
            assertEquals("first", text.toString());
            servlet.flushed.countDown();
            for (int read = body.read(buffer); read >= 0; read = body.read(buffer)) {
                opening.opener().feed(buffer, 0, read).forEach(part -> text.append(new String(part)));
            }
        }
        opening.opener().finish();
        assertEquals("firstsecond", text.toString());
    }

    private Fixture.Reply callCompat(CompatSession session, String path, String body, boolean isOpened) throws Exception {
        CompatSession.Call call = session.seal(path, body.getBytes(), System.currentTimeMillis(), fixture.draw(16), fixture.draw(12));
        Fixture.Reply reply = fixture.send("POST", path, call.message());
        if (isOpened) {
            byte[] plain = call.open(reply.headers(), reply.status(), reply.body(), System.currentTimeMillis(), ReplayPolicy.DEFAULT);
            assertEquals(body, new String(plain));
            assertEquals(400, fixture.send("POST", path, call.message()).status());
        }
        return reply;
    }

    @Test
    void wires1And2AreServedOnceEachAndRejectedInTheirOwnForm() throws Exception {
        for (Wire wire : new Wire[] {Wire.ONE, Wire.TWO}) {
            CompatSession session = fixture.compatSession(wire, Family.SESSION);
            assertEquals(200, callCompat(session, "/sealed/echo", "hi", true).status());
            assertEquals(200, callCompat(session, "/sealed/status/201", "made", true).status());
            assertEquals(404, callCompat(session, "/sealed/status/404", "gone", true).status());
            Fixture.Reply unreadable = callCompat(session, "/sealed/status/422", "x", false);
            assertEquals("400{\"error\":\"CRYPTO_ERROR\"}", unreadable.status() + unreadable.text());
            Fixture.Reply large = callCompat(session, "/sealed/echo", "x".repeat(Fixture.BODY_MAX), false);
            assertEquals("413{\"error\":\"PAYLOAD_TOO_LARGE\"}", large.status() + large.text());
            fixture.expire(session.id());
            Fixture.Reply over = callCompat(session, "/sealed/echo", "x", false);
            assertEquals("401{\"error\":\"SESSION_EXPIRED\"}", over.status() + over.text());
            isStoreAway = true;
            assertEquals(503, callCompat(session, "/sealed/echo", "x", false).status());
            isStoreAway = false;
        }
        CompatSession anonymous = fixture.compatSession(Wire.ONE, Family.ANONYMOUS);
        assertEquals(200, callCompat(anonymous, "/sealed/anonymous", "hi", true).status());
        assertEquals(403, callCompat(anonymous, "/sealed/echo", "hi", false).status());
        assertEquals(413, callCompat(anonymous, "/sealed/anonymous", "x".repeat(5000), false).status());
        assertEquals(405, fixture.send(fixture.request("/sealed/echo", HeaderList.of(), null).GET().build()).status());
        Fixture.Reply plain = fixture.send(fixture.request("/sealed/echo", HeaderList.of(), null)
                .POST(HttpRequest.BodyPublishers.ofString("x")).build());
        assertEquals("400{\"error\":\"CRYPTO_ERROR\"}", plain.status() + plain.text());
    }

    @Test
    void anUnsealedRequestOfAnOptionalRoutePassesWithoutIdentityHeaders() throws Exception {
        HeaderList forged = HeaderList.of("X-Sealway-Subject", "root", "X_Sealway_Auth", "bearer", "X-Mine", "1");
        Fixture.Reply reply = fixture.send(fixture.request("/maybe/echo", forged, null).POST(HttpRequest.BodyPublishers.ofString("hi")).build());
        assertEquals("hi", reply.text());
        assertEquals("null", reply.headers().first("seen-x-sealway-subject"));
        assertEquals("1", reply.headers().first("seen-x-mine"));
        NativeSession.WholeRequest sealed = seal(fixture.nativeSession(null), "POST", "/maybe/echo", "hi".getBytes());
        assertFalse(fixture.send("POST", "/maybe/echo", sealed.message()).text().contains("hi"));
        NativeSession.WholeRequest again = seal(fixture.nativeSession(null), "POST", "/maybe/echo", "hi".getBytes());
        List<Header> headers = new java.util.ArrayList<>(again.message().headers().list());
        headers.add(new Header("X-Sealway-Subject", "root"));
        Fixture.Reply told = fixture.send("POST", "/maybe/echo", new SealedMessage(new HeaderList(headers), again.message().contentType(),
                again.message().body()));
        assertEquals("null", open(again, told).headers().first("seen-x-sealway-subject"));
    }
}
