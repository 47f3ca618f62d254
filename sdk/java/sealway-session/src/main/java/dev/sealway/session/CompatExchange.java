package dev.sealway.session;

import dev.sealway.exchange.Exchange;
import dev.sealway.exchange.PlainRequest;
import dev.sealway.exchange.Stream;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.Wire;

/** A sealed call of wires 1 and 2, whose body is one sealed message. {@code spec/session.md#open}. */
public final class CompatExchange extends Exchange {
    private final String kid;
    private final String path;
    /** Null on wire 1. */
    private final String clientId;
    /** Null on wire 2. */
    private final CompatSeal.DetachedParts parts;

    private CompatExchange(Wire wire, String kid, Forms.StampAndNonce key, String path, String clientId, CompatSeal.DetachedParts parts, long nowMs,
            ReplayPolicy policy) {
        super(wire, kid, key, CompatSeal.NONCE_MIN, nowMs, policy);
        this.kid = kid;
        this.path = path;
        this.clientId = clientId;
        this.parts = parts;
    }

    /** Reads the headers, checks 2 to 6.
     *
     * @param path as sent, without its query
     * @throws ProtocolException the code of the check that failed */
    public static CompatExchange read(String path, HeaderList headers, long nowMs, ReplayPolicy policy) {
        String kid = headers.required(HeaderNames.X_KID);
        if (Wire.compat(headers) == Wire.ONE) {
            String nonce = headers.required(HeaderNames.X_NONCE);
            String stamp = headers.required(HeaderNames.X_TIMESTAMP);
            CompatSeal.DetachedParts parts = CompatSeal.DetachedParts.read(headers);
            if (path.length() > CompatSeal.PATH_MAX) {
                throw new ProtocolException(Code.BODY_TOO_LARGE, "path");
            }
            return new CompatExchange(Wire.ONE, kid, new Forms.StampAndNonce(stamp, nonce), path, null, parts, nowMs, policy);
        }
        String key = headers.required(HeaderNames.X_IDEMPOTENCY_KEY);
        String clientId = headers.required(HeaderNames.X_CLIENT_ID);
        if (!Forms.isClientId(clientId)) {
            throw new ProtocolException(Code.HEADER_INVALID, HeaderNames.X_CLIENT_ID);
        }
        return new CompatExchange(Wire.TWO, kid, Forms.split(key), path, clientId, null, nowMs, policy);
    }

    @Override
    protected void check(SessionRecord session, long atMs) {
        super.check(session, atMs);
        if (clientId != null && !clientId.equals(session.clientId())) {
            throw new ProtocolException(Code.CLIENT_MISMATCH);
        }
    }

    @Override
    protected Stream stream(SessionRecord session) {
        return Stream.whole();
    }

    @Override
    protected PlainRequest open(SessionRecord session, Stream stream, byte[] first) {
        byte[] plaintext = parts != null ? CompatSeal.open1(session.key(), parts, CompatSeal.aad1("POST", path, stamp, nonce, kid), first)
                : CompatSeal.open2(session.key(), CompatSeal.aad2(stamp, nonce, kid, clientId), first);
        return new PlainRequest(null, plaintext, new CompatReply(session, path));
    }
}
