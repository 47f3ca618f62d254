package dev.sealway.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.fail;

import dev.sealway.crypto.AesGcm;
import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.Hpke;
import dev.sealway.crypto.Kem;
import dev.sealway.crypto.KemSender;
import dev.sealway.crypto.MlKem;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.session.nativeprotocol.InnerHeaders;
import dev.sealway.session.nativeprotocol.KeyConfig;
import dev.sealway.session.nativeprotocol.KeyDocument;
import dev.sealway.session.nativeprotocol.NativeCall;
import dev.sealway.session.nativeprotocol.OneShotKeys;
import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.session.nativeprotocol.RequestKeys;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.StrictBase64;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.KeyPair;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** All of {@code vectors/one-shot} that has a client's side. */
class OneShotVectorsTest {
    /** Types of the server alone, which this SDK is not on wire 4. */
    static final Set<String> OF_SERVERS = Set.of("request4-refused", "psk4");
    private static final Map<String, Integer> RAN = new TreeMap<>();
    private static final Map<String, Integer> SKIPPED = new TreeMap<>();

    @TestFactory
    Stream<DynamicTest> everyVectorOfWire4Holds() {
        return Scenario.folder("one-shot").stream().map(scenario -> DynamicTest.dynamicTest(scenario.name(), () -> {
            if (OF_SERVERS.contains(scenario.type())) {
                SKIPPED.merge(scenario.type(), 1, Integer::sum);
                return;
            }
            run(scenario);
            scenario.assertAllRead();
            RAN.merge(scenario.type(), 1, Integer::sum);
        }));
    }

    @AfterAll
    static void someOfEachTypeRan() {
        assertEquals(Set.of("answer4", "answer4-refused", "key-document4", "key-document4-refused", "problem4", "request4"), RAN.keySet());
        assertEquals(OF_SERVERS, SKIPPED.keySet());
        System.out.println("vectors/one-shot: " + RAN.values().stream().mapToInt(n -> n).sum() + " ran: " + RAN + "; of servers alone, skipped: "
                + SKIPPED);
    }

    static void run(Scenario s) {
        switch (s.type()) {
            case "request4" -> request(s);
            case "answer4" -> answer(s);
            case "answer4-refused" -> answerRefused(s);
            case "key-document4" -> document(s);
            case "key-document4-refused" -> documentRefused(s);
            case "problem4" -> problem(s);
            default -> fail(s.name() + ": unknown type " + s.type());
        }
    }

    /** Gives the bytes that a vector has drawn. */
    private static final class Drawn extends SecureRandom {
        private static final long serialVersionUID = 1;
        private final transient byte[] bytes;

        Drawn(byte[] bytes) {
            this.bytes = bytes;
        }

        @Override
        public void nextBytes(byte[] out) {
            assertEquals(bytes.length, out.length);
            System.arraycopy(bytes, 0, out, 0, out.length);
        }
    }

    private static KemSender sender(Scenario s, Kem kem) {
        byte[] randomness = s.hex("randomness_hex");
        byte[] group = s.hex("group_private_hex");
        boolean isHybrid = randomness.length > group.length;
        assertArrayEquals(group, Arrays.copyOfRange(randomness, randomness.length - group.length, randomness.length));
        KeyPair pair = kem == Kem.X_WING || kem == Kem.X25519 ? FixedKeys.x25519(group) : FixedKeys.curve(group);
        return new KemSender(kem, pair, key -> {
            assertEquals(true, isHybrid);
            MlKem.Encapsulation made = MlKem.ML_KEM_768.encapsulate(key, new Drawn(Arrays.copyOf(randomness, 32)));
            s.assertHex("kem_secret_hex", made.secret());
            return made;
        });
    }

    private static void request(Scenario s) {
        Scenario named = s.object("key");
        KeyConfig key = KeyConfig.read(named.hex("config_hex"));
        assertEquals(named.text("kem"), key.kem().text());
        byte[] enc = s.hex("enc_hex");
        KemSender.Encapsulated made = sender(s, key.kem()).encapsulate(key.publicKey());
        assertArrayEquals(enc, made.enc());
        s.assertHex("shared_secret_hex", made.secret());
        Scenario shared = s.object("psk");
        byte[] pskId = shared == null ? new byte[0] : shared.text("id").getBytes(StandardCharsets.US_ASCII);
        Hpke.Psk psk = shared == null ? null : new Hpke.Psk(pskId, SecretBytes.owning(shared.hex("psk_hex")));
        byte[] c2s;
        try (Hpke.Exporter exporter = Hpke.setup(key.kem(), made.secret(), OneShotKeys.info(key.name(), pskId), psk)) {
            c2s = exporter.export("sealway/4 c2s").copy();
            s.assertHex("c2s_hex", c2s);
            s.assertHex("s2c_hex", exporter.export("sealway/4 s2c").copy());
        }
        OneShotKeys keys = OneShotKeys.agree(key, psk, sender(s, key.kem()));
        String contentType = s.text("content_type");
        RequestKeys.StreamRequest begun = keys.begin(s.text("method"), s.text("path"), contentType, s.text("stamp"), s.text("nonce"));
        HeaderList inner = s.inner();
        List<byte[]> frames = s.frames();
        byte[] stream = Calls.sealed(begun.sealer(), inner, frames);
        Calls.assertSealed(s.object("sealed"), begun.headers(), contentType, stream);
        Calls.assertFrameKeys(s, Hashes.expand(SecretBytes.owning(c2s), Calls.info("sealway/4 request", s.text("nonce"), s.text("stamp")), 60));
        // The server's side.
        named.skip("private_hex");
        s.skip("group_secret_hex", "kem_secret_hex", "now_ms", "window_ms");
        s.object("claim").skip("key_hex", "sealed", "stamp_ms", "expires_ms");
    }

