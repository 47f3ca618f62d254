package dev.sealway.crypto;

import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.UsageException;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.SecureRandom;
import java.security.interfaces.ECPrivateKey;
import java.security.interfaces.ECPublicKey;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A private key of an identity or a root, of any {@link SignatureAlgorithm}. */
public final class SigningKey {
    private static final Pattern BLOCK = Pattern.compile("-----BEGIN ([A-Z ]+)-----([A-Za-z0-9+/=\\s]*)-----END \\1-----");
    private final byte[] publicKey;
    private final UnaryOperator<byte[]> signer;

    private SigningKey(byte[] publicKey, UnaryOperator<byte[]> signer) {
        this.publicKey = publicKey;
        this.signer = signer;
    }

    /** Makes a key that is kept elsewhere.
     *
     * @param publicKey its bytes, whose length names the algorithm
     * @param signer returns the signature of a message */
    public static SigningKey of(byte[] publicKey, UnaryOperator<byte[]> signer) {
        return new SigningKey(publicKey.clone(), signer);
    }

    /** Makes a key of a key pair of the platform.
     *
     * @param random for signatures */
    public static SigningKey of(Curve curve, KeyPair pair, SecureRandom random) {
        return of(curve.encode((ECPublicKey) pair.getPublic()), message -> curve.sign(pair.getPrivate(), message, random));
    }

    /** Joins a key of a curve and one of ML-DSA. Neither may be used as a key of its own.
     *
     * @throws ProtocolException {@code public_key_invalid} if no algorithm consists of the two */
    public static SigningKey composite(SigningKey ecdsa, SigningKey mlDsa) {
        byte[] joined = Bytes.join(ecdsa.publicKey, mlDsa.publicKey);
        SignatureAlgorithm algorithm = SignatureAlgorithm.of(joined);
        if (algorithm == null || !algorithm.isComposite() || !algorithm.hasPointLen(ecdsa.publicKey.length)) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
        return new SigningKey(joined, message -> Bytes.join(ecdsa.sign(algorithm.framed(message)), mlDsa.sign(algorithm.framed(message))));
    }

    /** Reads a key file: a PKCS #8 key in PEM or DER, of a composite algorithm two, one after the other and that of the curve first, as
     * {@code sealway identity generate} writes them. A key of ML-DSA is in the form seed.
     *
     * @param random for ECDSA; ML-DSA signs by the deterministic variant
     * @throws UsageException that names the key at fault */
    public static SigningKey pkcs8(byte[] file, SecureRandom random) {
        List<byte[]> documents = split(file);
        if (!documents.isEmpty() && !MlDsa.isThere()) {
            throw new UsageException("a key file needs Bouncy Castle: do not exclude bcprov-jdk18on");
        }
        List<SigningKey> parts = new ArrayList<>();
        for (byte[] document : documents) {
            parts.add(part(document, "key " + (parts.size() + 1) + " of the key file ", random));
        }
        if (parts.size() == 1) {
            return parts.getFirst();
        }
        if (parts.size() != 2) {
            throw new UsageException("the key file has " + parts.size() + " keys: it has 1 PKCS #8 key, or 2 of a composite key");
        }
        try {
            return composite(parts.getFirst(), parts.getLast());
        } catch (ProtocolException alien) {
            throw new UsageException("the two keys of the key file are no composite key: the first is of P-256 and the second of ML-DSA-65, or P-384"
                    + " and ML-DSA-87");
        }
    }

    private static List<byte[]> split(byte[] file) {
        List<byte[]> out = new ArrayList<>();
        String text = new String(file, StandardCharsets.ISO_8859_1);
        if (text.contains("-----BEGIN ")) {
            Matcher blocks = BLOCK.matcher(text);
            while (blocks.find()) {
                if (!blocks.group(1).equals("PRIVATE KEY")) {
                    throw new UsageException("block " + (out.size() + 1) + " of the key file is " + blocks.group(1)
                            + ": it has to be PRIVATE KEY (PKCS #8, not encrypted)");
                }
                out.add(Base64.getMimeDecoder().decode(blocks.group(2)));
            }
            return out;
        }
        for (int at = 0; at < file.length;) {
            int length = length(file, at);
            if (length < 0) {
                throw new UsageException("the key file is neither PEM nor DER");
            }
            out.add(Arrays.copyOfRange(file, at, at + length));
            at += length;
        }
        return out;
    }

    /** Returns the length of the DER sequence at a place, or -1. Keys are shorter than 64 KiB. */
    private static int length(byte[] der, int at) {
        int first = at + 1 < der.length && der[at] == 0x30 ? der[at + 1] & 0xff : -1;
        int octets = first < 0x80 ? 0 : first - 0x80;
        if (first < 0 || octets > 2 || at + 2 + octets > der.length) {
            return -1;
        }
        int length = octets == 0 ? first : new BigInteger(1, Arrays.copyOfRange(der, at + 2, at + 2 + octets)).intValue();
        return at + 2 + octets + length <= der.length ? 2 + octets + length : -1;
    }

    private static SigningKey part(byte[] document, String what, SecureRandom random) {
        String hex = HexFormat.of().formatHex(document);
        for (MlDsa set : MlDsa.values()) {
            if (hex.startsWith(set.seedForm()) && hex.length() == set.seedForm().length() + 64) {
                return BouncyCastle.key(set, Arrays.copyOfRange(document, document.length - 32, document.length));
            }
        }
        if (hex.substring(0, Math.min(64, hex.length())).contains("6086480165030403")) {
            throw new UsageException(what + "is of ML-DSA, but not of ML-DSA-65 or ML-DSA-87 in the form seed: write it anew with openssl pkey -provparam"
                    + " ml-dsa.output_formats=seed-only");
        }
        try {
            ECPrivateKey key = (ECPrivateKey) KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(document));
            for (Curve curve : Curve.values()) {
                if (curve.parameters().getOrder().equals(key.getParams().getOrder())) {
                    byte[] scalar = key.getS().toByteArray();
                    return of(curve, curve.keyPair(scalar), random);
                }
            }
        } catch (GeneralSecurityException | ProtocolException invalid) {
            // Falls through: the library's message may quote the key.
        }
        throw new UsageException(what + "is no PKCS #8 key of P-256, P-384, ML-DSA-65 or ML-DSA-87");
    }

    /** Returns the public key, whose length names the algorithm. */
    public byte[] publicKey() {
        return publicKey.clone();
    }

    /** Returns the signature of a message, which the algorithm hashes itself. */
    public byte[] sign(byte[] message) {
        return signer.apply(message);
    }

    @Override
    public String toString() {
        return "SigningKey(redacted)";
    }
}
