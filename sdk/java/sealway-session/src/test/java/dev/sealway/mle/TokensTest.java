package dev.sealway.mle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Hashes;
import dev.sealway.mle.MleException.Reason;
import dev.sealway.mle.Profile.Unit;
import dev.sealway.session.Claim;
import dev.sealway.session.Fresh;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.Unreplayed;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.UsageException;
import java.io.InputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyPairGenerator;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.X509Certificate;
import java.security.spec.RSAPublicKeySpec;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Round trips, keys and claims. */
class TokensTest {
    private static final long NOW_MS = WrongTokensTest.NOW_MS;
    private static Pair own;
    private static Pair next;

    /** A key pair with a certificate, which the JDK's keytool makes. */
    record Pair(PrivateKey key, X509Certificate certificate) {
        byte[] pem() {
            return text("PRIVATE KEY", key.getEncoded());
        }

        byte[] certified() throws Exception {
            return text("CERTIFICATE", certificate.getEncoded());
        }

        static Pair make(Path folder, String name, String start) throws Exception {
            Path store = folder.resolve("keys.p12");
            Process keytool = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "keytool").toString(), "-genkeypair", "-alias", "own",
                    "-keyalg", "RSA", "-keysize", "2048", "-dname", name, "-startdate", start, "-validity", "1", "-storetype", "PKCS12", "-keystore",
                    store.toString(), "-storepass", "changeit").inheritIO().start();
            assertEquals(0, keytool.waitFor());
            KeyStore keys = KeyStore.getInstance("PKCS12");
            try (InputStream in = Files.newInputStream(store)) {
                keys.load(in, "changeit".toCharArray());
            }
            Files.delete(store);
            return new Pair((PrivateKey) keys.getKey("own", "changeit".toCharArray()), (X509Certificate) keys.getCertificate("own"));
        }
    }

    @BeforeAll
    static void draw(@TempDir Path folder) throws Exception {
        own = Pair.make(folder, "CN=own, SERIALNUMBER=4711", "2026/09/21 12:00:00");
        next = Pair.make(folder, "CN=next", "2026/09/22 06:00:00");
    }

    static byte[] text(String label, byte[] der) {
        return ("-----BEGIN " + label + "-----\n" + Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(der) + "\n-----END " + label + "-----\n")
                .getBytes(StandardCharsets.US_ASCII);
    }

    private static OpeningKey opening(Alg alg, String kid) {
        return OpeningKey.of(own.pem(), alg, KeyName.fixed(kid));
    }

    private static SealingKey sealing(Alg alg, Enc enc) throws Exception {
        return SealingKey.of(own.certified(), alg, enc, KeyName.fixed("own"));
    }

    private static String open(byte[] body, Profile profile, Message message, OpeningKeys keys) {
        return WrongTokensTest.open(new String(body, StandardCharsets.UTF_8), profile, message, keys, NOW_MS);
    }

    @Test
    void everyPairOfAlgorithmsOfEveryProfileOpensWhatItSealed() throws Exception {
        int count = 0;
        for (Profile profile : List.of(Profile.mastercardJwe(), Profile.visa(), Profile.visaAcceptance(),
                Profile.genericJwe(List.of(Alg.values()), List.of(Enc.values()), Unit.NONE))) {
            for (Message message : Message.values()) {
                for (Alg alg : Alg.values()) {
                    for (Enc enc : Enc.values()) {
                        SealingKey key = sealing(alg, enc);
                        if (!profile.allows(message, alg, enc)) {
                            assertThrows(UsageException.class, () -> Tokens.seal(new byte[0], profile, message, key, NOW_MS, TokenBuilder.RANDOM));
                            continue;
                        }
                        for (String plain : List.of(TokenBuilder.TEXT, "", "a", "é\ud83d\ude00".repeat(10_000))) {
                            byte[] body = Tokens.seal(plain.getBytes(StandardCharsets.UTF_8), profile, message, key, NOW_MS, TokenBuilder.RANDOM);
                            assertTrue(Tokens.isToken(profile, message, HeaderList.of("Content-Type", profile.mediaType(message) + "; charset=utf-8"), body));
                            assertEquals(plain, open(body, profile, message, OpeningKeys.of(opening(alg, "own"))), profile.name() + alg + enc);
                        }
                        count++;
                    }
                }
            }
        }
        assertTrue(count >= 30, "only " + count);
    }

    @Test
    void aHeaderHasItsMembersInTheOrderOfTheSpecification() throws Exception {
        SealingKey key = SealingKey.of(own.certified(), Alg.RSA_OAEP_256, Enc.A256GCM, KeyName.fixed("o\"wn"));
        Map.of("\"cty\":\"application/json\"", Profile.mastercardJwe(), "\"iat\":1790000000000", Profile.visa(), "\"iat\":1790000000", Profile.visaAcceptance())
                .forEach((last, profile) -> {
                    byte[] body = Tokens.seal(new byte[0], profile.withMembers(null, null), Message.REQUEST, key, NOW_MS, TokenBuilder.RANDOM);
                    String header = new String(body, StandardCharsets.US_ASCII).split("\\.")[0];
                    assertEquals("{\"alg\":\"RSA-OAEP-256\",\"enc\":\"A256GCM\",\"kid\":\"o\\\"wn\"," + last + "}", new String(Base64.getUrlDecoder().decode(header)));
                });
    }

    @Test
    void aClaimIsThatOfTheSpecification() {
        Profile profile = Profile.visa().withMembers(null, null).withReplay(new ReplayPolicy(120_000));
        TokenBuilder.Parts token = new TokenBuilder(Alg.RSA_OAEP_256, Enc.A128GCM, String.valueOf(NOW_MS), own.certificate().getPublicKey()).token();
        byte[] input = {5};
        for (byte[] part : token.parts()) {
            input = Bytes.join(input, new byte[] {0, 0, 0, 0, 0, 0, (byte) (part.length >> 8), (byte) part.length}, part);
        }
        String key = HexFormat.of().formatHex(Arrays.copyOf(Hashes.sha256(input), 16));
        OpeningKeys keys = OpeningKeys.of(opening(Alg.RSA_OAEP_256, "own"));
        byte[] body = token.toString().getBytes(StandardCharsets.US_ASCII);
        Unreplayed<Plaintext> guarded = Tokens.open(body, HeaderList.of("keyId", "own"), profile, Message.REQUEST, keys, NOW_MS + 5, TokenBuilder.RANDOM);
        assertEquals(new Claim(key, false, NOW_MS, 120_000, NOW_MS + 5 + 240_001), guarded.claim());
        assertThrows(ProtocolException.class, () -> guarded.release(Fresh.granted(new Claim("", false, 0, 0, 0))));
        assertEquals("Plaintext[41 bytes, own, A128GCM]", guarded.release(Fresh.granted(guarded.claim())).toString());
        assertEquals(Reason.KID, assertThrows(MleException.class,
                () -> Tokens.open(body, HeaderList.of("keyId", "other"), profile, Message.REQUEST, keys, NOW_MS, TokenBuilder.RANDOM)).reason());
        // Without a time the claim is ahead of the clock by half of the window.
        byte[] untimed = new TokenBuilder(Alg.RSA_OAEP_256, Enc.A128GCM, null, own.certificate().getPublicKey()).token().toString().getBytes(StandardCharsets.US_ASCII);
        assertEquals(NOW_MS + 60_000, Tokens.open(untimed, HeaderList.of(), profile, Message.ANSWER, keys, NOW_MS, TokenBuilder.RANDOM).claim().stampMs());
        for (long offset : new long[] {-120_001, -120_000, 120_000, 120_001}) {
            if (Math.abs(offset) > 120_000) {
                assertThrows(MleException.class, () -> WrongTokensTest.open(token.toString(), profile, Message.REQUEST, keys, NOW_MS + offset));
            } else {
                assertEquals(TokenBuilder.TEXT, WrongTokensTest.open(token.toString(), profile, Message.REQUEST, keys, NOW_MS + offset));
            }
        }
    }

    @Test
    void anotherSpellingOfATokenIsTheSameTokenAndIvsOf16BytesAreRead() {
        Profile profile = Profile.mastercardJwe().withMembers(null, null);
        OpeningKeys keys = OpeningKeys.of(opening(Alg.RSA_OAEP_256, "own"));
        TokenBuilder builder = new TokenBuilder(Alg.RSA_OAEP_256, Enc.A256GCM, null, own.certificate().getPublicKey());
        builder.iv = TokenBuilder.draw(16);
        TokenBuilder.Parts token = builder.token();
        String mixed = token.text(1, part -> part.replace('-', '+').replace('_', '/'));
        List<Claim> claims = List.of(token.toString(), mixed).stream().map(text -> Tokens.open(text.getBytes(StandardCharsets.US_ASCII), HeaderList.of(), profile,
                Message.REQUEST, keys, NOW_MS, TokenBuilder.RANDOM).claim()).toList();
        assertEquals(claims.get(0), claims.get(1));
    }

    @Test
    void keysAreChosenByNameAndNeverTried() throws Exception {
        Profile profile = Profile.mastercardJwe();
        OpeningKeys keys = OpeningKeys.of(opening(Alg.RSA_OAEP_256, "own"), OpeningKey.of(next.pem(), Alg.RSA_OAEP_256, KeyName.fixed("next")));
        for (Pair to : List.of(own, next)) {
            for (String kid : List.of("own", "next", "gone")) {
                SealingKey key = SealingKey.of(to.certified(), Alg.RSA_OAEP_256, Enc.A256GCM, KeyName.fixed(kid));
                byte[] body = Tokens.seal(new byte[] {'1'}, profile, Message.REQUEST, key, NOW_MS, TokenBuilder.RANDOM);
                if (kid.equals(to == own ? "own" : "next")) {
                    assertEquals("1", open(body, profile, Message.REQUEST, keys));
                } else {
                    Reason reason = assertThrows(MleException.class, () -> open(body, profile, Message.REQUEST, keys)).reason();
                    assertEquals(kid.equals("gone") ? Reason.KID : Reason.UNWRAP, reason);
                }
            }
        }
        Profile generic = Profile.genericJwe(List.of(Alg.RSA_OAEP_256), List.of(Enc.A256GCM), Unit.NONE).withOptionalKid();
        TokenBuilder builder = new TokenBuilder(Alg.RSA_OAEP_256, Enc.A256GCM, null, own.certificate().getPublicKey());
        byte[] nameless = builder.replacing(",\"kid\":\"own\"", "").getBytes(StandardCharsets.US_ASCII);
        assertEquals(TokenBuilder.TEXT, open(nameless, generic, Message.REQUEST, OpeningKeys.of(opening(Alg.RSA_OAEP_256, "own"))));
        assertThrows(MleException.class, () -> open(nameless, generic, Message.REQUEST, keys));
    }

    @Test
    void theNewestValidKeyOfARecipientSeals() throws Exception {
        SealingKey old = SealingKey.of(own.certified(), Alg.RSA_OAEP_256, Enc.A256GCM, KeyName.fixed("old"));
        SealingKey young = SealingKey.of(next.certified(), Alg.RSA_OAEP_256, Enc.A256GCM, KeyName.fixed("young"));
        SealingKey bare = SealingKey.of(own.certificate().getPublicKey().getEncoded(), Alg.RSA_OAEP_256, Enc.A256GCM, KeyName.fixed("bare"));
        long begin = next.certificate().getNotBefore().getTime();
        long end = own.certificate().getNotAfter().getTime();
        List<SealingKey> all = List.of(bare, young, old);
        assertEquals("old", SealingKey.newest(all, begin - 1).kid());
        assertEquals("young", SealingKey.newest(all, begin).kid());
        assertEquals("old", SealingKey.newest(List.of(bare, old), end + 999).kid());
        assertEquals("bare", SealingKey.newest(List.of(bare, old), end + 1000).kid());
        assertNull(SealingKey.newest(List.of(old), end + 1000));
    }

    @Test
    void theNameOfAKeyIsDerivedAsItsSchemeDoes() throws Exception {
        byte[] spki = Hashes.sha256(own.certificate().getPublicKey().getEncoded());
        byte[] whole = Hashes.sha256(own.certificate().getEncoded());
        Map<KeyName, String> names = Map.of(KeyName.SPKI_SHA256_HEX, HexFormat.of().formatHex(spki), KeyName.CERTIFICATE_SHA256_HEX, HexFormat.of().formatHex(whole),
                KeyName.CERTIFICATE_SHA256_BASE64, Base64.getEncoder().encodeToString(whole), KeyName.X5T_S256, Compact.encode(whole), KeyName.SUBJECT_SERIAL_NUMBER, "4711");
        for (Map.Entry<KeyName, String> name : names.entrySet()) {
            assertEquals(name.getValue(), SealingKey.of(own.certified(), Alg.RSA_OAEP_256, Enc.A256GCM, name.getKey()).kid());
            assertEquals(name.getValue(), OpeningKey.of(own.pem(), own.certified(), Alg.RSA_OAEP_256, name.getKey()).kid());
            if (name.getKey() != KeyName.SPKI_SHA256_HEX) {
                assertThrows(UsageException.class, () -> OpeningKey.of(own.pem(), Alg.RSA_OAEP_256, name.getKey()));
            }
        }
        assertThrows(UsageException.class, () -> SealingKey.of(next.certified(), Alg.RSA_OAEP_256, Enc.A256GCM, KeyName.SUBJECT_SERIAL_NUMBER));
        // The example of RFC 7638 section 3.1.
        String n = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArw"
                + "l93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRw"
                + "r3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw";
        byte[] key = spki(new BigInteger(1, Base64.getUrlDecoder().decode(n)), 65537);
        assertEquals("NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs", SealingKey.of(key, Alg.RSA_OAEP_256, Enc.A256GCM, KeyName.JWK_THUMBPRINT).kid());
    }

    private static byte[] spki(BigInteger n, long e) throws Exception {
        return KeyFactory.getInstance("RSA").generatePublic(new RSAPublicKeySpec(n, BigInteger.valueOf(e))).getEncoded();
    }

    private static void opens(String want, byte[] key) {
        UsageException wrong = assertThrows(UsageException.class, () -> OpeningKey.of(key, Alg.RSA_OAEP_256, KeyName.fixed("k")), want);
        assertTrue(wrong.getMessage().contains(want), wrong.getMessage());
    }

    private static void seals(String want, byte[] key) {
        UsageException wrong = assertThrows(UsageException.class, () -> SealingKey.of(key, Alg.RSA_OAEP_256, Enc.A256GCM, KeyName.fixed("k")), want);
        assertTrue(wrong.getMessage().contains(want), wrong.getMessage());
    }

    @Test
    void aKeyThatIsNotFitForUseIsNamed() throws Exception {
        byte[] pkcs8 = own.key().getEncoded();
        // The octets of a PKCS#8 key of RSA are its PKCS#1 form.
        byte[] pkcs1 = Arrays.copyOfRange(pkcs8, 26, pkcs8.length);
        for (byte[] right : List.of(own.pem(), pkcs8, pkcs1, text("RSA PRIVATE KEY", pkcs1), Bytes.join(own.certified(), own.pem()))) {
            assertNotNull(OpeningKey.of(right, Alg.RSA_OAEP_256, KeyName.fixed("k")));
        }
        KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
        generator.initialize(1024);
        KeyPairGenerator curve = KeyPairGenerator.getInstance("EC");
        opens("empty", new byte[0]);
        opens("65536", new byte[65537]);
        opens("no end", Arrays.copyOf(own.pem(), 600));
        opens("more than one block", Bytes.join(own.pem(), own.pem()));
        opens("encrypted", text("ENCRYPTED PRIVATE KEY", new byte[1]));
        opens("not an RSA key", text("EC PRIVATE KEY", new byte[1]));
        opens("the text holds none", own.certified());
        opens("no private RSA key", "secret".getBytes(StandardCharsets.US_ASCII));
        opens("no private RSA key", text("PRIVATE KEY", curve.generateKeyPair().getPrivate().getEncoded()));
        opens("1024 bits", generator.generateKeyPair().getPrivate().getEncoded());
        seals("holds a private key", own.pem());
        seals("no certificate and no public key", text("X509 CRL", new byte[1]));
        seals("neither a certificate", "secret".getBytes(StandardCharsets.US_ASCII));
        seals("neither a certificate", curve.generateKeyPair().getPublic().getEncoded());
        BigInteger product = BigInteger.TWO;
        for (int prime = 3; prime < 168; prime += 2) {
            product = BigInteger.valueOf(prime).isProbablePrime(20) ? product.multiply(BigInteger.valueOf(prime)) : product;
        }
        // A power of 65537 modulo each prime, as the flawed library made them.
        BigInteger roca = BigInteger.valueOf(65537).modPow(BigInteger.valueOf(12_345), product);
        while (roca.bitLength() < 2048) {
            roca = roca.add(product.shiftLeft(2047 - product.bitLength()));
        }
        seals("ROCA", spki(roca, 65537));
        assertThrows(UsageException.class, () -> OpeningKey.of(own.pem(), next.certified(), Alg.RSA_OAEP_256, KeyName.fixed("k")));
        assertThrows(UsageException.class, () -> OpeningKeys.of(opening(Alg.RSA_OAEP_256, "k"), opening(Alg.RSA_OAEP, "k")));
        assertThrows(UsageException.class, () -> OpeningKeys.of());
        for (String name : List.of("", "k".repeat(257), "\ud800")) {
            assertThrows(UsageException.class, () -> opening(Alg.RSA_OAEP, name));
        }
        assertThrows(UsageException.class, () -> Profile.visa().withOptionalKid());
        assertThrows(UsageException.class, () -> Alg.of("RSA1_5"));
        assertEquals("OpeningKey[k, RSA-OAEP]", opening(Alg.RSA_OAEP, "k").toString());
    }
}
