package dev.sealway.mle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.mle.MleException.Reason;
import dev.sealway.mle.Profile.Unit;
import dev.sealway.session.Fresh;
import dev.sealway.session.Unreplayed;
import dev.sealway.wire.HeaderList;
import java.nio.charset.StandardCharsets;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Wrong tokens, each with the class for which it must be rejected. */
class WrongTokensTest {
    static final long NOW_MS = 1_790_000_000_000L;
    private static final String ZEROS = "A".repeat(43);
    private static KeyPair own;
    private static KeyPair other;

    @BeforeAll
    static void draw() throws Exception {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
        generator.initialize(2048);
        own = generator.generateKeyPair();
        other = generator.generateKeyPair();
    }

    private record Wrong(String name, String token, Reason reason) {
    }

    private final List<Wrong> cases = new ArrayList<>();
    private TokenBuilder good;

    private void add(Reason reason, String name, String token) {
        cases.add(new Wrong(name, token, reason));
    }

    static OpeningKeys keys(Alg alg) {
        return OpeningKeys.of(OpeningKey.of(own.getPrivate().getEncoded(), alg, KeyName.fixed("own")));
    }

    static String open(String body, Profile profile, Message message, OpeningKeys keys, long nowMs) {
        Unreplayed<Plaintext> guarded = Tokens.open(body.getBytes(StandardCharsets.UTF_8), HeaderList.of(), profile, message, keys, nowMs, TokenBuilder.RANDOM);
        return new String(guarded.release(Fresh.granted(guarded.claim())).bytes(), StandardCharsets.UTF_8);
    }

    private void forms() {
        TokenBuilder.Parts token = good.token();
        String text = token.toString();
        String[] parts = text.split("\\.", -1);
        add(Reason.SHAPE, "nothing", "");
        add(Reason.SHAPE, "three parts", String.join(".", Arrays.copyOf(parts, 3)));
        add(Reason.SHAPE, "four parts", String.join(".", Arrays.copyOf(parts, 4)));
        add(Reason.SHAPE, "six parts", text + "." + parts[4]);
        add(Reason.SHAPE, "a dot at the start", "." + text);
        add(Reason.SHAPE, "a million dots", ".".repeat(1_000_000));
        add(Reason.HEADER, "empty parts", "....");
        add(Reason.SHAPE, "two tokens", text + " " + text);
        add(Reason.SIZE, "longer than the bound", text + "A".repeat(Profile.TOKEN_MAX_BYTES));
        add(Reason.SIZE, "a header of 4 KiB and a byte", good.of("{" + good.header + "}" + " ".repeat(4097 - good.header.length() - 2)).toString());
        add(Reason.SIZE, "a header of 1 MiB", good.adding("\"pad\":\"" + "p".repeat(1 << 20) + "\""));
        add(Reason.SHAPE, "encrypted key absent", token.with(1, key -> new byte[0]));
        add(Reason.SHAPE, "encrypted key one byte short", token.with(1, key -> Arrays.copyOf(key, 255)));
        add(Reason.SHAPE, "encrypted key one byte long", token.with(1, key -> Arrays.copyOf(key, 257)));
        for (int at = 0; at < 5; at++) {
            for (String tail : List.of("=", "==", "\n", "\r\n", "\0", "*", "%2B", "é")) {
                add(Reason.BASE64, "a tail of part " + at, token.text(at, part -> part + tail));
            }
            add(Reason.BASE64, "a space before part " + at, token.text(at, part -> " " + part));
            add(Reason.BASE64, "a line end within part " + at, token.text(at, part -> part.substring(0, 4) + "\n" + part.substring(4)));
            if (token.parts()[at].length % 3 != 0) {
                add(Reason.BASE64, "bits behind the last byte of part " + at,
                        token.text(at, part -> part.substring(0, part.length() - 1) + (char) (part.charAt(part.length() - 1) + 1)));
            }
        }
    }

