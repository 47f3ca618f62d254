package dev.sealway.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.crypto.SignatureAlgorithm;
import dev.sealway.exchange.Exchange;
import dev.sealway.exchange.Opening;
import dev.sealway.exchange.Piece;
import dev.sealway.exchange.PlainRequest;
import dev.sealway.session.Fresh;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.Unreplayed;
import dev.sealway.session.nativeprotocol.FrameSealer;
import dev.sealway.session.nativeprotocol.InnerHeaders;
import dev.sealway.session.nativeprotocol.KeySet;
import dev.sealway.session.nativeprotocol.NativeCall;
import dev.sealway.session.nativeprotocol.NativeExchange;
import dev.sealway.session.nativeprotocol.NativeReply;
import dev.sealway.session.nativeprotocol.NativeSession;
import dev.sealway.session.nativeprotocol.OuterHeaders;
import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.session.nativeprotocol.Proofs;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.StrictBase64;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** Sealed calls, key sets and problems of {@code vectors/session3}. */
final class Calls {
    private Calls() {
    }

    static byte[] sealed(FrameSealer sealer, HeaderList inner, List<byte[]> frames) {
        byte[] out = {};
        for (int at = 0; at < frames.size(); at++) {
            byte[] plain = at == 0 ? Bytes.join(InnerHeaders.encode(inner), frames.get(0)) : frames.get(at);
            out = Bytes.join(out, sealer.seal(plain, 0, plain.length, at == frames.size() - 1));
        }
        return out;
    }

