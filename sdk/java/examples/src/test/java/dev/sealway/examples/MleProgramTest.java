package dev.sealway.examples;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.sealway.exchange.Rejection;
import dev.sealway.mle.Alg;
import dev.sealway.mle.Enc;
import dev.sealway.mle.KeyName;
import dev.sealway.mle.Message;
import dev.sealway.mle.OpeningKey;
import dev.sealway.mle.OpeningKeys;
import dev.sealway.mle.Plaintext;
import dev.sealway.mle.Profile;
import dev.sealway.mle.SealingKey;
import dev.sealway.mle.Tokens;
import dev.sealway.server.AuthorityStore;
import dev.sealway.server.MleGate;
import dev.sealway.session.Fresh;
import dev.sealway.session.Unreplayed;
import dev.sealway.wire.HeaderList;
import java.io.OutputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Messages of card schemes with the gateway's program, whose cryptography is another library's. */
class MleProgramTest {
    private static final byte[] TEXT = "{\"pan\":\"4111111111111111\",\"amount\":12.50}".getBytes(StandardCharsets.UTF_8);
    private static final SecureRandom RANDOM = new SecureRandom();
    private static KeyPair pair;
    @TempDir
    Path folder;

    @BeforeAll
    static void draw() throws Exception {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
        generator.initialize(2048);
        pair = generator.generateKeyPair();
    }

    private String file(String label, byte[] der) throws Exception {
        String text = "-----BEGIN " + label + "-----\n" + Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(der) + "\n-----END " + label + "-----\n";
        return Files.writeString(folder.resolve(label.replace(' ', '-')), text).toString();
    }

    private static byte[] run(byte[] input, String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(Sealway.binary(), "mle"));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try (OutputStream out = process.getOutputStream()) {
            out.write(input);
        }
        byte[] answer = process.getInputStream().readAllBytes();
        assertEquals(0, process.waitFor(), String.join(" ", command));
        return answer;
    }

    private static OpeningKeys keys() {
        return OpeningKeys.of(OpeningKey.of(pair.getPrivate().getEncoded(), Alg.RSA_OAEP_256, KeyName.SPKI_SHA256_HEX));
    }

    private static SealingKey seals(Enc enc) {
        return SealingKey.of(pair.getPublic().getEncoded(), Alg.RSA_OAEP_256, enc, KeyName.SPKI_SHA256_HEX);
    }

    @Test
    void theProgramOpensWhatTheSdkSealsAndTheReverse() throws Exception {
        String privateKey = file("PRIVATE KEY", pair.getPrivate().getEncoded());
        String publicKey = file("PUBLIC KEY", pair.getPublic().getEncoded());
        for (Profile profile : List.of(Profile.mastercardJwe(), Profile.visa(), Profile.visaAcceptance())) {
            for (Enc enc : Enc.values()) {
                if (profile.allows(Message.REQUEST, Alg.RSA_OAEP_256, enc)) {
                    byte[] body = run(TEXT, "encrypt", "--profile", profile.name(), "--enc", enc.text(), "--key", publicKey, "--kid-from", "spki_sha256_hex");
                    Unreplayed<Plaintext> guarded = Tokens.open(body, HeaderList.of(), profile, Message.REQUEST, keys(), System.currentTimeMillis(), RANDOM);
                    assertArrayEquals(TEXT, guarded.release(Fresh.granted(guarded.claim())).bytes());
                }
                if (profile.allows(Message.ANSWER, Alg.RSA_OAEP_256, enc)) {
                    byte[] body = Tokens.seal(TEXT, profile, Message.ANSWER, seals(enc), System.currentTimeMillis(), RANDOM);
                    assertArrayEquals(TEXT, run(body, "decrypt", "--profile", profile.name(), "--message", "answer", "--key", privateKey, "--kid-from", "spki_sha256_hex"));
                }
            }
        }
    }

    @Test
    void tokensAreClaimedAtARealAuthority() throws Exception {
        try (Sealway gateway = new Sealway(folder);
                AuthorityStore store = new AuthorityStore(URI.create(gateway.url), Sealway.SECRET, Duration.ofSeconds(30))) {
            for (Profile profile : List.of(Profile.mastercardJwe(), Profile.visaAcceptance())) {
                MleGate gate = MleGate.builder(profile, keys(), store).build();
                byte[] body = Tokens.seal(TEXT, profile, Message.REQUEST, seals(Enc.A256GCM), System.currentTimeMillis(), RANDOM);
                assertArrayEquals(TEXT, open(gate, body));
                assertEquals("replayed", assertThrows(Rejection.class, () -> open(gate, body)).code());
            }
        }
    }

    private static byte[] open(MleGate gate, byte[] body) {
        try (MleGate.Call call = gate.begin(List.of(seals(Enc.A256GCM)), HeaderList.of(), "127.0.0.1", body.length)) {
            call.feed(body, body.length);
            return call.open("POST").body();
        }
    }
}