    private static NativeCall call(Scenario s) {
        Scenario request = s.object("request");
        OneShotKeys keys = new OneShotKeys(s.text("kid").substring(KeyConfig.KID_PREFIX.length()), SecretBytes.owning(new byte[32]),
                SecretBytes.owning(s.hex("s2c_hex")), new byte[0]);
        return keys.call(request.text("method"), request.text("path"), "1750000000000", request.text("nonce"));
    }

    /** Seals the frames of an answer under the keys that the vector has. */
    private static byte[] stream(Scenario s) {
        AesGcm aead = new AesGcm(SecretBytes.owning(s.hex("key_hex")));
        byte[] out = s.hex("commit_hex");
        List<byte[]> frames = s.frames();
        for (int at = 0; at < frames.size(); at++) {
            byte[] plain = at == 0 ? Bytes.join(InnerHeaders.encode(s.inner()), frames.getFirst()) : frames.get(at);
            boolean isLast = at == frames.size() - 1;
            byte[] iv = s.hex("iv_hex");
            iv[3] ^= (byte) (isLast ? 1 : 0);
            iv[11] ^= (byte) at;
            byte[] sealed = new byte[plain.length + AesGcm.TAG_LEN];
            aead.seal(iv, s.hex("context_hex"), plain, 0, plain.length, sealed, 0);
            out = Bytes.join(out, ByteBuffer.allocate(4).putInt(sealed.length | (isLast ? 1 << 31 : 0)).array(), sealed);
        }
        return out;
    }

    private static void answer(Scenario s) {
        NativeCall call = call(s);
        Scenario sealed = s.object("sealed");
        byte[] stream = stream(s);
        byte[] body = stream;
        if (sealed.headers().has("X-Sealed")) {
            body = new byte[0];
            assertEquals(sealed.headers().first("X-Sealed"), StrictBase64.encode(stream));
        }
        sealed.assertBytes("body", body);
        NativeCall.PlainAnswer opened = call.open(Math.toIntExact(s.number("status")), sealed.headers(), body);
        assertEquals(s.inner().list(), opened.headers().list());
        assertArrayEquals(Bytes.join(s.frames().toArray(byte[][]::new)), opened.body());
        assertEquals(s.flag("problem"), opened.isProblem());
        if (opened.isProblem()) {
            NativeCall.problem(Math.toIntExact(s.number("status")), opened.body());
        }
        Calls.assertFrameKeys(s, Hashes.expand(SecretBytes.owning(s.hex("s2c_hex")), Calls.info("sealway/4 answer",
                s.object("request").text("nonce"), s.text("nonce")), 60));
        s.skip("content_type", "stamp");
    }

    private static void answerRefused(Scenario s) {
        NativeCall call = call(s);
        int status = Math.toIntExact(s.number("status"));
        HeaderList headers = s.headers();
        byte[] body = s.bytes("body");
        s.assertRefused(() -> call.open(status, headers, body));
    }

    private static void document(Scenario s) {
        KeyDocument document = KeyDocument.parse(s.text("body").getBytes(StandardCharsets.UTF_8));
        document.verify(s.hex("root_public_hex"), s.accepted(), s.number("now_ms"), s.optionalNumber("taken_issued_ms"));
        assertEquals(s.number("issued_ms"), document.issuedMs());
        List<Scenario> keys = s.objects("keys");
        assertEquals(keys.size(), document.keys().size());
        for (int at = 0; at < keys.size(); at++) {
            KeyConfig config = document.keys().get(at).config();
            assertEquals(keys.get(at).text("kid"), config.kid());
            assertEquals(keys.get(at).text("kem"), config.kem() == null ? null : config.kem().text());
            assertEquals(config.kid(), KeyConfig.read(keys.get(at).hex("config_hex")).kid());
        }
        for (Scenario choice : s.objects("choices")) {
            EnumSet<Kem> kems = EnumSet.noneOf(Kem.class);
            List<String> names = choice.texts("kems");
            Arrays.stream(Kem.values()).filter(kem -> names.contains(kem.text())).forEach(kems::add);
            assertEquals(names.size(), kems.size());
            KeyConfig chosen = document.choose(choice.number("now_ms"), kems, config -> true);
            assertEquals(choice.text("kid"), chosen == null ? null : chosen.kid(), s.name() + " " + choice.number("now_ms") + " " + kems);
        }
    }

    private static void documentRefused(Scenario s) {
        byte[] body = s.text("body").getBytes(StandardCharsets.UTF_8);
        byte[] root = s.hex("root_public_hex");
        long nowMs = s.number("now_ms");
        Long takenMs = s.optionalNumber("taken_issued_ms");
        List<String> accepted = s.accepted();
        s.assertRefused(() -> KeyDocument.parse(body).verify(root, accepted, nowMs, takenMs));
    }

    private static void problem(Scenario s) {
        Problem problem = Problem.parse(Math.toIntExact(s.number("status")), s.text("body").getBytes(StandardCharsets.UTF_8));
        OneShotKeys keys = new OneShotKeys(HexFormat.of().formatHex(new byte[16]), SecretBytes.owning(new byte[32]),
                SecretBytes.owning(new byte[32]), new byte[0]);
        for (Scenario resend : s.objects("resends")) {
            NativeCall sent = keys.call(resend.text("method"), "/", s.text("stamp"), "0123456789abcdef");
            assertEquals(resend.flag("again"), sent.isSentAgain(problem, s.flag("sealed"), resend.number("elapsed_ms")),
                    s.name() + " " + resend.text("method") + " " + resend.number("elapsed_ms"));
        }
    }
}