    static void assertSealed(Scenario expected, HeaderList headers, String contentType, byte[] stream) {
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
    static void assertFrameKeys(Scenario s, byte[] expanded) {
        assertEquals(s.text("key_hex") + s.text("iv_hex") + s.text("commit_hex"), java.util.HexFormat.of().formatHex(expanded));
        assertEquals(64, s.text("context_hex").length());
    }

    static byte[] info(String... parts) {
        byte[] out = {};
        for (String part : parts) {
            byte[] bytes = part.getBytes(StandardCharsets.US_ASCII);
            out = Bytes.join(out, java.nio.ByteBuffer.allocate(4).putInt(bytes.length).array(), bytes);
        }
        return out;
    }

    static void request(Scenario s) {
        NativeSession client = NativeVectorsTest.client(s.object("client"));
        SessionRecord session = record(s);
        String contentType = s.text("content_type");
        NativeSession.StreamRequest begun = client.begin(s.text("method"), s.text("path"), contentType, s.text("stamp"), s.text("nonce"));
        HeaderList inner = s.inner();
        List<byte[]> frames = s.frames();
        byte[] stream = sealed(begun.sealer(), inner, frames);
        Scenario sealed = s.object("sealed");
        assertSealed(sealed, begun.headers(), contentType, stream);
        try (SecretBytes c2s = Hashes.expand(session.key(), "sealway/3 c2s")) {
            assertFrameKeys(s, Hashes.expand(c2s, info("sealway/3 request", s.text("nonce"), s.text("stamp")), 60));
        }
        byte[] body = sealed.headers().has("X-Sealed") ? new byte[0] : stream;
        Exchange exchange = Exchange.begin(s.text("method"), s.text("path"), sealed.headers(), s.number("now_ms"), s.window());
        Unreplayed<PlainRequest> opened = exchange.session(session).openAll(body, s.number("now_ms"));
        s.assertClaim(opened.claim());
        PlainRequest plain = opened.release(Fresh.granted(opened.claim()));
        assertEquals(inner.list(), plain.headers().list());
        assertArrayEquals(Bytes.join(frames.toArray(byte[][]::new)), plain.first());
        if (body.length <= 5_000) {
            openByteByByte(exchange.session(session), session, body, frames, s.number("now_ms"));
        }
    }

    private static void openByteByByte(Opening opening, SessionRecord session, byte[] body, List<byte[]> frames, long nowMs) {
        List<Piece> pieces = new java.util.ArrayList<>();
        for (int at = 0; at < body.length; at++) {
            pieces.addAll(opening.stream().read(body, at, 1));
        }
        pieces.addAll(opening.stream().end());
        assertEquals(1, pieces.stream().filter(Piece::isLast).count());
        Unreplayed<PlainRequest> first = opening.open(pieces.removeFirst(), session, nowMs);
        byte[] out = first.release(Fresh.granted(first.claim())).first();
        assertArrayEquals(Bytes.join(frames.toArray(byte[][]::new)), Bytes.join(out,
                Bytes.join(pieces.stream().map(Piece::bytes).toArray(byte[][]::new))));
    }

    static void requestRefused(Scenario s) {
        SessionRecord session = record(s);
        HeaderList headers = s.headers();
        byte[] body = s.bytes("body");
        String method = s.text("method");
        String path = s.text("path");
        long nowMs = s.number("now_ms");
        var window = s.window();
        s.assertRefused(() -> NativeExchange.read(method, path, headers, nowMs, window).session(session).openAll(body, nowMs));
    }

    private static NativeCall call(Scenario s, NativeSession client) {
        Scenario request = s.object("request");
        return client.call(request.text("method"), request.text("path"), "1750000000000", request.text("nonce"));
    }

    static void answer(Scenario s) {
        NativeSession client = NativeVectorsTest.client(s.object("client"));
        SessionRecord session = record(s);
        Scenario request = s.object("request");
        String nonce = request.text("nonce");
        // The server's side begins with a request that it opened: one of the same line and nonce.
        NativeSession.StreamRequest sent = client.begin(request.text("method"), request.text("path"), null, "1750000000000", nonce);
        byte[] body = sent.sealer().sealAll(InnerHeaders.encode(HeaderList.of()), new byte[0]);
        Exchange exchange = Exchange.begin(request.text("method"), request.text("path"), sent.headers(), 1_750_000_000_000L,
                dev.sealway.session.ReplayPolicy.DEFAULT);
        Unreplayed<PlainRequest> opened = exchange.session(session).openAll(body, 1_750_000_000_000L);
        NativeReply reply = (NativeReply) opened.release(Fresh.granted(opened.claim())).reply();
        int status = Math.toIntExact(s.number("status"));
        String contentType = s.text("content_type");
        NativeReply.Head begun = reply.begin(status, contentType, s.text("stamp"), s.text("nonce"));
        HeaderList inner = s.inner();
        List<byte[]> frames = s.frames();
        byte[] stream = sealed(begun.sealer(), inner, frames);
        Scenario sealed = s.object("sealed");
        assertSealed(sealed, begun.headers(), contentType, stream);
        try (SecretBytes s2c = Hashes.expand(session.key(), "sealway/3 s2c")) {
            assertFrameKeys(s, Hashes.expand(s2c, info("sealway/3 answer", nonce, s.text("nonce")), 60));
        }
        byte[] outer = sealed.headers().has("X-Sealed") ? new byte[0] : stream;
        NativeCall.PlainAnswer plain = call(s, client).open(status, sealed.headers(), outer);
        assertEquals(inner.list(), plain.headers().list());
        assertArrayEquals(Bytes.join(frames.toArray(byte[][]::new)), plain.body());
    }

    static void answerRefused(Scenario s) {
        NativeCall call = call(s, NativeVectorsTest.client(s.object("client")));
        int status = Math.toIntExact(s.number("status"));
        HeaderList headers = s.headers();
        byte[] body = s.bytes("body");
        s.assertRefused(() -> call.open(status, headers, body));
    }

    static void assertKeys(Scenario s, KeySet set) {
        List<Scenario> expected = s.objects("keys");
        // The scenarios leave out keys of unknown algorithms.
        assertEquals(expected.size(), set.keys().stream().filter(key -> SignatureAlgorithm.of(key.publicKey()) != null).count());
        List<String> accepted = s.accepted();
        for (Scenario key : expected) {
            assertArrayEquals(key.hex("public_hex"), set.byId().get(key.text("key_id")));
        }
        for (Scenario signer : s.objects("signers")) {
            byte[] key = set.signer(signer.text("key_id"), signer.number("server_time_ms"), signer.number("now_ms"));
            assertEquals(signer.flag("trusted"), key != null && SignatureAlgorithm.accepts(accepted, key, false), s.name() + " " + signer.number("server_time_ms"));
        }
    }

    static void serviceHeaders(Scenario s) {
        assertEquals(s.pairs("service").list(), OuterHeaders.service(s.pairs("outer"), s.pairs("inner"), s.flag("front_trusted")));
    }

    static void problem(Scenario s) {
        NativeSession client = NativeVectorsTest.client(s.object("client"));
        SessionRecord session = record(s);
        Scenario request = s.object("request");
        String stamp = request.text("stamp");
        String nonce = request.text("nonce");
        Problem problem = Problem.parse(400, s.text("body").getBytes(StandardCharsets.UTF_8));
        NativeCall call = client.call("POST", "/", stamp, nonce);
        boolean isProven = call.provesClock(problem);
        assertEquals(s.flag("proven"), isProven, s.name());
        for (Scenario resend : s.objects("resends")) {
            NativeCall sent = client.call(resend.text("method"), "/", stamp, nonce);
            assertEquals(resend.flag("again"), sent.isSentAgain(problem, isProven, resend.number("elapsed_ms")),
                    s.name() + " " + resend.text("method") + " " + resend.number("elapsed_ms"));
        }
        if (isProven) {
            byte[] mac = Proofs.clockMac(session, nonce, stamp, problem.serverTimeMs());
            assertEquals(problem.text("mac"), StrictBase64.encode(mac));
        }
    }
}
