package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.SecretBytes;
import dev.sealway.session.SealedMessage;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.ProtocolException;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;

/** A client's session of wire 3. */
public final class NativeSession implements AutoCloseable {
    private static final int TARGET_MAX = 8192;
    private final InitAnswer agreed;
    private final String clientId;
    private final SessionKeys keys;

    NativeSession(InitAnswer agreed, String clientId, SessionKeys keys) {
        this.agreed = agreed;
        this.clientId = clientId;
        this.keys = keys;
    }

    /** Returns the id. */
    public String id() {
        return agreed.sessionId();
    }

    /** Returns the terms of the session, all under the service's signature. */
    public InitAnswer agreed() {
        return agreed;
    }

    /** Returns the client id of the agreement. */
    public String clientId() {
        return clientId;
    }

    /** Returns the end of its life by the server's clock, in milliseconds of the epoch. */
    public long expiresMs() {
        return agreed.serverTimeMs() + agreed.expiresInSec() * 1000;
    }

    SecretBytes exporter() {
        return keys.exporter();
    }

    SessionKeys keys() {
        return keys;
    }

    /** Returns a copy of its {@code prk}, for tests and stores. */
    public byte[] copyPrk() {
        return keys.prk.copy();
    }

    /** A request that is sealed frame by frame. */
    public record StreamRequest(HeaderList headers, FrameSealer sealer, NativeCall call) {
    }

    /** A request that was sealed as a whole. */
    public record WholeRequest(SealedMessage message, NativeCall call) {
    }

    /** Seals a whole request. Without a body, and for a method that has none, the stream goes into {@code X-Sealed}.
     *
     * @param target path and query as they are sent
     * @param nonceRandom 16 random bytes
     * @throws ProtocolException {@code inner_headers_invalid}; {@code header_invalid} for a method or a target that is not sealed
     */
    public WholeRequest seal(String method, String target, Iterable<Header> inner, byte[] body, long nowMs, byte[] nonceRandom) {
        byte[] head = InnerHeaders.encode(inner);
        boolean isBodiless = body.length == 0 && Placement.isBodiless(method, head.length);
        StreamRequest begun = begin(method, target, isBodiless ? null : Placement.OCTETS, Long.toString(nowMs),
                HexFormat.of().formatHex(nonceRandom));
        return new WholeRequest(Placement.message(begun.headers(), begun.sealer().sealAll(head, body), isBodiless), begun.call());
    }

    /** Begins a request with a given timestamp and nonce. The first frame begins with the encoded inner headers.
     *
     * @param contentType the outer one, or null
     */
    public StreamRequest begin(String method, String target, String contentType, String stamp, String nonce) {
        if (List.of("CONNECT", "TRACE", "OPTIONS").contains(method.toUpperCase(Locale.ROOT)) || target.length() > TARGET_MAX) {
            throw new ProtocolException(Code.HEADER_INVALID, "method or target");
        }
        String type = contentType == null ? "" : contentType;
        FrameKeys frames = FrameKeys.ofRequest(keys.c2s, method, target, type, stamp, nonce, id());
        HeaderList headers = HeaderList.of(HeaderNames.X_SEAL, "3", HeaderNames.X_KID, Forms.KID_PREFIX + id(),
                HeaderNames.X_IDEMPOTENCY_KEY, stamp + "." + nonce);
        return new StreamRequest(headers, new FrameSealer(frames), new NativeCall(this, method, target, stamp, nonce));
    }

    /** Returns the call of a request that was sent with this nonce. */
    public NativeCall call(String method, String target, String stamp, String nonce) {
        return new NativeCall(this, method, target, stamp, nonce);
    }

    /** Wipes the keys: nothing can be sealed or opened any more. */
    @Override
    public void close() {
        keys.close();
    }

    @Override
    public String toString() {
        return "NativeSession[" + id() + "]";
    }
}
