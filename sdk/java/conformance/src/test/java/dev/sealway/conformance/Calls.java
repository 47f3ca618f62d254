package dev.sealway.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.session.Fresh;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.Unreplayed;
import dev.sealway.session.three.ClientCall3;
import dev.sealway.session.three.ClientSession3;
import dev.sealway.session.three.FrameSealer;
import dev.sealway.session.three.InnerHeaders;
import dev.sealway.session.three.KeySet;
import dev.sealway.session.three.OuterHeaders;
import dev.sealway.session.three.Problem;
import dev.sealway.session.three.Proofs;
import dev.sealway.session.three.Reply3;
import dev.sealway.session.three.ServerCall3;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.StrictBase64;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** Sealed calls, key sets and problems of {@code vectors/session3}. */
final class Calls {
    private Calls() {
    }

    private static byte[] sealed(FrameSealer sealer, HeaderList inner, List<byte[]> frames) {
        byte[] out = {};
        for (int at = 0; at < frames.size(); at++) {
            byte[] plain = at == 0 ? Bytes.join(InnerHeaders.encode(inner), frames.get(0)) : frames.get(at);
            out = Bytes.join(out, sealer.seal(plain, 0, plain.length, at == frames.size() - 1));
        }
        return out;
    }

    private static void assertSealed(Scenario expected, HeaderList headers, String contentType, byte[] stream) {
        if (contentType == null && expected.headers().has("X-Sealed")) {
            List<dev.sealway.wire.Header> all = new java.util.ArrayList<>(headers.list());
            all.add(new dev.sealway.wire.Header("X-Sealed", StrictBase64.encode(stream)));
            expected.assertHeaders(new HeaderList(all), null);
            expected.assertBytes("body", new byte[0]);
            return;
        }
        expected.assertHeaders(headers, contentType);
        expected.assertBytes("body", stream);
    }

    /** The vector's own session, whose keys stand beside. */
    private static SessionRecord record(Scenario s) {
        Scenario session = s.object("session");
        SessionRecord record = session.record();
        if (session.has("c2s_hex")) {
            session.assertHex("c2s_hex", Hashes.expand(record.key(), "sealway/3 c2s").copy());
            session.assertHex("s2c_hex", Hashes.expand(record.key(), "sealway/3 s2c").copy());
        }
        return record;
    }

    /** Key, IV, commitment and context are there to find a difference by; the first three are checked on their own. */
    private static void assertFrameKeys(Scenario s, byte[] expanded) {
        assertEquals(s.text("key_hex") + s.text("iv_hex") + s.text("commit_hex"), java.util.HexFormat.of().formatHex(expanded));
        assertEquals(64, s.text("context_hex").length());
    }

    private static byte[] info(String... parts) {
        byte[] out = {};
        for (String part : parts) {
            byte[] bytes = part.getBytes(StandardCharsets.US_ASCII);
            out = Bytes.join(out, java.nio.ByteBuffer.allocate(4).putInt(bytes.length).array(), bytes);
        }
        return out;
    }

    static void request(Scenario s) {
        ClientSession3 client = Session3VectorsTest.client(s.object("client"));
        SessionRecord session = record(s);
        String contentType = s.text("content_type");
        ClientSession3.Begun begun = client.begin(s.text("method"), s.text("path"), contentType, s.text("stamp"), s.text("nonce"));
        HeaderList inner = s.inner();
        List<byte[]> frames = s.frames();
        byte[] stream = sealed(begun.sealer(), inner, frames);
        Scenario sealed = s.object("sealed");
        assertSealed(sealed, begun.headers(), contentType, stream);
        try (SecretBytes c2s = Hashes.expand(session.key(), "sealway/3 c2s")) {
            assertFrameKeys(s, Hashes.expand(c2s, info("sealway/3 request", s.text("nonce"), s.text("stamp")), 60));
        }
        byte[] body = sealed.headers().has("X-Sealed") ? new byte[0] : stream;
        ServerCall3 call = new ServerCall3(s.text("method"), s.text("path"), sealed.headers(), s.number("now_ms"), s.window());
        Unreplayed<ServerCall3.Begun> opened = call.open(session, body);
        s.assertClaim(opened.claim());
        ServerCall3.Begun plain = opened.release(Fresh.granted(opened.claim()));
        assertEquals(inner.list(), plain.headers().list());
        assertArrayEquals(Bytes.join(frames.toArray(byte[][]::new)), Bytes.join(plain.parts().toArray(byte[][]::new)));
        openByteByByte(call, session, sealed.headers(), body, frames, s.number("now_ms"));
    }

    private static void openByteByByte(ServerCall3 call, SessionRecord session, HeaderList headers, byte[] body,
            List<byte[]> frames, long nowMs) {
        if (headers.has("X-Sealed") || body.length > 5_000) {
            return;
        }
        ServerCall3.Opening opening = call.opening(session);
        int at = 0;
        while (!opening.feed(body, at, 1)) {
            at++;
        }
        Unreplayed<ServerCall3.Begun> first = opening.first(session, nowMs);
        ServerCall3.Begun begun = first.release(Fresh.granted(first.claim()));
        byte[] out = Bytes.join(begun.parts().toArray(byte[][]::new));
        for (at++; at < body.length; at++) {
            out = Bytes.join(out, Bytes.join(begun.rest().feed(body, at, 1).toArray(byte[][]::new)));
        }
        begun.rest().finish();
        assertArrayEquals(Bytes.join(frames.toArray(byte[][]::new)), out);
    }

