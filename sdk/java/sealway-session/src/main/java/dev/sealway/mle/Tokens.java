package dev.sealway.mle;

import dev.sealway.crypto.Hashes;
import dev.sealway.mle.MleException.Reason;
import dev.sealway.mle.Profile.Unit;
import dev.sealway.session.Claim;
import dev.sealway.session.Unreplayed;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.Json;
import dev.sealway.wire.UsageException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Locale;
import java.util.Set;
import javax.crypto.Cipher;

/** Opens and seals messages. {@code spec/mle.md#opening}. */
public final class Tokens {
    /** Tells the claim of a token apart from those of sessions, which have 1 to 4. */
    private static final byte FINGERPRINT_DOMAIN = 5;
    /** Below this number of milliseconds a sender counts seconds. */
    private static final BigInteger MILLISECONDS_MIN = BigInteger.valueOf(100_000_000_000L);
    /** The length of the IV that Mastercard's libraries send with AES-GCM, against RFC 7518 section 5.3. */
    private static final int LONG_IV = 16;
    /** The header in which Visa's clients repeat the kid. */
    private static final String KEY_ID = "keyId";
    /** Media types of a body that is a token. The second is registered for the JSON form of JOSE; Wise uses it for the compact one, and UK Open
     * Banking the third. */
    private static final Set<String> BARE = Set.of("application/jose", "application/jose+json", "application/jose+jwe");

    private Tokens() {
    }

    /** Returns true if a message has the form of the profile: the one member in its body, or the media type of a bare token. */
    public static boolean isToken(Profile profile, Message message, HeaderList headers, byte[] body) {
        String member = profile.side(message).member();
        if (member == null) {
            String type = headers.first("content-type");
            return type != null && BARE.contains(type.split(";", 2)[0].strip().toLowerCase(Locale.ROOT));
        }
        try {
            Compact.unwrap(body, member);
            return true;
        } catch (MleException other) {
            return false;
        }
    }

    /** Opens a message. Its plaintext is out of reach until the claim is granted by a store; for an answer, which belongs to its request's
     * connection, and where replays are allowed, {@code Fresh.granted} releases it.
     *
     * @param body the token, or the object with the token as its sole member
     * @param headers of the message; a {@code keyId} in a request must equal the kid
     * @param nowMs milliseconds of the epoch
     * @param random draws the content key that takes the place of one that does not decrypt
     * @throws MleException for a wrong message */
    public static Unreplayed<Plaintext> open(byte[] body, HeaderList headers, Profile profile, Message message, OpeningKeys keys, long nowMs,
            SecureRandom random) {
        byte[] token = Compact.unwrap(body, profile.side(message).member());
        if (token.length > profile.tokenMaxBytes()) {
            throw new MleException(Reason.SIZE, "the token has " + token.length + " bytes");
        }
        byte[][] parts = Compact.split(token);
        if (parts[0].length > (JoseHeader.MAX * 4 + 2) / 3) {
            throw new MleException(Reason.SIZE, "the header is longer than 4096 bytes");
        }
        byte[][] decoded = new byte[parts.length][];
        decoded[0] = Compact.part(parts[0], profile);
        JoseHeader header = JoseHeader.parse(decoded[0]);
        OpeningKey key = find(header, profile, message, keys);
        if (message == Message.REQUEST) {
            for (Header told : headers) {
                if (told.name().equalsIgnoreCase(KEY_ID) && !told.value().equals(key.kid())) {
                    throw new MleException(Reason.KID, "the header keyId is not the kid of the token");
                }
            }
        }
        long stampMs = stamp(header.iat(), profile, message, nowMs);
        for (int at = 1; at < parts.length; at++) {
            decoded[at] = Compact.part(parts[at], profile);
        }
        checkLengths(header.enc(), key, profile, decoded);
        byte[] plaintext = decrypt(header.enc(), key, parts[0], decoded, random);
        long windowMs = profile.replay().windowMs();
        Claim claim = new Claim(fingerprint(decoded), false, stampMs, windowMs, nowMs + 2 * windowMs + 1);
        return new Unreplayed<>(new Plaintext(plaintext, key.kid(), header.enc()), claim);
    }

