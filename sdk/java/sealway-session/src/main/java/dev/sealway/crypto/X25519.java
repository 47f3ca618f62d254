package dev.sealway.crypto;

import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.SecureRandom;
import java.security.spec.NamedParameterSpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;
import java.util.HexFormat;
import javax.crypto.KeyAgreement;

/** X25519 with public keys of 32 bytes (RFC 7748). */
public final class X25519 {
    /** Bytes of a public key. */
    public static final int PUBLIC_LEN = 32;
    private static final byte[] SPKI = HexFormat.of().parseHex("302a300506032b656e032100");

    private X25519() {
    }

    /** A new key pair. */
    public static KeyPair generate(SecureRandom random) {
        try {
            KeyPairGenerator generator = KeyPairGenerator.getInstance("X25519");
            generator.initialize(NamedParameterSpec.X25519, random);
            return generator.generateKeyPair();
        } catch (GeneralSecurityException missing) {
            throw ProviderException.of(missing);
        }
    }

    /** The 32 bytes of a public key. */
    public static byte[] encode(PublicKey key) {
        byte[] spki = key.getEncoded();
        return Arrays.copyOfRange(spki, spki.length - PUBLIC_LEN, spki.length);
    }

    /** The shared secret, 32 bytes; the caller wipes it.
     *
     * @throws ProtocolException {@code public_key_invalid}, for an all-zero secret too
     */
    public static byte[] agree(PrivateKey mine, byte[] peer) {
        try {
            PublicKey key = KeyFactory.getInstance("X25519").generatePublic(new X509EncodedKeySpec(Bytes.join(SPKI, peer)));
            KeyAgreement agreement = KeyAgreement.getInstance("X25519");
            agreement.init(mine);
            agreement.doPhase(key, true);
            byte[] secret = agreement.generateSecret();
            if (Hashes.equal(secret, new byte[PUBLIC_LEN])) {
                throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
            }
            return secret;
        } catch (GeneralSecurityException invalid) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
    }
}
