package dev.sealway.mle;

import dev.sealway.wire.UsageException;
import java.io.ByteArrayInputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PublicKey;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.interfaces.RSAPrivateCrtKey;
import java.security.interfaces.RSAPublicKey;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.KeySpec;
import java.security.spec.PKCS8EncodedKeySpec;
import java.security.spec.RSAPublicKeySpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A public RSA key, and the certificate in which it came. {@code spec/mle.md#keys}.
 *
 * @param spki its SubjectPublicKeyInfo
 * @param certificate or null */
record KeyMaterial(RSAPublicKey key, byte[] spki, X509Certificate certificate) {
    private static final int FILE_MAX = 64 << 10;
    private static final int BITS_MIN = 2048;
    private static final int BITS_MAX = 8192;
    private static final Pattern BLOCK = Pattern.compile("-----BEGIN ([A-Z0-9 ]+)-----\\s*([A-Za-z0-9+/=\\s]*?)-----END \\1-----");
    private static final List<String> PRIVATE = List.of("PRIVATE KEY", "RSA PRIVATE KEY");

    /** A block of a PEM text; or the whole input, without a label, if that is DER. */
    private record Block(String label, byte[] der) {
    }

    private static List<Block> blocks(byte[] data) {
        if (data == null || data.length == 0 || data.length > FILE_MAX) {
            throw new UsageException("the key is missing, empty or longer than 65536 bytes");
        }
        String text = new String(data, StandardCharsets.ISO_8859_1);
        int begins = text.split("-----BEGIN ", -1).length - 1;
        if (begins == 0) {
            return List.of(new Block("", data));
        }
        if (text.contains("ENCRYPTED")) {
            throw new UsageException("the private key is encrypted: decrypt it");
        }
        List<Block> out = new ArrayList<>();
        for (Matcher found = BLOCK.matcher(text); found.find();) {
            try {
                out.add(new Block(found.group(1), Base64.getDecoder().decode(found.group(2).replaceAll("\\s", ""))));
            } catch (IllegalArgumentException malformed) {
                // Its message quotes a letter of the key.
                break;
            }
        }
        if (out.size() != begins) {
            throw new UsageException("a PEM block has no end, or is not base64");
        }
        return out;
    }

    /** Returns the one block with one of the labels, or null. */
    private static Block sole(List<Block> blocks, List<String> labels) {
        List<Block> found = blocks.stream().filter(block -> labels.contains(block.label())).toList();
        if (found.size() > 1) {
            throw new UsageException("the PEM text holds more than one block of the kind " + labels.getFirst());
        }
        return found.isEmpty() ? null : found.getFirst();
    }

    /** Reads a private key: PKCS#8 or PKCS#1, in PEM or DER. */
    static RSAPrivateCrtKey readPrivate(byte[] data) {
        List<Block> blocks = blocks(data);
        Block block = sole(blocks, blocks.getFirst().label().isEmpty() ? List.of("") : PRIVATE);
        if (block == null) {
            throw new UsageException(blocks.stream().anyMatch(other -> other.label().endsWith("PRIVATE KEY")) ? "the key is not an RSA key"
                    : "a private key is due, and the text holds none");
        }
        RSAPrivateCrtKey key = tryPrivate(new PKCS8EncodedKeySpec(block.der()));
        if (key == null) {
            key = tryPrivate(new PKCS8EncodedKeySpec(Der.pkcs8(block.der())));
        }
        if (key == null) {
            throw new UsageException("it is no private RSA key in PKCS#8 or PKCS#1");
        }
        check(key.getModulus(), key.getPublicExponent());
        return key;
    }

    private static RSAPrivateCrtKey tryPrivate(KeySpec spec) {
        try {
            return KeyFactory.getInstance("RSA").generatePrivate(spec) instanceof RSAPrivateCrtKey key ? key : null;
        } catch (InvalidKeySpecException other) {
            return null;
        } catch (GeneralSecurityException missing) {
            throw new UsageException("the platform has no RSA", missing);
        }
    }

    /** Returns the public half of a private key. */
    static KeyMaterial of(RSAPrivateCrtKey key) {
        RSAPublicKey half = tryPublic(new RSAPublicKeySpec(key.getModulus(), key.getPublicExponent()));
        if (half == null) {
            throw new UsageException("the public half of the key cannot be encoded");
        }
        return new KeyMaterial(half, half.getEncoded(), null);
    }

    /** Reads a certificate or a SubjectPublicKeyInfo, in PEM or DER. */
    static KeyMaterial readPublic(byte[] data) {
        List<Block> blocks = blocks(data);
        if (blocks.stream().anyMatch(block -> block.label().endsWith("PRIVATE KEY"))) {
            throw new UsageException("a certificate or a public key is due, and the text holds a private key");
        }
        Block block = sole(blocks, List.of("CERTIFICATE", ""));
        block = block == null ? sole(blocks, List.of("PUBLIC KEY")) : block;
        if (block == null) {
            throw new UsageException("the PEM text holds no certificate and no public key");
        }
        X509Certificate certificate = block.label().equals("PUBLIC KEY") ? null : tryCertificate(block.der());
        byte[] spki = certificate == null ? block.der() : certificate.getPublicKey().getEncoded();
        PublicKey key = certificate == null ? tryPublic(new X509EncodedKeySpec(spki)) : certificate.getPublicKey();
        // A key for RSASSA-PSS signs.
        if (!(key instanceof RSAPublicKey rsa) || !key.getAlgorithm().toUpperCase(Locale.ROOT).equals("RSA")) {
            throw new UsageException("it is neither a certificate nor a SubjectPublicKeyInfo of an RSA key for encryption (rsaEncryption)");
        }
        check(rsa.getModulus(), rsa.getPublicExponent());
        return new KeyMaterial(rsa, spki, certificate);
    }

    private static RSAPublicKey tryPublic(KeySpec spec) {
        try {
            return KeyFactory.getInstance("RSA").generatePublic(spec) instanceof RSAPublicKey key ? key : null;
        } catch (InvalidKeySpecException other) {
            return null;
        } catch (GeneralSecurityException missing) {
            throw new UsageException("the platform has no RSA", missing);
        }
    }

    private static X509Certificate tryCertificate(byte[] der) {
        try {
            return (X509Certificate) CertificateFactory.getInstance("X.509").generateCertificate(new ByteArrayInputStream(der));
        } catch (CertificateException other) {
            return null;
        }
    }

    /** Returns the certificate in DER. */
    byte[] certified() {
        if (certificate == null) {
            throw new UsageException("this kid is derived from a certificate, and there is none");
        }
        try {
            return certificate.getEncoded();
        } catch (CertificateException broken) {
            throw new UsageException("the certificate cannot be encoded", broken);
        }
    }

    private static void check(BigInteger modulus, BigInteger exponent) {
        int bits = modulus.bitLength();
        if (bits < BITS_MIN || bits > BITS_MAX) {
            throw new UsageException("the RSA key has " + bits + " bits: it may have 2048 to 8192");
        }
        if (exponent.compareTo(BigInteger.TWO) <= 0 || !exponent.testBit(0) || exponent.bitLength() > 32) {
            throw new UsageException("the public exponent is even, below 3, or longer than 32 bits");
        }
        if (isRoca(modulus)) {
            throw new UsageException("the RSA key has the structure of CVE-2017-15361 (ROCA)");
        }
    }

    /** Returns true if a modulus is a power of 65537 modulo every odd prime below 168 (Nemec et al., "The Return of Coppersmith's Attack", section
     * 2.2). An honest modulus is so with a probability below 2⁻²⁷. */
    private static boolean isRoca(BigInteger modulus) {
        for (int prime = 3; prime < 168; prime += 2) {
            if (!BigInteger.valueOf(prime).isProbablePrime(20)) {
                continue;
            }
            int rest = modulus.mod(BigInteger.valueOf(prime)).intValue();
            int power = 1;
            for (int steps = 0; power != rest && steps < prime; steps++) {
                power = power * (65537 % prime) % prime;
            }
            if (power != rest) {
                return false;
            }
        }
        return true;
    }
}