    /** Checks the algorithms and returns the one key that the token may be opened with. Keys are never tried. */
    private static OpeningKey find(JoseHeader header, Profile profile, Message message, OpeningKeys keys) {
        Profile.Side side = profile.side(message);
        if (side.algs().stream().noneMatch(alg -> alg.text().equals(header.alg()))) {
            throw new MleException(Reason.ALG, "the profile does not allow this alg: " + header.alg());
        }
        if (!side.encs().contains(header.enc())) {
            throw new MleException(Reason.ENC, "the profile does not allow this enc: " + header.enc().text());
        }
        if (header.kid() == null && !profile.allowsNoKid()) {
            throw new MleException(Reason.KID, "kid is absent");
        }
        OpeningKey key = header.kid() == null ? keys.sole() : keys.get(header.kid());
        if (key == null) {
            throw new MleException(Reason.KID, header.kid() == null ? "kid is absent, and not exactly one key is live"
                    : "no live key has this kid: " + MleException.quote(header.kid()));
        }
        if (!key.alg().text().equals(header.alg())) {
            throw new MleException(Reason.ALG, "the key has another algorithm than alg: " + header.alg());
        }
        if (header.x5t() != null && !Arrays.equals(header.x5t(), key.certificateHash())) {
            throw new MleException(Reason.PARAM, "x5t#S256 is not the hash of the key's certificate");
        }
        return key;
    }

    /** Checks {@code iat} and returns the stamp of the claim. Without a time in the token it is half of the window ahead: no restart's floor covers
     * it, so that a store makes the claim durable. */
    private static long stamp(BigInteger iat, Profile profile, Message message, long nowMs) {
        long windowMs = profile.replay().windowMs();
        if (profile.iat() == Unit.NONE || iat == null) {
            if (profile.iat() != Unit.NONE && profile.side(message).requiresIat()) {
                throw new MleException(Reason.IAT, "iat is absent");
            }
            return nowMs + windowMs / 2;
        }
        boolean isMilliseconds = iat.compareTo(MILLISECONDS_MIN) >= 0;
        if (isMilliseconds != (profile.iat() == Unit.MILLISECONDS)) {
            throw new MleException(Reason.IAT, isMilliseconds ? "iat is in milliseconds, and the profile has seconds"
                    : "iat is in seconds, and the profile has milliseconds");
        }
        BigInteger iatMs = isMilliseconds ? iat : iat.multiply(BigInteger.valueOf(1000));
        BigInteger ahead = iatMs.subtract(BigInteger.valueOf(nowMs));
        if (ahead.abs().compareTo(BigInteger.valueOf(windowMs)) > 0) {
            throw new MleException(Reason.IAT, "iat is " + ahead.abs() + " ms " + (ahead.signum() < 0 ? "behind" : "ahead of")
                    + " the clock, outside of the window");
        }
        return iatMs.longValueExact();
    }

    private static void checkLengths(Enc enc, OpeningKey key, Profile profile, byte[][] parts) {
        if (parts[1].length != key.modulusLen()) {
            throw new MleException(Reason.SHAPE, "the encrypted key has " + parts[1].length + " bytes, and " + key.modulusLen() + " are due");
        }
        int iv = parts[2].length;
        if (iv != enc.ivLen && !(profile.allowsLongIv() && enc.isGcm() && iv == LONG_IV)) {
            throw new MleException(Reason.IV, "the IV has " + iv + " bytes");
        }
        if (parts[4].length != enc.tagLen) {
            throw new MleException(Reason.TAG, "the tag has " + parts[4].length + " bytes, and " + enc.tagLen + " are due");
        }
    }

