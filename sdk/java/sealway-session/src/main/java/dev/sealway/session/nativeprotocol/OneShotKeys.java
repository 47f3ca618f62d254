package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Hpke;
import dev.sealway.crypto.KemSender;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;

/** Keys of one request to a key of the service, without a session, and of its answer. {@code spec/one-shot.md#the-request}. */
public final class OneShotKeys extends RequestKeys {
    private static final int PSK_ID_MAX = 64;
    private static final int PSK_LEN = 32;
    private static final byte[] NO_ID = {};

    /** Takes given secrets, for vectors.
     *
     * @param name of the service's key
     * @param prefix of the stream: mode, length of the id of the PSK, that id, and the encapsulation */
    public OneShotKeys(String name, SecretBytes c2s, SecretBytes s2c, byte[] prefix) {
        super(Protocol.ONE_SHOT, name, c2s, s2c, prefix);
    }

    /** Agrees the keys of one request.
     *
     * @param key of the service
     * @param psk pre-shared key, or null
     * @param sender random inputs for the key's KEM, used for no other request
     * @throws ProtocolException {@code public_key_invalid} */
    public static OneShotKeys agree(KeyConfig key, Hpke.Psk psk, KemSender sender) {
        if (key.kem() != sender.kem()) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
        byte[] id = psk == null ? NO_ID : psk.id();
        KemSender.Encapsulated made = sender.encapsulate(key.publicKey());
        byte[] mode = {(byte) (psk == null ? 0 : 1), (byte) id.length};
        try (Hpke.Exporter exporter = Hpke.setup(key.kem(), made.secret(), info(key.name(), id), psk)) {
            return new OneShotKeys(key.name(), exporter.export(Protocol.ONE_SHOT.label("c2s")), exporter.export(Protocol.ONE_SHOT.label("s2c")),
                    Bytes.join(mode, id, made.enc()));
        }
    }

    /** Returns the {@code info} of the HPKE context, the same for both sides.
     *
     * @param pskId empty in the mode base */
    public static byte[] info(String keyName, byte[] pskId) {
        return new Fields().add("sealway/4").add(keyName).add(pskId).bytes();
    }

    /** Returns true for 1 to 64 bytes of visible ASCII. */
    public static boolean isPskId(String text) {
        return !text.isEmpty() && text.length() <= PSK_ID_MAX && text.chars().allMatch(c -> c >= 0x21 && c <= 0x7e);
    }

    /** Returns true for the length of a pre-shared key, 32 bytes. */
    public static boolean isPskLength(int length) {
        return length == PSK_LEN;
    }

    @Override
    public String toString() {
        return "OneShotKeys[" + id() + "]";
    }
}
