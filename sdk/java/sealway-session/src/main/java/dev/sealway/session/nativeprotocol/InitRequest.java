package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.SignatureAlgorithm;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.Json;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.StrictBase64;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A client's request for an init or a renewal. {@code spec/session-3.md#init}.
 *
 * @param suite the suite of the share
 * @param suites that the client supports, in order of preference
 * @param share its share
 * @param clientId name of the client
 * @param ttlSec life to ask for, in seconds, or null
 * @param proof a DPoP proof, or null
 * @param pinnedKeyIds ids of the pinned identity keys; may be empty
 * @param signatureAlgorithms names of the algorithms that the client accepts, of which the server may not know all; empty for no restriction
 */
public record InitRequest(String suite, List<String> suites, byte[] share, String clientId, Long ttlSec, String proof,
        List<String> pinnedKeyIds, List<String> signatureAlgorithms) {
    /** The longest body of an init, in bytes. */
    public static final int BODY_MAX = 16_384;
    private static final int PROOF_MAX = 8_192;
    private static final int SUITES_MAX = 8;
    private static final int PINS_MAX = 16;
    private static final int ALGORITHMS_MAX = 8;

    /** Reads an init's body; members in the order of the spec's table.
     *
     * @throws ProtocolException {@code body_too_large}, {@code json_invalid}, {@code field_invalid}
     */
    public static InitRequest read(byte[] body) {
        if (body.length > BODY_MAX) {
            throw new ProtocolException(Code.BODY_TOO_LARGE);
        }
        Members members = Members.parse(body, null);
        return new InitRequest(members.text("suite", Members::isSuiteName),
                members.names("suites", Members::isSuiteName, 1, SUITES_MAX), members.base64("share", -1),
                members.text("client_id", Forms::isClientId),
                members.has("ttl_sec") ? (Long) members.number("ttl_sec", Members.U32) : null,
                members.optionalText("proof", PROOF_MAX),
                members.has("pinned_key_ids") ? members.names("pinned_key_ids", Forms::isKeyId, 0, PINS_MAX) : List.of(),
                members.has("signature_algorithms")
                        ? members.names("signature_algorithms", Members::isAlgorithmName, 1, ALGORITHMS_MAX) : List.of());
    }

    /** Returns the body. */
    public byte[] write() {
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("suite", suite);
        out.put("suites", suites);
        out.put("share", StrictBase64.encode(share));
        out.put("client_id", clientId);
        if (ttlSec != null) {
            out.put("ttl_sec", ttlSec);
        }
        if (proof != null) {
            out.put("proof", proof);
        }
        if (!pinnedKeyIds.isEmpty()) {
            out.put("pinned_key_ids", pinnedKeyIds);
        }
        if (!signatureAlgorithms.isEmpty()) {
            out.put("signature_algorithms", signatureAlgorithms);
        }
        return Json.write(out).getBytes(StandardCharsets.UTF_8);
    }

    /** Returns this request with a DPoP proof of its {@link #initHash}. */
    public InitRequest withProof(String made) {
        return new InitRequest(suite, suites, share, clientId, ttlSec, made, pinnedKeyIds, signatureAlgorithms);
    }

    /** Returns the hash that a DPoP proof is bound to. */
    public byte[] initHash() {
        return Hashes.sha256(new Fields().list(suites).add(suite).add(share).add(clientId).optional(ttlSec).list(pinnedKeyIds)
                .algorithms(signatureAlgorithms).bytes());
    }

    /** Decides if the client accepts signatures of a public key. The server's choice and the client's check are one. */
    boolean accepts(byte[] publicKey) {
        boolean isPinned = pinnedKeyIds.contains(Identity.keyId(publicKey));
        return (isPinned || pinnedKeyIds.isEmpty()) && SignatureAlgorithm.accepts(signatureAlgorithms, publicKey, isPinned);
    }
}
