package dev.sealway.crypto;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.UsageException;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.KeyFactory;
import java.security.SecureRandom;
import java.security.spec.ECPrivateKeySpec;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Signatures of every algorithm, and what a composite one does not accept. */
class SignatureAlgorithmTest {
    private static final byte[] MESSAGE = "sealway/3 signature and a hash".getBytes(StandardCharsets.US_ASCII);
    private final SecureRandom random = new SecureRandom();

    private static byte[] secret(SignatureAlgorithm algorithm, int fill) {
        byte[] out = new byte[switch (algorithm) {
            case ES256, ML_DSA_65, ML_DSA_87 -> 32;
            case ES384 -> 48;
            case ES256_ML_DSA_65 -> 64;
            case ES384_ML_DSA_87 -> 80;
        }];
        Arrays.fill(out, (byte) fill);
        return out;
    }

    private SigningKey key(SignatureAlgorithm algorithm, int fill) {
        return algorithm.key(secret(algorithm, fill), random);
    }

    @Test
    void theSizesAreThoseOfTheSpec() {
        List<String> sizes = Arrays.stream(SignatureAlgorithm.values()).map(each -> each.text() + " " + each.publicLen() + " " + each.signatureLen()).toList();
        assertEquals(List.of("ES256 65 64", "ES384 97 96", "ML-DSA-65 1952 3309", "ML-DSA-87 2592 4627", "ES256+ML-DSA-65 2017 3373",
                "ES384+ML-DSA-87 2689 4723"), sizes);
    }

    @ParameterizedTest
    @EnumSource
    void anAlgorithmVerifiesItsOwnSignaturesAlone(SignatureAlgorithm algorithm) {
        SigningKey key = key(algorithm, 7);
        byte[] publicKey = key.publicKey();
        byte[] signature = key.sign(MESSAGE);
        assertEquals(algorithm, SignatureAlgorithm.of(publicKey));
        assertTrue(SignatureAlgorithm.isValid(publicKey));
        assertTrue(SignatureAlgorithm.verifies(publicKey, MESSAGE, signature));
        for (int at : new int[] {0, 31, 32, 63, 64, 95, 96, signature.length / 2, signature.length - 1}) {
            if (at < signature.length) {
                byte[] wrong = signature.clone();
                wrong[at] ^= 1;
                assertFalse(SignatureAlgorithm.verifies(publicKey, MESSAGE, wrong), algorithm + " " + at);
            }
        }
        assertFalse(SignatureAlgorithm.verifies(publicKey, new byte[3], signature));
        assertFalse(SignatureAlgorithm.verifies(key(algorithm, 9).publicKey(), MESSAGE, signature));
        assertFalse(SignatureAlgorithm.verifies(publicKey, MESSAGE, Arrays.copyOf(signature, signature.length + 1)));
        assertFalse(SignatureAlgorithm.verifies(publicKey, MESSAGE, new byte[0]));
        assertFalse(SignatureAlgorithm.verifies(Arrays.copyOf(publicKey, publicKey.length - 1), MESSAGE, signature));
        byte[] secret = secret(algorithm, 7);
        for (byte[] wrong : List.of(new byte[0], Arrays.copyOf(secret, secret.length - 1), Arrays.copyOf(secret, secret.length + 1))) {
            assertThrows(ProtocolException.class, () -> algorithm.key(wrong, random));
        }
        assertEquals("SigningKey(redacted)", key.toString());
    }

    @ParameterizedTest
    @EnumSource(names = {"ES256_ML_DSA_65", "ES384_ML_DSA_87"})
    void aCompositeAlgorithmAcceptsNeitherPartAlone(SignatureAlgorithm algorithm) {
        SignatureAlgorithm classical = algorithm == SignatureAlgorithm.ES256_ML_DSA_65 ? SignatureAlgorithm.ES256 : SignatureAlgorithm.ES384;
        SignatureAlgorithm quantum = algorithm == SignatureAlgorithm.ES256_ML_DSA_65 ? SignatureAlgorithm.ML_DSA_65 : SignatureAlgorithm.ML_DSA_87;
        SigningKey first = key(classical, 7);
        SigningKey second = key(quantum, 7);
        SigningKey key = SigningKey.composite(first, second);
        assertArrayEquals(key(algorithm, 7).publicKey(), key.publicKey());
        byte[] good = key.sign(MESSAGE);
        byte[] impostor = key(algorithm, 9).sign(MESSAGE);
        int cut = classical.signatureLen();
        byte[] ecdsa = Arrays.copyOf(good, cut);
        byte[] mlDsa = Arrays.copyOfRange(good, cut, good.length);
        Map<String, byte[]> wrong = new LinkedHashMap<>();
        wrong.put("the classical part alone", ecdsa);
        wrong.put("the ML-DSA part alone", mlDsa);
        wrong.put("swapped parts", Bytes.join(mlDsa, ecdsa));
        wrong.put("a classical part of an impostor", Bytes.join(Arrays.copyOf(impostor, cut), mlDsa));
        wrong.put("an ML-DSA part of an impostor", Bytes.join(ecdsa, Arrays.copyOfRange(impostor, cut, impostor.length)));
        wrong.put("a classical part of zeros", Bytes.join(new byte[cut], mlDsa));
        wrong.put("an ML-DSA part of zeros", Bytes.join(ecdsa, new byte[mlDsa.length]));
        wrong.put("a classical part of the message alone", Bytes.join(first.sign(MESSAGE), mlDsa));
        wrong.put("an ML-DSA part of the message alone", Bytes.join(ecdsa, second.sign(MESSAGE)));
        wrong.put("parts of the message alone", Bytes.join(first.sign(MESSAGE), second.sign(MESSAGE)));
        wrong.forEach((name, signature) -> assertFalse(SignatureAlgorithm.verifies(key.publicKey(), MESSAGE, signature), name));
        assertTrue(SignatureAlgorithm.verifies(key.publicKey(), MESSAGE, good));
        assertFalse(SignatureAlgorithm.verifies(first.publicKey(), MESSAGE, ecdsa));
        assertFalse(SignatureAlgorithm.verifies(second.publicKey(), MESSAGE, mlDsa));
        assertThrows(ProtocolException.class, () -> SigningKey.composite(second, first));
        assertThrows(ProtocolException.class, () -> SigningKey.composite(first, first));
        byte[] off = key.publicKey();
        off[1] ^= 1;
        assertFalse(SignatureAlgorithm.isValid(off));
    }

