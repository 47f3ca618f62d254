package dev.sealway.session;

import dev.sealway.crypto.Curve;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.Json;
import dev.sealway.wire.JsonNumber;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.StrictBase64;
import dev.sealway.wire.Wire;
import java.nio.charset.StandardCharsets;
import java.security.KeyPair;
import java.security.interfaces.ECPublicKey;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The client's side of an init of wire 1 or 2. {@code spec/session.md#init}. */
public final class CompatInit {
    private static final long U32 = 0xffff_ffffL;
    private final Wire wire;
    private final boolean isAnonymous;
    private final String clientId;
    private final KeyPair ephemeral;
    private final SealedMessage request;

    /** Creates an init and its request.
     *
     * @param clientId of wire 2; ignored on wire 1
     * @param ttlSec in seconds, or null
     * @param ephemeral a key pair of P-256 made for this init alone
     * @param nonceRandom 16 random bytes
     * @throws ProtocolException {@code header_invalid} for a malformed client id
     */
    public CompatInit(Wire wire, boolean isAnonymous, String clientId, Long ttlSec, KeyPair ephemeral, byte[] nonceRandom,
            long nowMs) {
        this.wire = wire;
        this.isAnonymous = isAnonymous;
        this.clientId = wire == Wire.TWO ? clientId : null;
        this.ephemeral = ephemeral;
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("clientPublicKey", StrictBase64.encode(Curve.P256.encode((ECPublicKey) ephemeral.getPublic())));
        String nonce = HexFormat.of().formatHex(nonceRandom);
        List<Header> headers;
        if (wire == Wire.ONE) {
            body.put("keyAgreement", "ECDH_P256");
            headers = List.of(new Header(HeaderNames.X_NONCE, nonce), new Header(HeaderNames.X_TIMESTAMP, Long.toString(nowMs)));
        } else {
            if (clientId == null || !Forms.isClientId(clientId)) {
                throw new ProtocolException(Code.HEADER_INVALID, HeaderNames.X_CLIENT_ID);
            }
            headers = List.of(new Header(HeaderNames.X_IDEMPOTENCY_KEY, nowMs + "." + nonce),
                    new Header(HeaderNames.X_CLIENT_ID, clientId));
        }
        if (ttlSec != null) {
            body.put("ttlSec", ttlSec);
        }
        this.request = new SealedMessage(new HeaderList(headers), "application/json",
                Json.write(body).getBytes(StandardCharsets.UTF_8));
    }

    /** Returns the request, which is not sealed. */
    public SealedMessage request() {
        return request;
    }

    /** Finishes with the body of an answer with status 200.
     *
     * @throws ProtocolException {@code json_invalid}, {@code field_invalid}, {@code public_key_invalid}
     */
    public CompatSession finish(byte[] answer, long nowMs) {
        if (!(Json.parse(answer) instanceof Map<?, ?> members)) {
            throw new ProtocolException(Code.FIELD_INVALID);
        }
        String id = text(members, "sessionId");
        if (!Forms.isSessionId(id)) {
            throw new ProtocolException(Code.FIELD_INVALID, "sessionId");
        }
        byte[] share = StrictBase64.decode(text(members, "serverPublicKey"));
        if (share == null || share.length != Curve.P256.publicLen()) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
        String algorithm = text(members, "encAlg");
        if (!algorithm.equals("A256GCM") && !algorithm.equals("aes-256-gcm")) {
            throw new ProtocolException(Code.FIELD_INVALID, "encAlg");
        }
        Long ttl = members.get("expiresInSec") instanceof JsonNumber number && number.text().chars().allMatch(Character::isDigit)
                ? number.whole(U32) : null;
        if (ttl == null) {
            throw new ProtocolException(Code.FIELD_INVALID, "expiresInSec");
        }
        SecretBytes key = CompatKeys.agree(ephemeral.getPrivate(), share, id, wire, isAnonymous, clientId);
        return new CompatSession(wire, clientId, id, nowMs + ttl * 1000, key);
    }

    private static String text(Map<?, ?> members, String name) {
        if (members.get(name) instanceof String text) {
            return text;
        }
        throw new ProtocolException(Code.FIELD_INVALID, name);
    }

    @Override
    public String toString() {
        return "CompatInit[wire " + wire.number() + "]";
    }
}
