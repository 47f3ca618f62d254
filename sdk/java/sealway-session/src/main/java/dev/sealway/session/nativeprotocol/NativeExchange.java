package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Hashes;
import dev.sealway.exchange.Exchange;
import dev.sealway.exchange.PlainRequest;
import dev.sealway.exchange.Stream;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.SessionRecord;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.StrictBase64;
import dev.sealway.wire.Wire;
import java.util.Map;

/** A sealed request of wire 3, whose body is a stream of frames. {@code spec/session-3.md#sealed-requests}. */
public final class NativeExchange extends Exchange {
    private static final int NONCE_MIN = 16;
    private static final int TARGET_MAX = 8192;
    private final String method;
    private final String target;
    private final String contentType;
    private final byte[] inHeader;

    private NativeExchange(String kid, Forms.StampAndNonce key, String method, String target, HeaderList headers, long nowMs,
            ReplayPolicy policy) {
        // However wide the window is configured: a client counts on the greatest width before it sends again.
        super(Wire.NATIVE, kid, key, NONCE_MIN, nowMs, policy.atMost(Resends.WINDOW_MAX_MS));
        this.method = method;
        this.target = target;
        this.contentType = headers.optional("Content-Type");
        this.inHeader = Placement.inHeader(headers);
    }

    /** Makes check 3.
     *
     * @param target path and query as sent
     * @throws ProtocolException the code of the check that failed */
    public static NativeExchange read(String method, String target, HeaderList headers, long nowMs, ReplayPolicy policy) {
        String kid = headers.required(HeaderNames.X_KID);
        String key = headers.required(HeaderNames.X_IDEMPOTENCY_KEY);
        if (!headers.required(HeaderNames.X_SEAL).equals("3")) {
            throw new ProtocolException(Code.HEADER_INVALID, HeaderNames.X_SEAL);
        }
        if (target.length() > TARGET_MAX) {
            throw new ProtocolException(Code.HEADER_INVALID, "target");
        }
        return new NativeExchange(kid, Forms.split(key), method, target, headers, nowMs, policy);
    }

    @Override
    protected Stream stream(SessionRecord session) {
        FrameKeys keys = FrameKeys.ofRequest(Protocol.SESSION, Hashes.kept(session.key(), "sealway/3 c2s"), method, target,
                contentType, stamp, nonce, session.id());
        return Stream.frames(new FrameOpener(keys, inHeader != null), inHeader);
    }

    @Override
    protected PlainRequest open(SessionRecord session, Stream stream, byte[] first) {
        return new PlainRequest(stream.headers(), first, new NativeReply(session, method, target, nonce));
    }

    @Override
    protected Map<String, Object> clockProof(SessionRecord session, long atMs) {
        return Map.of("server_time_ms", atMs, "mac", StrictBase64.encode(Proofs.clockMac(session, nonce, stamp, atMs)));
    }
}
