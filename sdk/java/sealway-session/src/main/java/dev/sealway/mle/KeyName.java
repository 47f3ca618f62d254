package dev.sealway.mle;

import dev.sealway.crypto.Hashes;
import dev.sealway.wire.Options;
import dev.sealway.wire.UsageException;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;

/** The name of a key in tokens ({@code kid}): a fixed text, or its derivation. Each scheme has its own, so it is chosen and never guessed.
 * {@code spec/mle.md#kid}. */
public final class KeyName {
    /** Lower-case hexadecimal SHA-256 of the SubjectPublicKeyInfo: Mastercard. */
    public static final KeyName SPKI_SHA256_HEX = new KeyName(key -> hex(key.spki()));
    /** Lower-case hexadecimal SHA-256 of the certificate: Mastercard's library for Node, by option. */
    public static final KeyName CERTIFICATE_SHA256_HEX = new KeyName(key -> hex(key.certified()));
    /** Padded base64 of the SHA-256 of the certificate: Mastercard's library for Node, by option. */
    public static final KeyName CERTIFICATE_SHA256_BASE64 = new KeyName(key -> Base64.getEncoder().encodeToString(Hashes.sha256(key.certified())));
    /** base64url of the SHA-256 of the certificate (RFC 7515 section 4.1.8). */
    public static final KeyName X5T_S256 = new KeyName(key -> Compact.encode(Hashes.sha256(key.certified())));
    /** The attribute serialNumber of the certificate's subject: Visa Acceptance. */
    public static final KeyName SUBJECT_SERIAL_NUMBER = new KeyName(KeyName::serialNumber);
    /** Thumbprint of RFC 7638 with SHA-256. */
    public static final KeyName JWK_THUMBPRINT = new KeyName(KeyName::thumbprint);
    private static final int MAX = 256;
    private final Derivation derivation;

    private interface Derivation {
        String of(KeyMaterial key);
    }

    private KeyName(Derivation derivation) {
        this.derivation = derivation;
    }

    /** Returns a name that is a fixed text of 1 to 256 bytes. */
    public static KeyName fixed(String text) {
        Options.present(text, "text", "give the kid");
        return new KeyName(key -> text);
    }

    String of(KeyMaterial key) {
        String kid = derivation.of(key);
        if (kid.isEmpty() || kid.getBytes(StandardCharsets.UTF_8).length > MAX || !StandardCharsets.UTF_8.newEncoder().canEncode(kid)) {
            throw new UsageException("the kid is not 1 to 256 bytes of UTF-8");
        }
        return kid;
    }

    private static String hex(byte[] data) {
        return HexFormat.of().formatHex(Hashes.sha256(data));
    }

    private static String serialNumber(KeyMaterial key) {
        List<String> found = Der.serialNumbers(key.certified());
        if (found.size() != 1) {
            throw new UsageException("the certificate's subject has no attribute serialNumber, or more than one");
        }
        return found.getFirst();
    }

    /** Of the required members in lexical order, without white space (RFC 7638 section 3.3). */
    private static String thumbprint(KeyMaterial key) {
        String json = "{\"e\":\"" + Compact.encode(unsigned(key.key().getPublicExponent())) + "\",\"kty\":\"RSA\",\"n\":\""
                + Compact.encode(unsigned(key.key().getModulus())) + "\"}";
        return Compact.encode(Hashes.sha256(json.getBytes(StandardCharsets.US_ASCII)));
    }

    private static byte[] unsigned(BigInteger number) {
        byte[] bytes = number.toByteArray();
        return bytes[0] == 0 ? Arrays.copyOfRange(bytes, 1, bytes.length) : bytes;
    }
}
