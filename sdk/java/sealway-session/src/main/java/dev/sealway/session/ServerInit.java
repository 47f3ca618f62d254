package dev.sealway.session;

import dev.sealway.crypto.Curve;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.Json;
import dev.sealway.wire.JsonNumber;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.StrictBase64;
import dev.sealway.wire.Wire;
import java.security.KeyPair;
import java.security.interfaces.ECPublicKey;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Pattern;

/** The server's side of an init of wires 1 and 2, with the ttl bounds of the spec. {@code spec/session.md#init}. */
public final class ServerInit {
    private static final long TTL_MIN_SEC = 300;
    private static final long TTL_MAX_SEC = 3600;
    private static final long TTL_DEFAULT_SEC = 1800;
    private static final long TTL_AUTHENTICATED_SEC = 3600;
    private static final long TTL_ANONYMOUS_SEC = 120;
    private static final int NONCE_MIN_V1 = 16;
    private static final Pattern NUMBER = Pattern.compile("[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?");
    private final Family family;
    private final Wire wire;
    private final String clientId;
    private final String share;
    private final Long ttlSec;
    private final long nowMs;

    private ServerInit(Family family, Wire wire, String clientId, String share, Long ttlSec, long nowMs) {
        this.family = family;
        this.wire = wire;
        this.clientId = clientId;
        this.share = share;
        this.ttlSec = ttlSec;
        this.nowMs = nowMs;
    }

    /** An accepted init: the body of its answer, and the session to store. */
    public record Grant(String answer, SessionRecord session) {
    }

    /** Reads an init, in the order of the spec's table. The public key is checked after the nonce has been claimed.
     *
     * @throws ProtocolException the code of the check that failed
     */
    public static Unreplayed<ServerInit> read(Family family, HeaderList headers, byte[] body, long nowMs, ReplayPolicy policy) {
        Wire wire = switch (family) {
            case SESSION -> Wire.compat(headers);
            case ANONYMOUS -> Wire.ONE;
            case V1 -> Wire.TWO;
        };
        Object json = Json.parse(body);
        Map<?, ?> members = json instanceof Map<?, ?> object ? object : Map.of();
        String nonce;
        String stamp;
        String clientId = null;
        String share;
        if (wire == Wire.ONE) {
            nonce = headers.required(HeaderNames.X_NONCE);
            stamp = headers.required(HeaderNames.X_TIMESTAMP);
            if (!"ECDH_P256".equals(members.get("keyAgreement"))) {
                throw new ProtocolException(Code.FIELD_INVALID, "keyAgreement");
            }
            share = share(members);
        } else {
            String key = key(headers);
            clientId = headers.required(HeaderNames.X_CLIENT_ID);
            if (!Forms.isClientId(clientId)) {
                throw new ProtocolException(Code.HEADER_INVALID, HeaderNames.X_CLIENT_ID);
            }
            share = share(members);
            if (key == null) {
                throw new ProtocolException(Code.IDEMPOTENCY_KEY_SHAPE);
            }
            Forms.StampAndNonce split = Forms.split(key);
            stamp = split.stamp();
            nonce = split.nonce();
        }
        Forms.checkRequestNonce(nonce, family == Family.V1 ? NONCE_MIN_V1 : CompatSeal.NONCE_MIN);
        long stampMs = Forms.stampMs(stamp);
        policy.check(stampMs, nowMs);
        Long ttlSec = null;
        if (family == Family.SESSION) {
            ttlSec = wire == Wire.ONE ? laxTtl(members.get("ttlSec")) : strictTtl(members.get("ttlSec"));
        }
        Claim claim = wire == Wire.ONE
                ? Claim.of(Claim.Scope.WIRE_1_INIT, "", nonce, stampMs, nowMs, policy)
                : Claim.of(Claim.Scope.CLIENT, clientId, nonce, stampMs, nowMs, policy);
        return new Unreplayed<>(new ServerInit(family, wire, clientId, share, ttlSec, nowMs), claim);
    }

    /** The key header; null where it is there and repeated or unprintable, which is a fault of its shape. */
    private static String key(HeaderList headers) {
        try {
            return headers.required(HeaderNames.X_IDEMPOTENCY_KEY);
        } catch (ProtocolException refused) {
            if (refused.reason() == Code.HEADER_MISSING) {
                throw refused;
            }
            return null;
        }
    }

    private static String share(Map<?, ?> members) {
        if (members.get("clientPublicKey") instanceof String text && !text.isEmpty()) {
            return text;
        }
        throw new ProtocolException(Code.FIELD_INVALID, "clientPublicKey");
    }

    private static Long strictTtl(Object value) {
        if (value == null) {
            return null;
        }
        double sec = value instanceof JsonNumber number ? number.asDouble() : -1;
        if (sec < 0 || sec != Math.rint(sec)) {
            throw new ProtocolException(Code.FIELD_INVALID, "ttlSec");
        }
        return (long) sec;
    }

    private static Long laxTtl(Object value) {
        double sec = switch (value) {
            case JsonNumber number -> number.asDouble();
            case String text when NUMBER.matcher(text.strip()).matches() -> Double.parseDouble(text.strip());
            case null, default -> Double.NaN;
        };
        return Double.isFinite(sec) ? (Long) (long) sec : null;
    }

    /** Agrees the key.
     *
     * @param isAuthenticated whether a token was presented and accepted
     * @param subject whom it names, or null
     * @param idRandom 16 random bytes
     * @param ephemeral a key pair of P-256 made for this init alone
     * @throws ProtocolException {@code public_key_invalid}
     */
    public Grant accept(boolean isAuthenticated, String subject, byte[] idRandom, KeyPair ephemeral) {
        byte[] peer = StrictBase64.decode(share);
        if (peer == null) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
        boolean isAnonymous = family == Family.ANONYMOUS;
        String id = Forms.sessionId(idRandom, isAnonymous);
        SecretBytes key = CompatKeys.agree(ephemeral.getPrivate(), peer, id, wire, isAnonymous, clientId);
        long ttl = switch (family) {
            case SESSION -> ttlSec == null ? TTL_DEFAULT_SEC : Math.clamp(ttlSec, TTL_MIN_SEC, TTL_MAX_SEC);
            case ANONYMOUS -> TTL_ANONYMOUS_SEC;
            case V1 -> isAuthenticated ? TTL_AUTHENTICATED_SEC : TTL_DEFAULT_SEC;
        };
        // Four members and never a fifth: there are clients that fail on one.
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("sessionId", id);
        answer.put("serverPublicKey", StrictBase64.encode(Curve.P256.encode((ECPublicKey) ephemeral.getPublic())));
        answer.put("encAlg", family == Family.V1 ? "aes-256-gcm" : "A256GCM");
        answer.put("expiresInSec", ttl);
        SessionRecord session = new SessionRecord(id, wire, clientId, subject, nowMs, nowMs + ttl * 1000, key, null,
                isAuthenticated ? "bearer" : "none");
        return new Grant(Json.write(answer), session);
    }

    @Override
    public String toString() {
        return "ServerInit[" + family + "]";
    }
}