    private void headers() {
        String json = "{" + good.header + "}";
        for (String wrong : List.of("", "[" + json + "]", "\"header\"", json.substring(1), json + "x", json + json, json + "\0", "\ufeff" + json,
                "{" + good.header + ",}", "{" + good.header + "/**/}", json.replace('"', '\''))) {
            add(Reason.HEADER, "the header " + wrong, good.of(wrong).toString());
        }
        add(Reason.ALG, "an empty object", good.of("{}").toString());
        for (String member : List.of("\"alg\":\"RSA-OAEP-256\"", "\"\\u0061lg\":\"RSA-OAEP-256\"", "\"enc\":\"A256GCM\"", "\"x\":1,\"x\":1", "\"typ\":1",
                "\"cty\":{}", "\"x\":\"\\ud800\"", "\"x\":" + "[".repeat(64) + "]".repeat(64), "\"x\":01")) {
            add(Reason.HEADER, member, good.adding(member));
        }
        for (String member : List.of("\"zip\":\"DEF\"", "\"zip\":null")) {
            add(Reason.ZIP, member, good.adding(member));
        }
        for (String member : List.of("\"crit\":[]", "\"crit\":[\"alg\"]", "\"b64\":false")) {
            add(Reason.CRIT, member, good.adding(member));
        }
        for (String member : List.of("\"jku\":\"http://169.254.169.254/\"", "\"x5u\":\"file:///etc/passwd\"", "\"jwk\":{}", "\"x5c\":[]", "\"x5t\":\"AAAA\"",
                "\"epk\":{}", "\"apu\":\"QQ\"", "\"apv\":\"QQ\"", "\"p2c\":2147483648", "\"p2s\":\"QQ\"", "\"iv\":\"AAAA\"", "\"tag\":\"AAAA\"",
                "\"x5t#S256\":\"" + ZEROS + "\"", "\"x5t#S256\":\"AAAA\"", "\"x5t#S256\":\"\"", "\"x5t#S256\":\"=\"", "\"x5t#S256\":1")) {
            add(Reason.PARAM, member, good.adding(member));
        }
    }

    private void algorithms(Profile profile) {
        String alg = "\"alg\":\"" + good.alg.text() + "\"";
        for (String name : List.of("\"none\"", "\"NONE\"", "\"RSA1_5\"", "\"rsa-oaep-256\"", "\"RSA-OAEP-512\"", "\"dir\"", "\"A128KW\"", "\"A256GCMKW\"",
                "\"ECDH-ES+A128KW\"", "\"PBES2-HS512+A256KW\"", "\"HS256\"", "\"\"", "null", "1", "[\"RSA-OAEP-256\"]", "\"RSA-OAEP-256\\u0000\"")) {
            add(Reason.ALG, "alg " + name, good.replacing(alg, "\"alg\":" + name));
        }
        String epk = "\"alg\":\"ECDH-ES\",\"epk\":{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" + ZEROS + "\",\"y\":\"" + ZEROS + "\"}";
        add(Reason.ALG, "ECDH-ES", good.replacing(alg, epk));
        add(Reason.EPK, "ECDH-ES without epk", good.replacing(alg, "\"alg\":\"ECDH-ES\""));
        add(Reason.EPK, "ECDH-ES on P-384", good.replacing(alg, epk.replace("P-256", "P-384")));
        add(Reason.EPK, "ECDH-ES with a private epk", good.replacing(alg, epk.replace("\"kty\"", "\"d\":\"AA\",\"kty\"")));
        add(Reason.EPK, "ECDH-ES with a short coordinate", good.replacing(alg, epk.replace(ZEROS, "AAAA")));
        add(Reason.ALG, "no alg", good.replacing(alg + ",", ""));
        String enc = "\"enc\":\"" + good.enc.text() + "\"";
        for (String name : List.of("\"none\"", "\"a256gcm\"", "\"A256CBC\"", "\"\"", "null", "256", "[\"A256GCM\"]")) {
            add(Reason.ENC, "enc " + name, good.replacing(enc, "\"enc\":" + name));
        }
        for (Enc outside : Enc.values()) {
            if (!profile.allows(Message.REQUEST, good.alg, outside)) {
                add(Reason.ENC, "enc outside of the profile: " + outside, good.with(b -> {
                    b.enc = outside;
                    b.cek = new byte[outside.cekLen];
                    b.iv = new byte[outside.ivLen];
                    b.header = b.header.replace(enc, "\"enc\":\"" + outside.text() + "\"");
                }));
            }
        }
        for (String kid : List.of("\"\"", "\"unknown\"", "\"OWN\"", "\"own \"", "7", "\"own\\u0000\"", "null", "[\"own\"]", "\"../../etc/passwd\"",
                "\"" + "k".repeat(257) + "\"")) {
            add(Reason.KID, "kid " + kid, good.replacing("\"kid\":\"own\"", "\"kid\":" + kid));
        }
        add(Reason.KID, "no kid", good.replacing(",\"kid\":\"own\"", ""));
    }

