package dev.sealway.client;

import dev.sealway.session.SealedMessage;
import dev.sealway.session.nativeprotocol.NativeCall;
import dev.sealway.session.nativeprotocol.NativeSession;
import dev.sealway.session.nativeprotocol.FrameSealer;
import dev.sealway.session.nativeprotocol.InnerHeaders;
import dev.sealway.session.nativeprotocol.Placement;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import java.util.HexFormat;
import java.util.List;

/** One exchange of wire 3 whose bytes another HTTP library carries. Close it: it holds the session's keys. */
public final class SealedExchange implements AutoCloseable {
    private final NativeSessions sessions;
    private final Settings settings;
    private final String method;
    private final String target;
    private final LiveSession live;
    private boolean isClosed;
    private boolean isEmpty;
    private NativeCall call;
    private Moment sent;

    SealedExchange(NativeSessions sessions, Settings settings, LiveSession live, String method, String target) {
        this.sessions = sessions;
        this.settings = settings;
        this.live = live;
        this.method = method;
        this.target = target;
    }

    /** A request that is sealed frame by frame: what stands outside, and what the first frame begins with. */
    public record StreamRequest(HeaderList headers, String contentType, byte[] innerHeaders, FrameSealer sealer) {
    }

    /** Begins a request with a body.
     *
     * @param headers those that go within
     */
    public synchronized StreamRequest begin(List<Header> headers) {
        sent = Moment.now(settings.day());
        byte[] inner = InnerHeaders.encode(NativeSessions.inner(headers));
        NativeSession.StreamRequest begun = live.session().begin(method, target, Placement.OCTETS, Long.toString(live.stampMs()),
                HexFormat.of().formatHex(settings.draw(16)));
        call = begun.call();
        return new StreamRequest(begun.headers(), Placement.OCTETS, inner, begun.sealer());
    }

    /** Seals a request without a body. */
    public synchronized SealedMessage empty(List<Header> headers) {
        sent = Moment.now(settings.day());
        NativeSession.WholeRequest sealed = live.session().seal(method, target, NativeSessions.inner(headers), new byte[0], live.stampMs(),
                settings.draw(16));
        isEmpty = true;
        call = sealed.call();
        return sealed.message();
    }

    /** What opens the answer.
     *
     * @throws dev.sealway.wire.ProtocolException {@code unsealed} for {@link #refused}; what is wrong with its headers
     */
    public synchronized NativeCall.Opening opening(int status, HeaderList headers) {
        return call.opening(status, headers);
    }

    /** What an answer that is not sealed says. The session or its clock has been mended for the next exchange; {@code isRepeatable} says
     * whether this request, if it had no body, may be sent in one: {@code spec/session-3.md}, "What is sent again". */
    public synchronized Rejection refused(int status, byte[] body) {
        ProblemException refusal = NativeSessions.refusal(settings.serverUrl(), method, status, body);
        long elapsedMs = sent.elapsedMs(settings.day());
        return new Rejection(refusal, sessions.mend(live, call, elapsedMs, refusal) && isEmpty);
    }

    /** A refusal, and whether the request may be sent once more. */
    public record Rejection(ProblemException refusal, boolean isRepeatable) {
    }

    @Override
    public synchronized void close() {
        if (!isClosed) {
            isClosed = true;
            live.release();
        }
    }
}
