package dev.sealway.session;

import dev.sealway.crypto.AesGcm;
import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.wire.Code;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.StrictBase64;
import dev.sealway.wire.Wire;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** The bytes of wires 1 and 2. {@code spec/session.md#wire-1}, {@code #wire-2}. */
final class CompatSeal {
    static final int NONCE_MIN = 1;
    static final int PATH_MAX = 8192;
    private static final String A256GCM = "A256GCM";
    private static final int OVERHEAD = AesGcm.IV_LEN + AesGcm.TAG_LEN;

    private CompatSeal() {
    }

    /** IV, tag and AAD of wire 1, as sent. */
    record DetachedParts(byte[] iv, byte[] tag, byte[] aad) {
        static DetachedParts read(HeaderList headers) {
            if (!headers.required(HeaderNames.X_ENC_ALG).equals(A256GCM)) {
                throw new ProtocolException(Code.HEADER_INVALID, HeaderNames.X_ENC_ALG);
            }
            return new DetachedParts(part(headers, HeaderNames.X_IV, AesGcm.IV_LEN),
                    part(headers, HeaderNames.X_TAG, AesGcm.TAG_LEN), part(headers, HeaderNames.X_AAD, -1));
        }

        private static byte[] part(HeaderList headers, String name, int length) {
            byte[] value = StrictBase64.decode(headers.required(name));
            if (value == null || length >= 0 && value.length != length) {
                throw new ProtocolException(Code.HEADER_INVALID, name);
            }
            return value;
        }
    }

    static byte[] aad1(String subject, String path, String stamp, String nonce, String kid) {
        return String.join("|", subject, path, stamp, nonce, kid).getBytes(StandardCharsets.ISO_8859_1);
    }

    static byte[] aad2(String stamp, String nonce, String kid, String clientId) {
        return String.join("|", stamp, nonce, kid, clientId).getBytes(StandardCharsets.ISO_8859_1);
    }

    /** @param subject {@code POST} or a status; null on wire 2 */
    static SealedMessage seal(Wire wire, SecretBytes key, String subject, String path, String stamp, String nonce, String kid,
            String clientId, byte[] iv, byte[] plaintext) {
        AesGcm aead = new AesGcm(key);
        if (wire == Wire.ONE) {
            byte[] aad = aad1(subject, path, stamp, nonce, kid);
            byte[] sealed = new byte[plaintext.length + AesGcm.TAG_LEN];
            aead.seal(iv, aad, plaintext, 0, plaintext.length, sealed, 0);
            byte[] tag = Arrays.copyOfRange(sealed, plaintext.length, sealed.length);
            String body = StrictBase64.encode(Arrays.copyOf(sealed, plaintext.length));
            HeaderList headers = HeaderList.of(HeaderNames.X_KID, kid, HeaderNames.X_ENC_ALG, A256GCM, HeaderNames.X_IV,
                    StrictBase64.encode(iv), HeaderNames.X_TAG, StrictBase64.encode(tag), HeaderNames.X_AAD,
                    StrictBase64.encode(aad), HeaderNames.X_NONCE, nonce, HeaderNames.X_TIMESTAMP, stamp);
            return new SealedMessage(headers, "text/plain; charset=utf-8", body.getBytes(StandardCharsets.US_ASCII));
        }
        byte[] body = new byte[OVERHEAD + plaintext.length];
        System.arraycopy(iv, 0, body, 0, iv.length);
        aead.seal(iv, aad2(stamp, nonce, kid, clientId), plaintext, 0, plaintext.length, body, AesGcm.IV_LEN);
        HeaderList headers = HeaderList.of(HeaderNames.X_KID, kid, HeaderNames.X_IDEMPOTENCY_KEY, stamp + "." + nonce);
        return new SealedMessage(headers, "application/octet-stream", body);
    }

    static byte[] open1(SecretBytes key, DetachedParts parts, byte[] aad, byte[] body) {
        if (!Arrays.equals(aad, parts.aad())) {
            throw new ProtocolException(Code.AAD_MISMATCH);
        }
        byte[] ciphertext = StrictBase64.decode(body);
        if (ciphertext == null) {
            throw new ProtocolException(Code.BASE64_INVALID);
        }
        byte[] sealed = Bytes.join(ciphertext, parts.tag());
        return new AesGcm(key).open(parts.iv(), aad, sealed, 0, sealed.length);
    }

    static byte[] open2(SecretBytes key, byte[] aad, byte[] body) {
        if (body.length < OVERHEAD) {
            throw new ProtocolException(Code.BODY_TOO_SHORT);
        }
        byte[] iv = Arrays.copyOf(body, AesGcm.IV_LEN);
        return new AesGcm(key).open(iv, aad, body, AesGcm.IV_LEN, body.length - AesGcm.IV_LEN);
    }
}