    private void times(Profile profile) {
        if (profile.iat() == Unit.NONE) {
            return;
        }
        boolean isSeconds = profile.iat() == Unit.SECONDS;
        long now = isSeconds ? NOW_MS / 1000 : NOW_MS;
        long window = isSeconds ? 301 : 300_001;
        String iat = "\"iat\":" + now;
        add(Reason.IAT, "no iat", good.replacing("," + iat, ""));
        add(Reason.HEADER, "iat twice", good.adding(iat));
        for (String value : List.of("\"" + now + "\"", now + ".0", now + "e0", "-" + now, "1e400", "-0", "null", "true", "[" + now + "]", "18446744073709551616",
                "18446744073709551615", "0", String.valueOf(isSeconds ? NOW_MS : NOW_MS / 1000), String.valueOf(now - window), String.valueOf(now + window))) {
            add(Reason.IAT, "iat " + value, good.replacing(iat, "\"iat\":" + value));
        }
    }

    private void contents(Profile profile) {
        TokenBuilder.Parts token = good.token();
        for (int length : new int[] {0, 1, 8, 11, 13, 15, 17, 24, 96}) {
            add(Reason.IV, "IV of " + length, token.with(2, iv -> new byte[length]));
        }
        for (int length : new int[] {0, 1, 4, 8, 12, 15, 17, 33}) {
            add(Reason.TAG, "tag of " + length, token.with(4, tag -> new byte[length]));
        }
        if (!profile.allowsLongIv() && good.enc.isGcm()) {
            add(Reason.IV, "IV of 16 with a right tag", good.with(b -> b.iv = new byte[16]));
        }
        for (int length : new int[] {0, 1, good.enc.cekLen - 1, good.enc.cekLen + 1, good.enc.cekLen / 2, good.enc.cekLen + 16}) {
            add(Reason.UNWRAP, "content key of " + length, good.with(b -> b.cek = new byte[length]));
        }
        add(Reason.UNWRAP, "encrypted key of zeros", token.with(1, key -> new byte[256]));
        add(Reason.UNWRAP, "encrypted key beyond the modulus", token.with(1, key -> {
            Arrays.fill(key, (byte) 0xff);
            return key;
        }));
        add(Reason.UNWRAP, "another recipient", good.with(b -> b.recipient = other.getPublic()));
        add(Reason.UNWRAP, "PKCS#1 padding", good.with(b -> b.isPkcs1 = true));
        add(Reason.UNWRAP, "OAEP with another hash", good.with(b -> b.alg = b.alg == Alg.RSA_OAEP ? Alg.RSA_OAEP_256 : Alg.RSA_OAEP));
        String header = "{" + good.header + "}";
        add(Reason.TAG, "tag of zeros", token.with(4, tag -> new byte[tag.length]));
        add(Reason.TAG, "ciphertext absent", token.with(3, data -> new byte[0]));
        add(Reason.TAG, "ciphertext cut", token.with(3, data -> Arrays.copyOf(data, data.length - 1)));
        add(Reason.TAG, "ciphertext longer", token.with(3, data -> Arrays.copyOf(data, data.length + 1)));
        add(Reason.TAG, "IV of zeros", token.with(2, iv -> new byte[iv.length]));
        add(Reason.TAG, "additional data decoded", good.over(header, header.getBytes(StandardCharsets.UTF_8)).toString());
        add(Reason.TAG, "additional data absent", good.over(header, new byte[0]).toString());
        add(Reason.TAG, "header with a space more", token.with(0, data -> {
            byte[] longer = Arrays.copyOf(data, data.length + 1);
            longer[data.length] = ' ';
            return longer;
        }));
    }

    private void play(Profile of, Alg alg, Enc enc) {
        Profile profile = of.withMembers(null, null);
        String iat = switch (profile.iat()) {
            case NONE -> null;
            case SECONDS -> String.valueOf(NOW_MS / 1000);
            case MILLISECONDS -> String.valueOf(NOW_MS);
        };
        good = new TokenBuilder(alg, enc, iat, own.getPublic());
        OpeningKeys keys = keys(alg);
        assertEquals(TokenBuilder.TEXT, open(good.token().toString(), profile, Message.REQUEST, keys, NOW_MS));
        forms();
        headers();
        algorithms(profile);
        times(profile);
        contents(profile);
        assertTrue(cases.size() > 120, "only " + cases.size());
        for (Wrong wrong : cases) {
            MleException refused = assertThrows(MleException.class, () -> open(wrong.token(), profile, Message.REQUEST, keys, NOW_MS), wrong.name());
            assertEquals(wrong.reason(), refused.reason(), wrong.name() + ": " + refused.getMessage());
            assertFalse(refused.getMessage().contains("4111111111111111") || refused.getMessage().length() > 500 || refused.getMessage().matches("(?s).*[\\n\\x00].*"),
                    refused.getMessage());
        }
        cases.clear();
    }

