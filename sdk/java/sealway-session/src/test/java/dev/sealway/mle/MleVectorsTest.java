package dev.sealway.mle;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import dev.sealway.mle.Profile.Unit;
import dev.sealway.session.Fresh;
import dev.sealway.session.Unreplayed;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.Json;
import dev.sealway.wire.JsonNumber;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** All of {@code vectors/mle}. */
class MleVectorsTest {
    private static final Path FOLDER = Path.of("../../../vectors/mle");
    private static final Set<String> CLASSES = new ConcurrentSkipListSet<>();

    @TestFactory
    Stream<DynamicTest> everyVectorIsOpenedOrRejectedForItsClass() throws IOException {
        try (Stream<Path> files = Files.list(FOLDER)) {
            List<Path> all = files.filter(file -> file.toString().endsWith(".json")).sorted().toList();
            assertTrue(!all.isEmpty(), "vectors/mle has no files");
            return all.stream().map(file -> DynamicTest.dynamicTest(file.getFileName().toString(), () -> run(file)));
        }
    }

    @AfterAll
    static void someAreRejected() {
        assertTrue(CLASSES.size() > 10, CLASSES.toString());
    }

    private static void run(Path file) throws IOException {
        Map<?, ?> s = (Map<?, ?>) Json.parse(Files.readAllBytes(file));
        Map<?, ?> key = (Map<?, ?>) s.get("key");
        byte[] privateKey = bytes((String) key.get("private_key_pem"));
        Alg alg = Alg.of((String) key.get("alg"));
        KeyName name = KeyName.fixed((String) key.get("kid"));
        OpeningKey opens = key.get("certificate_pem") instanceof String certificate ? OpeningKey.of(privateKey, bytes(certificate), alg, name)
                : OpeningKey.of(privateKey, alg, name);
        Message message = Message.valueOf(((String) s.get("message")).toUpperCase(Locale.ROOT));
        long nowMs = ((JsonNumber) s.get("now_ms")).whole(Long.MAX_VALUE);
        byte[] body = bytes((String) s.get("body"));
        switch ((String) s.get("type")) {
            case "mle-open" -> {
                Unreplayed<Plaintext> guarded = open(body, profile(s), message, opens, nowMs);
                assertArrayEquals(Base64.getDecoder().decode((String) s.get("plaintext_base64")), guarded.release(Fresh.granted(guarded.claim())).bytes());
            }
            case "mle-refused" -> {
                MleException refused = assertThrows(MleException.class, () -> open(body, profile(s), message, opens, nowMs));
                assertEquals(s.get("class"), refused.reason().text(), refused.getMessage());
                CLASSES.add(refused.reason().text());
            }
            default -> fail("an unknown type: " + s.get("type"));
        }
    }

    private static Unreplayed<Plaintext> open(byte[] body, Profile profile, Message message, OpeningKey key, long nowMs) {
        return Tokens.open(body, HeaderList.of(), profile, message, OpeningKeys.of(key), nowMs, new SecureRandom());
    }

    private static Profile profile(Map<?, ?> s) {
        return switch ((String) s.get("profile")) {
            case "mastercard-jwe" -> Profile.mastercardJwe();
            case "visa" -> Profile.visa();
            case "visa-acceptance" -> Profile.visaAcceptance();
            case "generic-jwe" -> {
                Map<?, ?> generic = (Map<?, ?>) s.get("generic");
                Object unit = generic.get("iat");
                yield Profile.genericJwe(((List<?>) generic.get("algs")).stream().map(alg -> Alg.of((String) alg)).toList(),
                        ((List<?>) generic.get("encs")).stream().map(enc -> Enc.of((String) enc)).toList(),
                        unit == null ? Unit.NONE : Unit.valueOf(((String) unit).toUpperCase(Locale.ROOT)));
            }
            default -> throw new AssertionError("an unknown profile: " + s.get("profile"));
        };
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