    private static byte[] mlDsa(String lastOfOid, byte[] seed) {
        return HexFormat.of().parseHex("3034020100300b06096086480165030403" + lastOfOid + "04228020" + HexFormat.of().formatHex(seed));
    }

    /** PKCS #8 documents of an algorithm, as other programs write them. */
    private static List<byte[]> documents(SignatureAlgorithm algorithm, byte[] secret) throws Exception {
        List<byte[]> out = new ArrayList<>();
        Curve curve = algorithm.text().startsWith("ES256") ? Curve.P256 : algorithm.text().startsWith("ES384") ? Curve.P384 : null;
        int scalarLen = curve == null ? 0 : curve.scalarLen();
        if (curve != null) {
            BigInteger scalar = new BigInteger(1, Arrays.copyOf(secret, scalarLen));
            out.add(KeyFactory.getInstance("EC").generatePrivate(new ECPrivateKeySpec(scalar, curve.parameters())).getEncoded());
        }
        if (algorithm.text().contains("ML-DSA")) {
            out.add(mlDsa(algorithm.text().endsWith("65") ? "12" : "13", Arrays.copyOfRange(secret, scalarLen, secret.length)));
        }
        return out;
    }

    private static byte[] pem(String kind, byte[] document) {
        return ("-----BEGIN " + kind + "-----\n" + Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(document) + "\n-----END " + kind + "-----\n")
                .getBytes(StandardCharsets.US_ASCII);
    }

    @ParameterizedTest
    @EnumSource
    void aKeyFileIsReadAsPemAndAsDer(SignatureAlgorithm algorithm) throws Exception {
        byte[] expected = key(algorithm, 7).publicKey();
        List<byte[]> documents = documents(algorithm, secret(algorithm, 7));
        byte[] der = Bytes.join(documents.toArray(byte[][]::new));
        byte[] text = Bytes.join(documents.stream().map(each -> pem("PRIVATE KEY", each)).toArray(byte[][]::new));
        for (byte[] file : List.of(der, text)) {
            SigningKey key = SigningKey.pkcs8(file, random);
            assertArrayEquals(expected, key.publicKey());
            assertTrue(SignatureAlgorithm.verifies(expected, MESSAGE, key.sign(MESSAGE)));
        }
        for (int cut = 0; cut < documents.getFirst().length; cut++) {
            byte[] part = Arrays.copyOf(documents.getFirst(), cut);
            assertThrows(UsageException.class, () -> SigningKey.pkcs8(part, random));
        }
    }

    @Test
    void aKeyFileThatIsNoneNamesTheKeyAtFault() throws Exception {
        byte[] first = documents(SignatureAlgorithm.ES256, secret(SignatureAlgorithm.ES256, 7)).getFirst();
        byte[] seed = secret(SignatureAlgorithm.ML_DSA_65, 7);
        Map<String, byte[]> wrong = new LinkedHashMap<>();
        wrong.put("has 0 keys", new byte[0]);
        wrong.put("is neither PEM nor DER", "hello".getBytes(StandardCharsets.US_ASCII));
        wrong.put("block 1 of the key file is EC PRIVATE KEY", pem("EC PRIVATE KEY", first));
        wrong.put("block 2 of the key file is PUBLIC KEY", Bytes.join(pem("PRIVATE KEY", first), pem("PUBLIC KEY", first)));
        wrong.put("key 1 of the key file is no PKCS #8 key", HexFormat.of().parseHex("3012020100300d06092a864886f70d0101010500"));
        wrong.put("are no composite key", Bytes.join(first, first));
        wrong.put("has 3 keys", Bytes.join(first, first, first));
        wrong.put("key 1 of the key file is of ML-DSA, but not", mlDsa("11", seed));
        byte[] expanded = mlDsa("12", seed);
        expanded[20] = 4;
        wrong.put("key 2 of the key file is of ML-DSA, but not", Bytes.join(first, expanded));
        wrong.forEach((message, file) -> {
            String said = assertThrows(UsageException.class, () -> SigningKey.pkcs8(file, random), message).getMessage();
            assertTrue(said.contains(message), said);
            assertFalse(said.contains("0707"), said);
        });
    }
}
