package dev.sealway.redis;

import dev.sealway.crypto.AesGcm;
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

/** A session as it stands in Redis. {@code spec/redis-store.md#sessions}. */
final class StoredSession {
    private static final int NONE = 0xffff;
    private static final int KEY_LEN = 32;
    private static final int WRAPPED_LEN = AesGcm.IV_LEN + KEY_LEN + AesGcm.TAG_LEN;
    private static final List<String> AUTHS = List.of("none", "bearer", "dpop", "certificate");

    private StoredSession() {
    }

    /** Reads one.
     *
     * @param keks gives the key-encryption key of an id, or null
     * @throws StoreException for every other form: a fault of the store, never the end of a session
     */
    static SessionRecord read(String id, byte[] value, Function<String, SecretBytes> keks) {
        ByteBuffer in = ByteBuffer.wrap(value);
        try {
            long expiresMs = in.getLong();
            int version = in.get();
            check(version == 1 || version == 2, "version");
            Wire wire = Wire.of(in.get());
            long createdMs = in.getLong();
            String clientId = text(in);
            String subject = text(in);
            String tenant = version == 2 ? text(in) : null;
            int auth = version == 2 ? in.get() : 0;
            String kekId = text(in);
            byte[] wrapped = new byte[WRAPPED_LEN];
            in.get(wrapped);
            check(!in.hasRemaining() && kekId != null, "length");
            check(expiresMs >= 0 && createdMs >= 0 && wire != null && auth >= 0 && auth < AUTHS.size(), "numbers");
            check(clientId == null ? wire == Wire.ONE : Forms.isClientId(clientId), "client id");
            SecretBytes kek = keks.apply(kekId);
            check(kek != null, "key-encryption key");
            return new SessionRecord(id, wire, clientId, subject, createdMs, expiresMs, unwrap(kek, id, wrapped), tenant, AUTHS.get(auth));
        } catch (BufferUnderflowException | CharacterCodingException malformed) {
            throw fault("length");
        }
    }

    private static SecretBytes unwrap(SecretBytes kek, String id, byte[] wrapped) {
        try {
            return SecretBytes.owning(new AesGcm(kek).open(Arrays.copyOf(wrapped, AesGcm.IV_LEN), id.getBytes(StandardCharsets.US_ASCII),
                    wrapped, AesGcm.IV_LEN, WRAPPED_LEN - AesGcm.IV_LEN));
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
