package dev.sealway.client;

import dev.sealway.client.Transport.Deadline;
import dev.sealway.client.Transport.Outgoing;
import dev.sealway.session.nativeprotocol.InnerHeaders;
import dev.sealway.session.nativeprotocol.NativeCall;
import dev.sealway.session.nativeprotocol.Placement;
import dev.sealway.session.nativeprotocol.RequestKeys;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.Stage;
import dev.sealway.wire.UsageException;
import java.io.InputStream;
import java.net.URI;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;

/** Sealed calls on wires 3 and 4: each try under keys of a source, and retries where the spec allows. */
final class SealedCalls<U extends KeyUse> {
    private static final Runnable NOTHING = () -> { };
    private final CallSettings settings;
    private final Transport transport;
    private final KeySource<U> source;

    SealedCalls(CallSettings settings, Transport transport, KeySource<U> source) {
        this.settings = settings;
        this.transport = transport;
        this.source = source;
    }

    /** The outcome of an exchange: an answer that opened, or an error. */
    record Outcome(SealedAnswer answer, NativeCall call, long elapsedMs, ProblemException error) {
    }

    /** Retries of one call, of which each happens once. */
    private static final class Retries {
        private boolean clock;
        private boolean keys;
    }

    /** Makes a call whose body is there as a whole, and retries it where the spec allows. */
    SealedAnswer call(SealedRequest request, Deadline deadline) {
        Laps laps = new Laps();
        Retries retries = new Retries();
        U use = source.acquire(deadline);
        try {
            laps.skip();
            while (true) {
                Outcome outcome = exchange(Stage.CALL, settings.url(), use, request, deadline, laps);
                if (outcome.error() == null) {
                    settings.measured(outcome.answer().metrics());
                    return outcome.answer();
                }
                U next = next(use, source.mend(use, outcome.call(), outcome.elapsedMs(), outcome.error()), retries, deadline);
                if (next != use) {
                    use.release();
                    use = next;
                }
            }
        } finally {
            use.release();
        }
    }

    /** Returns the keys under which a rejected call is retried.
     *
     * @throws ProblemException the rejection, if the call is not retried */
    private U next(U use, SealedExchange.Rejection rejection, Retries retries, Deadline deadline) {
        boolean isClock = rejection.error().code().equals("clock_skew");
        if (!rejection.isSentAgain() || (isClock ? retries.clock : retries.keys)) {
            throw rejection.error();
        }
        retries.clock |= isClock;
        retries.keys |= !isClock;
        return source.renew(use, isClock, deadline);
    }

    /** Returns the headers of a request that go inside the seal. */
    static List<Header> inner(List<Header> headers) {
        for (Header header : headers) {
            if (HeaderNames.isSealing(header.name()) || header.name().toLowerCase(Locale.ROOT).startsWith("x-sealway-")) {
                throw new UsageException("the header " + header.name() + " is reserved for sealing: leave it out");
            }
        }
        // The other end writes the headers of framing anew.
        return headers.stream().filter(header -> InnerHeaders.isAllowed(header.name())).toList();
    }

    private RequestKeys.WholeRequest seal(U use, SealedRequest request) {
        return ProtocolException.locate(Stage.CONFIGURATION, "", () -> use.keys().seal(request.method(), request.target(),
                inner(request.headers()), request.body(), use.stampMs(), settings.draw(16)));
    }

    /** Sends a request to a URL, and opens its answer. */
    Outcome exchange(Stage stage, URI url, U use, SealedRequest request, Deadline deadline, Laps laps) {
        Moment sent = Moment.now(settings.day());
        RequestKeys.WholeRequest sealed = seal(use, request);
        laps.named("aes-gcm-encrypt");
        Outgoing outgoing = Outgoing.of(url, request.method(), request.target(), sealed.message());
        Transport.WholeAnswer answer = transport.send(stage, outgoing, deadline);
        laps.http();
        long elapsedMs = sent.elapsedMs(settings.day());
        if (!answer.headers().has(HeaderNames.X_SEAL)) {
            return new Outcome(null, sealed.call(), elapsedMs, source.rejection(stage, outgoing.host(), request.method(), answer.status(), answer.body()));
        }
        NativeCall.PlainAnswer opened = ProtocolException.locate(stage, outgoing.host(),
                () -> sealed.call().open(answer.status(), answer.headers(), answer.body()));
        laps.named("aes-gcm-decrypt");
        if (opened.isProblem()) {
            return new Outcome(null, sealed.call(), elapsedMs, problem(outgoing.host(), answer.status(), opened.body()));
        }
        return new Outcome(new SealedAnswer(answer.status(), opened.headers(), opened.body(),
                laps.metrics("call", answer.headers().first("Server-Timing"))), sealed.call(), elapsedMs, null);
    }

