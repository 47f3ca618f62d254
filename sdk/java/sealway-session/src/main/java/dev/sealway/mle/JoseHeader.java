package dev.sealway.mle;

import dev.sealway.mle.MleException.Reason;
import dev.sealway.wire.Json;
import dev.sealway.wire.JsonNumber;
import dev.sealway.wire.ProtocolException;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

/** A protected header. {@code typ}, {@code cty} and unknown parameters decide nothing and are not kept. {@code spec/mle.md#header}.
 *
 * @param alg as it is named, one of the specification's list
 * @param kid or null
 * @param iat in the unit of the profile, or null
 * @param x5t the hash of {@code x5t#S256}, or null */
record JoseHeader(String alg, Enc enc, String kid, BigInteger iat, byte[] x5t) {
    /** Largest header, in bytes of its JSON. */
    static final int MAX = 4096;
    private static final int KID_MAX = 256;
    private static final String ECDH_ES = "ECDH-ES";
    /** Names that a header may have. For those beside RSA's no key can be loaded. */
    private static final List<String> ALGS = List.of("RSA-OAEP-256", "RSA-OAEP", ECDH_ES, "dir", "A128KW", "A256KW");
    /** Parameters that bring key material or name a place to fetch it. */
    private static final List<String> KEYS = List.of("jku", "jwk", "x5u", "x5c", "x5t");
    /** Parameters of ECDH-ES alone (RFC 7518 section 4.6.1). */
    private static final List<String> AGREEMENT = List.of("epk", "apu", "apv");
    /** Parameters of algorithms that do not exist here. */
    private static final List<String> FOREIGN = List.of("iv", "tag", "p2s", "p2c");
    private static final BigInteger IAT_MAX = BigInteger.ONE.shiftLeft(64);

    static JoseHeader parse(byte[] json) {
        if (json.length > MAX) {
            throw new MleException(Reason.SIZE, "the header is longer than 4096 bytes");
        }
        Map<String, Object> members;
        try {
            members = Json.uniqueMembers(json);
        } catch (ProtocolException malformed) {
            throw new MleException(Reason.HEADER, "the header is not one JSON object in UTF-8, without duplicates, nested at most 64 deep");
        }
        reject(members, List.of("crit", "b64"), Reason.CRIT, "the profile has no such parameter: ");
        reject(members, List.of("zip"), Reason.ZIP, "compressed content is not opened: ");
        reject(members, KEYS, Reason.PARAM, "a token may not bring or name key material: ");
        String alg = text(members, "alg", Reason.ALG);
        if (!ALGS.contains(String.valueOf(alg))) {
            throw new MleException(Reason.ALG, "alg is not supported: " + MleException.quote(String.valueOf(alg)));
        }
        Enc enc = enc(text(members, "enc", Reason.ENC));
        if (!alg.equals(ECDH_ES)) {
            reject(members, AGREEMENT, Reason.PARAM, "a parameter does not belong to alg: ");
        }
        reject(members, FOREIGN, Reason.PARAM, "a parameter does not belong to alg: ");
        text(members, "typ", Reason.HEADER);
        text(members, "cty", Reason.HEADER);
        if (alg.equals(ECDH_ES)) {
            checkEphemeral(members);
        }
        return new JoseHeader(alg, enc, kid(members), iat(members), x5t(members));
    }

    private static void reject(Map<String, Object> members, List<String> names, Reason reason, String detail) {
        for (String name : names) {
            if (members.containsKey(name)) {
                throw new MleException(reason, detail + name);
            }
        }
    }

    /** Returns a member that must be a string if it is there; null if it is not. */
    private static String text(Map<?, ?> members, String name, Reason reason) {
        if (!members.containsKey(name)) {
            return null;
        }
        if (members.get(name) instanceof String text) {
            return text;
        }
        throw new MleException(reason, "a parameter is not a string: " + name);
    }

    /** Returns a member that must be base64url if it is there; null if it is not. */
    private static byte[] bytes(Map<?, ?> members, String name, Reason reason) {
        String text = text(members, name, reason);
        byte[] data = text == null ? null : Compact.decode(text.getBytes(StandardCharsets.UTF_8), false);
        if (text != null && data == null) {
            throw new MleException(reason, "a parameter is not base64url: " + name);
        }
        return data;
    }

    private static Enc enc(String name) {
        for (Enc enc : Enc.values()) {
            if (enc.text().equals(name)) {
                return enc;
            }
        }
        throw new MleException(Reason.ENC, "enc is not supported: " + MleException.quote(String.valueOf(name)));
    }

    private static String kid(Map<String, Object> members) {
        String kid = text(members, "kid", Reason.KID);
        if (kid != null && (kid.isEmpty() || kid.getBytes(StandardCharsets.UTF_8).length > KID_MAX)) {
            throw new MleException(Reason.KID, "kid is empty or longer than 256 bytes");
        }
        return kid;
    }

    /** Reads digits alone: a sign, fraction, exponent or string has two readings. */
    private static BigInteger iat(Map<String, Object> members) {
        if (!members.containsKey("iat")) {
            return null;
        }
        Object value = members.get("iat");
        if (value instanceof JsonNumber number && number.text().length() <= 20 && number.text().chars().allMatch(c -> c >= '0' && c <= '9')) {
            BigInteger whole = new BigInteger(number.text());
            if (whole.compareTo(IAT_MAX) < 0) {
                return whole;
            }
        }
        String shown = value instanceof JsonNumber number ? number.text() : value instanceof String text ? text : "no number";
        throw new MleException(Reason.IAT, "iat is not a whole number below 2^64: " + MleException.quote(shown));
    }

    private static byte[] x5t(Map<String, Object> members) {
        byte[] hash = bytes(members, "x5t#S256", Reason.PARAM);
        if (hash != null && hash.length != 32) {
            throw new MleException(Reason.PARAM, "x5t#S256 is not 32 bytes");
        }
        return hash;
    }

    /** Checks the form of an ephemeral key on P-256, so that the log says what is wrong with a token that no key here opens. */
    private static void checkEphemeral(Map<String, Object> members) {
        if (!(members.get("epk") instanceof Map<?, ?> point)) {
            throw new MleException(Reason.EPK, "epk is absent, or no object");
        }
        if (!"EC".equals(point.get("kty")) || !"P-256".equals(point.get("crv")) || point.containsKey("d")) {
            throw new MleException(Reason.EPK, "epk is not a public key on P-256");
        }
        for (String name : List.of("x", "y")) {
            byte[] coordinate = bytes(point, name, Reason.EPK);
            if (coordinate == null || coordinate.length != 32) {
                throw new MleException(Reason.EPK, "a coordinate of epk is not 32 bytes");
            }
        }
        bytes(members, "apu", Reason.EPK);
        bytes(members, "apv", Reason.EPK);
    }
}