    /** Performs the private operation and opens the content. If the operation fails, or its result has a wrong length, the same work is done with
     * a random key (RFC 7516 section 11.5); it is drawn for every token, so that the work does not show whether it was needed. */
    private static byte[] decrypt(Enc enc, OpeningKey key, byte[] aad, byte[][] parts, SecureRandom random) {
        byte[] cek = new byte[enc.cekLen];
        random.nextBytes(cek);
        byte[] found = key.unwrap(parts[1], random);
        boolean isRight = found.length == cek.length;
        if (isRight) {
            System.arraycopy(found, 0, cek, 0, cek.length);
        }
        byte[] plaintext = null;
        try {
            plaintext = enc.open(cek, parts[2], aad, parts[3], parts[4]);
        } catch (GeneralSecurityException unsealable) {
            // Its text says how far the work came.
            plaintext = null;
        } finally {
            Arrays.fill(cek, (byte) 0);
            Arrays.fill(found, (byte) 0);
        }
        if (!isRight) {
            throw new MleException(Reason.UNWRAP, "the encrypted key did not decrypt to a key of the right length");
        }
        if (plaintext == null) {
            throw new MleException(Reason.TAG, "the tag does not verify");
        }
        return plaintext;
    }

    /** Of the decoded parts, so that another spelling of a token is the same token. */
    private static String fingerprint(byte[][] parts) {
        byte[][] input = new byte[2 * parts.length + 1][];
        input[0] = new byte[] {FINGERPRINT_DOMAIN};
        for (int at = 0; at < parts.length; at++) {
            input[2 * at + 1] = ByteBuffer.allocate(Long.BYTES).putLong(parts[at].length).array();
            input[2 * at + 2] = parts[at];
        }
        return HexFormat.of().formatHex(Hashes.sha256(input), 0, 16);
    }

    /** Seals a plaintext to one recipient and returns the body. {@code spec/mle.md#sealing}.
     *
     * @param nowMs milliseconds of the epoch
     * @param random draws the content key and the IV
     * @throws UsageException if the profile does not allow the key's algorithms in this direction */
    public static byte[] seal(byte[] plaintext, Profile profile, Message message, SealingKey key, long nowMs, SecureRandom random) {
        Enc enc = key.enc();
        if (!profile.allows(message, key.alg(), enc)) {
            throw new UsageException("the profile " + profile.name() + " does not allow " + key.alg().text() + " with " + enc.text() + " in this direction");
        }
        byte[] cek = new byte[enc.cekLen];
        byte[] iv = new byte[enc.ivLen];
        random.nextBytes(cek);
        random.nextBytes(iv);
        try {
            String header = Compact.encode(header(profile, message, key, nowMs).getBytes(StandardCharsets.UTF_8));
            byte[] encrypted = key.alg().run(Cipher.ENCRYPT_MODE, key.key(), cek, random);
            byte[][] content = enc.seal(cek, iv, header.getBytes(StandardCharsets.US_ASCII), plaintext);
            String token = String.join(".", header, Compact.encode(encrypted), Compact.encode(iv), Compact.encode(content[0]), Compact.encode(content[1]));
            return Compact.wrap(token, profile.side(message).member());
        } catch (GeneralSecurityException failed) {
            throw new UsageException("the platform's cryptography cannot seal with this key", failed);
        } finally {
            Arrays.fill(cek, (byte) 0);
        }
    }

    private static String header(Profile profile, Message message, SealingKey key, long nowMs) {
        String cty = profile.side(message).cty();
        return "{\"alg\":\"" + key.alg().text() + "\",\"enc\":\"" + key.enc().text() + "\",\"kid\":" + Json.write(key.kid())
                + (cty == null ? "" : ",\"cty\":" + Json.write(cty)) + switch (profile.iat()) {
                    case NONE -> "";
                    case SECONDS -> ",\"iat\":" + nowMs / 1000;
                    case MILLISECONDS -> ",\"iat\":" + nowMs;
                } + "}";
    }
}