    private static ProblemException problem(String host, int status, byte[] body) {
        return ProtocolException.locate(Stage.CALL, host, () -> ProblemException.oneShot(host, NativeCall.problem(status, body), true));
    }

    private static NativeCall.Opening opening(NativeCall call, Transport.StreamAnswer answer, String host) {
        try {
            return call.opening(answer.status(), answer.headers());
        } catch (ProtocolException broken) {
            Transport.discard(answer.body());
            throw broken.at(Stage.CALL, host);
        }
    }

    /** Begins a request whose body is sealed as it is read. */
    static RequestKeys.StreamRequest begin(CallSettings settings, KeyUse use, String method, String target) {
        return ProtocolException.locate(Stage.CONFIGURATION, "", () -> use.keys().begin(method, target, Placement.OCTETS, Long.toString(use.stampMs()),
                HexFormat.of().formatHex(settings.draw(16))));
    }

    /** Makes a call whose bodies are streams. It is retried only without {@code body}, of which a part is gone.
     *
     * @param body or null for that of the request */
    SealedStream stream(SealedRequest request, InputStream body, Deadline deadline) {
        Retries retries = new Retries();
        U use = source.acquire(deadline);
        boolean isOpen = false;
        try {
            while (true) {
                Laps laps = new Laps();
                Moment sent = Moment.now(settings.day());
                NativeCall call;
                Outgoing outgoing;
                if (body == null) {
                    RequestKeys.WholeRequest sealed = seal(use, request);
                    call = sealed.call();
                    outgoing = Outgoing.of(settings.url(), request.method(), request.target(), sealed.message());
                } else {
                    byte[] head = ProtocolException.locate(Stage.CONFIGURATION, "", () -> InnerHeaders.encode(inner(request.headers())));
                    RequestKeys.StreamRequest begun = begin(settings, use, request.method(), request.target());
                    call = begun.call();
                    outgoing = new Outgoing(settings.url(), request.method(), request.target(), begun.headers(), Placement.OCTETS,
                            new SealingBody(head, body, begun.sealer()));
                }
                laps.named("aes-gcm-encrypt");
                Transport.StreamAnswer answer = transport.open(outgoing, deadline);
                laps.http();
                long elapsedMs = sent.elapsedMs(settings.day());
                ProblemException error;
                if (answer.headers().has(HeaderNames.X_SEAL)) {
                    NativeCall.Opening opening = opening(call, answer, settings.host());
                    SealedStream stream = new SealedStream(settings.host(), answer, opening, opening.isProblem() ? NOTHING : use::release,
                            settings.idleTimeout(), deadline);
                    if (!opening.isProblem()) {
                        isOpen = true;
                        settings.measured(laps.metrics("call", answer.headers().first("Server-Timing")));
                        return stream;
                    }
                    error = problem(settings.host(), answer.status(), stream.readWhole());
                } else {
                    error = source.rejection(Stage.CALL, settings.host(), request.method(), answer.status(),
                            SealedStream.readPlain(settings.host(), answer, deadline));
                }
                SealedExchange.Rejection rejection = source.mend(use, call, elapsedMs, error);
                if (body != null) {
                    throw rejection.error();
                }
                U next = next(use, rejection, retries, deadline);
                if (next != use) {
                    use.release();
                    use = next;
                }
            }
        } finally {
            if (!isOpen) {
                use.release();
            }
        }
    }
}
