package dev.sealway.client;

import dev.sealway.session.SealedMessage;
import dev.sealway.session.nativeprotocol.FrameSealer;
import dev.sealway.session.nativeprotocol.InnerHeaders;
import dev.sealway.session.nativeprotocol.NativeCall;
import dev.sealway.session.nativeprotocol.Placement;
import dev.sealway.session.nativeprotocol.RequestKeys;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Stage;
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

    /** A request that is sealed frame by frame.
     *
     * @param headers outside the seal
     * @param innerHeaders the beginning of the first frame */
    public record StreamRequest(HeaderList headers, String contentType, byte[] innerHeaders, FrameSealer sealer) {
    }

    /** Begins a request with a body.
     *
     * @param headers inside the seal
     * @throws SealwayException of the stage {@code configuration} for a request that cannot be sealed
     */
    public synchronized StreamRequest begin(List<Header> headers) {
        sent = Moment.now(settings.day());
        return ProtocolException.locate(Stage.CONFIGURATION, "", () -> {
            byte[] inner = InnerHeaders.encode(SealedCalls.inner(headers));
            RequestKeys.StreamRequest begun = SealedCalls.begin(settings.calls(), live, method, target);
            call = begun.call();
            return new StreamRequest(begun.headers(), Placement.OCTETS, inner, begun.sealer());
        });
    }

    /** Seals a request without a body.
     *
     * @param headers inside the seal
     * @throws SealwayException as {@link #begin}
     */
    public synchronized SealedMessage empty(List<Header> headers) {
        sent = Moment.now(settings.day());
        RequestKeys.WholeRequest sealed = ProtocolException.locate(Stage.CONFIGURATION, "",
                () -> live.session().seal(method, target, SealedCalls.inner(headers), new byte[0], live.stampMs(), settings.draw(16)));
        isEmpty = true;
        call = sealed.call();
        return sealed.message();
    }

    /** Checks an answer's headers and returns the opener of its stream.
     *
     * @throws ProtocolException {@code unsealed} for an answer that {@link #rejection} reads; the code of the check that failed
     */
    public synchronized NativeCall.Opening opening(int status, HeaderList headers) {
        return ProtocolException.locate(Stage.CALL, host(), () -> call.opening(status, headers));
    }

    /** Returns an error of the opener with the stage and the host of this call. */
    public ProtocolException located(ProtocolException broken) {
        return broken.at(Stage.CALL, host());
    }

    private String host() {
        return Settings.host(settings.url());
    }

    /** Reads an answer that is not sealed. The next exchange has a new session or the proven time, if the answer asks for either:
     * {@code spec/session-3.md}, "What is sent again". */
    public synchronized Rejection rejection(int status, byte[] body) {
        ProblemException error = sessions.rejection(Stage.CALL, host(), method, status, body);
        Rejection rejection = sessions.mend(live, call, sent.elapsedMs(settings.day()), error);
        return new Rejection(rejection.error(), rejection.isSentAgain() && isEmpty);
    }

    /** An answer that is not sealed.
     *
     * @param isSentAgain true if the request is to be retried in a new exchange */
    public record Rejection(ProblemException error, boolean isSentAgain) {
    }

    @Override
    public synchronized void close() {
        if (!isClosed) {
            isClosed = true;
            live.release();
        }
    }
}
