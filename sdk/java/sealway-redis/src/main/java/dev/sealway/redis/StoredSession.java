package dev.sealway.redis;

import dev.sealway.crypto.AesGcm;
import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.server.StoreException;
import dev.sealway.session.SessionRecord;
import dev.sealway.wire.Forms;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Wire;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;

/** A session as it stands in Redis, whose key has unwrapped. {@code spec/redis-store.md#sessions}.
 *
 * @param lineage the first session of the chain of renewals that it is in; null where it is the first itself
 */
record StoredSession(SessionRecord session, String lineage) {
    private static final int NONE = 0xffff;
    private static final int KEY_LEN = 32;
    private static final int WRAPPED_LEN = AesGcm.IV_LEN + KEY_LEN + AesGcm.TAG_LEN;
    private static final List<String> AUTHS = List.of("none", "bearer", "dpop", "certificate");
    private static final byte[] LABEL = "sealway session row\0".getBytes(StandardCharsets.US_ASCII);
    /** Under this id stores wrap a key that everybody knows. */
    private static final String ZEROS = "0".repeat(32);

    /** Reads one.
     *
     * @param acceptUntilMs the latest end of sessions of earlier releases, in which nothing but the id is authenticated; 0 for none
     * @param keks gives the key-encryption key of an id, or null
     * @return null for one of an earlier release that is not accepted: no session
     * @throws StoreException for every other form: a fault of the store, never the end of a session
     */
    static StoredSession read(String id, byte[] value, long acceptUntilMs, Function<String, SecretBytes> keks) {
        ByteBuffer in = ByteBuffer.wrap(value);
        try {
            long expiresMs = in.getLong();
            int version = in.get();
            check(version >= 1 && version <= 3, "version");
            Wire wire = Wire.of(in.get());
            if (version < 3 && (expiresMs < 0 || expiresMs > acceptUntilMs || wire == Wire.NATIVE || id.endsWith(ZEROS))) {
                return null;
            }
            long createdMs = in.getLong();
            String clientId = text(in);
            String subject = text(in);
            String tenant = version >= 2 ? text(in) : null;
            int auth = version >= 2 ? in.get() : 0;
            String lineage = version >= 3 ? text(in) : null;
            byte[] aad = id.getBytes(StandardCharsets.US_ASCII);
            if (version >= 3) {
                byte[] length = {(byte) (aad.length >> 8), (byte) aad.length};
                aad = Bytes.join(LABEL, length, aad, Arrays.copyOf(value, in.position()));
            }
            String kekId = text(in);
            byte[] wrapped = new byte[WRAPPED_LEN];
            in.get(wrapped);
            check(!in.hasRemaining() && kekId != null, "length");
            check(expiresMs >= 0 && createdMs >= 0 && wire != null && auth >= 0 && auth < AUTHS.size(), "numbers");
            check(clientId == null ? wire == Wire.ONE : Forms.isClientId(clientId), "client id");
            check(lineage == null || Forms.isSessionId(lineage), "lineage");
            SecretBytes kek = keks.apply(kekId);
            check(kek != null, "key-encryption key");
            return new StoredSession(new SessionRecord(id, wire, clientId, subject, createdMs, expiresMs, unwrap(kek, aad, wrapped), tenant,
                    AUTHS.get(auth)), lineage);
        } catch (BufferUnderflowException | CharacterCodingException malformed) {
            throw fault("length");
        }
    }

    private static SecretBytes unwrap(SecretBytes kek, byte[] aad, byte[] wrapped) {
        try {
            return SecretBytes.owning(new AesGcm(kek).open(Arrays.copyOf(wrapped, AesGcm.IV_LEN), aad, wrapped, AesGcm.IV_LEN,
                    WRAPPED_LEN - AesGcm.IV_LEN));
        } catch (SealwayException damaged) {
            throw fault("wrapped key");
        }
    }

    private static String text(ByteBuffer in) throws CharacterCodingException {
        int length = in.getShort() & 0xffff;
        if (length == NONE) {
            return null;
        }
        byte[] bytes = new byte[length];
        in.get(bytes);
        return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
    }

    private static void check(boolean isGood, String what) {
        if (!isGood) {
            throw fault(what);
        }
    }

    private static StoreException fault(String what) {
        return new StoreException(false, "a session in Redis is not what it should be: " + what, null);
    }
}