    @Test
    void wrongTokensAreRejectedForTheirClassOnEveryProfile() {
        play(Profile.mastercardJwe(), Alg.RSA_OAEP_256, Enc.A256GCM);
        play(Profile.visa(), Alg.RSA_OAEP_256, Enc.A128GCM);
        play(Profile.visaAcceptance(), Alg.RSA_OAEP_256, Enc.A256GCM);
        play(Profile.genericJwe(List.of(Alg.RSA_OAEP, Alg.RSA_OAEP_256), List.of(Enc.A192CBC_HS384), Unit.SECONDS), Alg.RSA_OAEP, Enc.A192CBC_HS384);
    }

    private static boolean isRejected(String token, Profile profile, OpeningKeys keys) {
        try {
            open(token, profile, Message.REQUEST, keys, NOW_MS);
            return false;
        } catch (MleException refused) {
            return true;
        }
    }

    @Test
    void eachBitOfATokenCounts() {
        Profile profile = Profile.mastercardJwe().withMembers(null, null);
        OpeningKeys keys = keys(Alg.RSA_OAEP_256);
        good = new TokenBuilder(Alg.RSA_OAEP_256, Enc.A256GCM, null, own.getPublic());
        good.plaintext = new byte[] {'{', '}'};
        byte[] token = good.token().toString().getBytes(StandardCharsets.US_ASCII);
        int keyBegins = new String(token, StandardCharsets.US_ASCII).indexOf('.');
        for (int bit = 0; bit < token.length * 8; bit++) {
            int inKey = bit / 8 - keyBegins;
            // Each bit but of the encrypted key, where one of each letter has to do: each costs a private operation.
            if (inKey > 0 && inKey <= 342 && bit % 8 != inKey % 8) {
                continue;
            }
            byte[] flipped = token.clone();
            flipped[bit / 8] ^= (byte) (1 << bit % 8);
            String text = new String(flipped, StandardCharsets.ISO_8859_1);
            // In this profile another spelling of a letter is the same token.
            boolean isSame = text.replace('+', '-').replace('/', '_').equals(new String(token, StandardCharsets.US_ASCII));
            assertEquals(!isSame, isRejected(text, profile, keys), "bit " + bit);
        }
        good = new TokenBuilder(Alg.RSA_OAEP_256, Enc.A128CBC_HS256, null, own.getPublic());
        TokenBuilder.Parts parts = good.token();
        for (int part = 2; part < 5; part++) {
            for (int at = 0; at < parts.parts()[part].length; at++) {
                int place = at;
                assertTrue(isRejected(parts.with(part, data -> {
                    data[place] ^= (byte) (1 << place % 8);
                    return data;
                }), profile, keys), "byte " + at + " of part " + part);
            }
        }
    }

    @Test
    void whatABodyHoldsBesideItsTokenIsRejected() {
        OpeningKeys keys = keys(Alg.RSA_OAEP_256);
        String token = new TokenBuilder(Alg.RSA_OAEP_256, Enc.A256GCM, null, own.getPublic()).token().toString();
        String body = "{\"encryptedData\":\"" + token + "\"}";
        for (String right : List.of(body, " " + body + "\n", body.replace(".", "\\u002e"), body.replace("encrypted", "\\u0065ncrypted"))) {
            assertEquals(TokenBuilder.TEXT, open(right, Profile.mastercardJwe(), Message.REQUEST, keys, NOW_MS));
        }
        Map<String, String> wrong = Map.of("the token alone", token, "nothing", "", "an empty object", "{}", "two members", body.replace("}", ",\"pan\":\"4111\"}"),
                "the member twice", body.replace("}", ",\"encryptedData\":\"x\"}"), "another member", body.replace("encryptedData", "encData"),
                "an array", "[" + body + "]", "bytes behind it", body + "x", "a byte order mark", "\ufeff" + body, "no string", "{\"encryptedData\":[1]}");
        wrong.forEach((name, text) -> assertEquals(Reason.JSON,
                assertThrows(MleException.class, () -> open(text, Profile.mastercardJwe(), Message.REQUEST, keys, NOW_MS), name).reason(), name));
    }
}