    static void requestRefused(Scenario s) {
        SessionRecord session = record(s);
        HeaderList headers = s.headers();
        byte[] body = s.bytes("body");
        String method = s.text("method");
        String path = s.text("path");
        long nowMs = s.number("now_ms");
        var window = s.window();
        s.assertRefused(() -> new ServerCall3(method, path, headers, nowMs, window).open(session, body));
    }

    private static ClientCall3 call(Scenario s, ClientSession3 client) {
        Scenario request = s.object("request");
        return client.call(request.text("method"), request.text("path"), "1750000000000", request.text("nonce"));
    }

    static void answer(Scenario s) {
        ClientSession3 client = Session3VectorsTest.client(s.object("client"));
        SessionRecord session = record(s);
        Scenario request = s.object("request");
        String nonce = request.text("nonce");
        // The server's side begins with a request that it opened: one of the same line and nonce.
        ClientSession3.Begun sent = client.begin(request.text("method"), request.text("path"), null, "1750000000000", nonce);
        byte[] body = sent.sealer().sealAll(InnerHeaders.encode(HeaderList.of()), new byte[0]);
        Unreplayed<ServerCall3.Begun> opened = new ServerCall3(request.text("method"), request.text("path"), sent.headers(),
                1_750_000_000_000L, dev.sealway.session.ReplayPolicy.DEFAULT).open(session, body);
        Reply3 reply = opened.release(Fresh.granted(opened.claim())).reply();
        int status = Math.toIntExact(s.number("status"));
        String contentType = s.text("content_type");
        Reply3.Begun begun = reply.begin(status, contentType, s.text("stamp"), s.text("nonce"));
        HeaderList inner = s.inner();
        List<byte[]> frames = s.frames();
        byte[] stream = sealed(begun.sealer(), inner, frames);
        Scenario sealed = s.object("sealed");
        assertSealed(sealed, begun.headers(), contentType, stream);
        try (SecretBytes s2c = Hashes.expand(session.key(), "sealway/3 s2c")) {
            assertFrameKeys(s, Hashes.expand(s2c, info("sealway/3 answer", nonce, s.text("nonce")), 60));
        }
        byte[] outer = sealed.headers().has("X-Sealed") ? new byte[0] : stream;
        ClientCall3.Opened plain = call(s, client).open(status, sealed.headers(), outer);
        assertEquals(inner.list(), plain.headers().list());
        assertArrayEquals(Bytes.join(frames.toArray(byte[][]::new)), plain.body());
    }

    static void answerRefused(Scenario s) {
        ClientCall3 call = call(s, Session3VectorsTest.client(s.object("client")));
        int status = Math.toIntExact(s.number("status"));
        HeaderList headers = s.headers();
        byte[] body = s.bytes("body");
        s.assertRefused(() -> call.open(status, headers, body));
    }

    static void assertKeys(Scenario s, KeySet set) {
        List<Scenario> expected = s.objects("keys");
        assertEquals(expected.size(), set.keys().size());
        for (Scenario key : expected) {
            assertArrayEquals(key.hex("public_hex"), set.byId().get(key.text("key_id")));
        }
        for (Scenario signer : s.objects("signers")) {
            byte[] key = set.signer(signer.text("key_id"), signer.number("server_time_ms"), signer.number("now_ms"));
            assertEquals(signer.flag("trusted"), key != null, s.name() + " " + signer.number("server_time_ms"));
        }
    }

    static void serviceHeaders(Scenario s) {
        assertEquals(s.pairs("service").list(), OuterHeaders.service(s.pairs("outer"), s.pairs("inner"), s.flag("front_trusted")));
    }

    static void problem(Scenario s) {
        ClientSession3 client = Session3VectorsTest.client(s.object("client"));
        SessionRecord session = record(s);
        Scenario request = s.object("request");
        String stamp = request.text("stamp");
        String nonce = request.text("nonce");
        Problem problem = Problem.parse(400, s.text("body").getBytes(StandardCharsets.UTF_8));
        ClientCall3 call = client.call("POST", "/", stamp, nonce);
        boolean isProven = call.provesClock(problem);
        assertEquals(s.flag("proven"), isProven, s.name());
        for (Scenario resend : s.objects("resends")) {
            ClientCall3 sent = client.call(resend.text("method"), "/", stamp, nonce);
            assertEquals(resend.flag("again"), sent.isSentAgain(problem, isProven, resend.number("elapsed_ms")),
                    s.name() + " " + resend.text("method") + " " + resend.number("elapsed_ms"));
        }
        if (isProven) {
            byte[] mac = Proofs.clockMac(session, nonce, stamp, problem.serverTimeMs());
            assertEquals(problem.text("mac"), StrictBase64.encode(mac));
        }
    }
}
