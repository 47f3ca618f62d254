package dev.sealway.session.nativeprotocol;

import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.Json;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.StrictBase64;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A server's answer to an init or a renewal. {@code spec/session-3.md#init}.
 *
 * @param sessionId {@code S-…}
 * @param suite the suite
 * @param suites the server's list for this client
 * @param share its share
 * @param expiresInSec the life of the session, in seconds
 * @param serverTimeMs the server's clock, milliseconds of the epoch
 * @param keyId the identity key that signs
 * @param keyIds all live identity keys
 * @param auth authentication of the client
 * @param subject of the client, or null
 * @param tenant of the client, or null
 */
public record InitAnswer(String sessionId, String suite, List<String> suites, byte[] share, long expiresInSec,
        long serverTimeMs, String keyId, List<String> keyIds, String auth, String subject, String tenant) {
    private static final List<String> AUTHS = List.of("none", "bearer", "dpop", "certificate");
    /** Bound on a signature, in bytes; its length is the algorithm's. */
    static final int SIGNATURE_MAX = 8192;
    private static final int SUBJECT_MAX = 256;

    /** An answer with its signature and confirmation. */
    record SignedAnswer(InitAnswer answer, byte[] signature, byte[] confirm) {
    }

    /** Reads an answer; the code of every error is {@code answer_mismatch}. */
    static SignedAnswer read(int status, byte[] body) {
        if (status != 201) {
            throw new ProtocolException(Code.ANSWER_MISMATCH, "status");
        }
        Members members = Members.parse(body, Code.ANSWER_MISMATCH);
        InitAnswer answer = new InitAnswer(
                members.text("session_id", text -> text.startsWith("S-") && Forms.isSessionId(text)),
                members.text("suite", Members::isSuiteName), members.names("suites", Members::isSuiteName, 1, 8),
                members.base64("share", -1), members.number("expires_in_sec", Members.U32),
                members.number("server_time_ms", Members.U64), members.text("key_id", Forms::isKeyId),
                members.names("key_ids", Forms::isKeyId, 1, 16), members.text("auth", AUTHS::contains),
                members.optionalText("subject", SUBJECT_MAX), members.optionalText("tenant", SUBJECT_MAX));
        return new SignedAnswer(answer, members.base64UpTo("signature", SIGNATURE_MAX), members.base64("confirm", 32));
    }

    byte[] write(byte[] signature, byte[] confirm) {
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("session_id", sessionId);
        out.put("suite", suite);
        out.put("suites", suites);
        out.put("share", StrictBase64.encode(share));
        out.put("expires_in_sec", expiresInSec);
        out.put("server_time_ms", serverTimeMs);
        out.put("key_id", keyId);
        out.put("key_ids", keyIds);
        out.put("auth", auth);
        if (subject != null) {
            out.put("subject", subject);
        }
        if (tenant != null) {
            out.put("tenant", tenant);
        }
        out.put("signature", StrictBase64.encode(signature));
        out.put("confirm", StrictBase64.encode(confirm));
        return Json.write(out).getBytes(StandardCharsets.UTF_8);
    }
}
