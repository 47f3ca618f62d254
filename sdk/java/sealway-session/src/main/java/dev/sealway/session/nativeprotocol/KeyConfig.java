package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.Kem;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.ProtocolException;
import java.util.Arrays;
import java.util.HexFormat;

/** A key configuration of a service: RFC 9458 section 3.1 with exactly one suite. {@code spec/one-shot.md#keys}. */
public final class KeyConfig {
    /** Prefix of a kid of wire 4. */
    public static final String KID_PREFIX = "hpke:";
    private static final byte[] SUITE = {0, 4, 0, 1, 0, 2};
    private static final int HEAD_LEN = 3;
    private static final int NAME_LEN = 16;
    private final byte[] bytes;
    private final Kem kem;
    private final String name;

    private KeyConfig(byte[] bytes, Kem kem) {
        this.bytes = bytes;
        this.kem = kem;
        this.name = HexFormat.of().formatHex(Arrays.copyOf(Hashes.sha256(bytes), NAME_LEN));
    }

    /** Reads a key configuration.
     *
     * @throws ProtocolException {@code field_invalid} if it is cut or too long, or has another suite or several */
    public static KeyConfig read(byte[] bytes) {
        int suiteAt = bytes.length - SUITE.length;
        if (suiteAt <= HEAD_LEN || !Arrays.equals(bytes, suiteAt, bytes.length, SUITE, 0, SUITE.length)) {
            throw new ProtocolException(Code.FIELD_INVALID, "config");
        }
        Kem kem = Kem.of((bytes[1] & 0xff) << 8 | bytes[2] & 0xff);
        if (kem != null && suiteAt - HEAD_LEN != kem.publicLen()) {
            throw new ProtocolException(Code.FIELD_INVALID, "config");
        }
        return new KeyConfig(bytes.clone(), kem);
    }

    /** Returns true if a text is a kid of wire 4. */
    public static boolean isKid(String text) {
        return text.startsWith(KID_PREFIX) && Forms.isKeyId(text.substring(KID_PREFIX.length()));
    }

    /** Returns the KEM, or null if this library does not know it. */
    public Kem kem() {
        return kem;
    }

    /** Returns the public key, {@link Kem#publicLen} bytes. */
    public byte[] publicKey() {
        return Arrays.copyOfRange(bytes, HEAD_LEN, bytes.length - SUITE.length);
    }

    /** Returns the key name, 32 hexadecimal digits. */
    public String name() {
        return name;
    }

    /** Returns the kid: {@code hpke:} and the key name. */
    public String kid() {
        return KID_PREFIX + name;
    }

    byte[] bytes() {
        return bytes;
    }

    @Override
    public String toString() {
        return "KeyConfig[" + kid() + "]";
    }
}
