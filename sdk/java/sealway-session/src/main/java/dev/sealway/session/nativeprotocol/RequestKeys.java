package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.SecretBytes;
import dev.sealway.session.SealedMessage;
import dev.sealway.wire.Code;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.ProtocolException;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;

/** Keys of both directions, under which a client seals requests and opens their answers. */
public abstract sealed class RequestKeys implements AutoCloseable permits NativeSession, OneShotKeys {
    private static final int TARGET_MAX = 8192;
    private final Protocol protocol;
    private final String id;
    private final SecretBytes c2s;
    private final SecretBytes s2c;
    private final byte[] prefix;

    /** @param id by which messages name the keys
     * @param prefix of the stream of a request */
    RequestKeys(Protocol protocol, String id, SecretBytes c2s, SecretBytes s2c, byte[] prefix) {
        this.protocol = protocol;
        this.id = id;
        this.c2s = c2s;
        this.s2c = s2c;
        this.prefix = prefix;
    }

    /** Returns the id of the session, or the name of the service's key. */
    public final String id() {
        return id;
    }

    final Protocol protocol() {
        return protocol;
    }

    final SecretBytes s2c() {
        return s2c;
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
    public final WholeRequest seal(String method, String target, Iterable<Header> inner, byte[] body, long nowMs, byte[] nonceRandom) {
        byte[] head = InnerHeaders.encode(inner);
        boolean isBodiless = body.length == 0 && Placement.isBodiless(method, prefix.length + head.length);
        StreamRequest begun = begin(method, target, isBodiless ? null : Placement.OCTETS, Long.toString(nowMs),
                HexFormat.of().formatHex(nonceRandom));
        return new WholeRequest(Placement.message(begun.headers(), begun.sealer().sealAll(head, body), isBodiless), begun.call());
    }

    /** Begins a request with a given timestamp and nonce. The first frame begins with the encoded inner headers.
     *
     * @param contentType the outer one, or null
     */
    public final StreamRequest begin(String method, String target, String contentType, String stamp, String nonce) {
        if (List.of("CONNECT", "TRACE", "OPTIONS").contains(method.toUpperCase(Locale.ROOT)) || target.length() > TARGET_MAX) {
            throw new ProtocolException(Code.HEADER_INVALID, "method or target");
        }
        String type = contentType == null ? "" : contentType;
        FrameKeys frames = FrameKeys.ofRequest(protocol, c2s, method, target, type, stamp, nonce, id);
        HeaderList headers = HeaderList.of(HeaderNames.X_SEAL, protocol.number, HeaderNames.X_KID, protocol.kidPrefix + id,
                HeaderNames.X_IDEMPOTENCY_KEY, stamp + "." + nonce);
        return new StreamRequest(headers, new FrameSealer(frames, prefix), call(method, target, stamp, nonce));
    }

    /** Returns the call of a request that was sent with this nonce. */
    public final NativeCall call(String method, String target, String stamp, String nonce) {
        return new NativeCall(this, method, target, stamp, nonce);
    }

    /** Wipes the keys: nothing can be sealed or opened any more. */
    @Override
    public void close() {
        c2s.destroy();
        s2c.destroy();
    }
}
