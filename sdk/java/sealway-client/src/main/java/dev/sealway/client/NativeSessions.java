package dev.sealway.client;

import dev.sealway.client.Transport.Deadline;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.nativeprotocol.Agreement;
import dev.sealway.session.nativeprotocol.NativeCall;
import dev.sealway.session.nativeprotocol.NativeSession;
import dev.sealway.session.nativeprotocol.ClientShare;
import dev.sealway.session.nativeprotocol.InnerHeaders;
import dev.sealway.session.nativeprotocol.KeySet;
import dev.sealway.session.nativeprotocol.Placement;
import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Code;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.SealwayException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReentrantLock;

/** The sessions of one client on wire 3, one at a time, and calls in them. {@code spec/session-3.md}. */
final class NativeSessions {
    private static final String INIT_PATH = "/v3/sessions";
    private static final HeaderList NO_HEADERS = HeaderList.of();
    private final Settings settings;
    private final Transport transport;
    private final Keyring keyring;
    private final ReentrantLock lock = new ReentrantLock();
    private final AtomicReference<LiveSession> current = new AtomicReference<>();

    NativeSessions(Settings settings, Transport transport) {
        this.settings = settings;
        this.transport = transport;
        this.keyring = new Keyring(settings.trust(), settings.origin(), this::fetchKeys);
    }

    /** What came of a request: an answer that opened, or a refusal. */
    private record Outcome(SealedAnswer answer, NativeCall call, long elapsedMs, ProblemException refusal) {
    }

    /** What was done once and is not done again. */
    private static final class Again {
        private boolean clock;
        private boolean session;
    }

    /** The session in use, for {@link LiveSession#release} to give back; renewed when it is about to end, agreed anew when there is none
     * or it is {@code not} wanted any more. Whoever comes while one is agreed waits for that one. */
    LiveSession acquire(LiveSession not, Deadline deadline) {
        LiveSession live = current.get();
        if (live != null && live != not && live.isUsable() && live.acquire()) {
            return live;
        }
        try {
            if (!lock.tryLock(deadline.leftNanos(), TimeUnit.NANOSECONDS)) {
                throw new TransportException("deadline", "no session with " + settings.sessionUrl().getAuthority() + " within "
                        + deadline.length().toMillis() + " ms (timeout): another call is still agreeing one", null);
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new TransportException("cancelled", "the call was cancelled", interrupted);
        }
        try {
            live = current.get();
            if (live != null && live != not && live.isUsable() && live.acquire()) {
                return live;
            }
            LiveSession made = live != null && live != not && !live.isOver() ? renewed(live, deadline) : null;
            if (made == null) {
                made = agree(null, deadline);
            }
            made.acquire();
            current.set(made);
            if (live != null) {
                live.retire();
            }
            return made;
        } finally {
            lock.unlock();
        }
    }

    /** Whatever speaks against a renewal, an init may still do. */
    private LiveSession renewed(LiveSession old, Deadline deadline) {
        if (!old.acquire()) {
            return null;
        }
        try {
            return agree(old, deadline);
        } catch (SealwayException refused) {
            return null;
        } finally {
            old.release();
        }
    }

    private LiveSession agree(LiveSession old, Deadline deadline) {
        Suite suite = old == null ? settings.suites().getFirst() : Suite.of(old.session().agreed().suite());
        List<String> suites = settings.suites().stream().map(Suite::text).toList();
        boolean mayChange = true;
        boolean mayRetake = true;
        while (true) {
            Laps laps = new Laps();
            String authorization = old == null ? settings.authorization().get() : null;
            Agreement.Offer offer = new Agreement.Offer(suites, settings.clientId(), settings.ttlSec(), keyring.pinned(), authorization);
            ClientShare share = ClientShare.generate(suite, settings.random());
            Agreement agreement = old == null ? new Agreement(offer, share, settings.prove()) : new Agreement(offer, share, old.session());
            laps.named("share");
            Transport.WholeAnswer answer = ask(agreement.request().write(), authorization, old, deadline);
            laps.http();
            if (answer.status() != 201) {
                ProblemException refusal = refusal(settings.sessionUrl(), "POST", answer.status(), answer.body());
                Suite wanted = refusal.code().equals("suite_required") ? wanted(refusal.problem(), suites) : null;
                if (wanted != null && wanted != suite && mayChange) {
                    suite = wanted;
                    mayChange = false;
                } else if (refusal.code().equals("key_retired") && mayRetake
                        && keyring.retired(refusal.problem().members().get("key_set"))) {
                    mayRetake = false;
                } else {
                    throw refusal;
                }
                continue;
            }
            NativeSession session = finish(agreement, answer, deadline);
            laps.named("agree");
            keyring.remember(session.agreed(), deadline);
            return new LiveSession(session, settings.day(), laps.metrics(answer.headers().first("Server-Timing")));
        }
    }

    private NativeSession finish(Agreement agreement, Transport.WholeAnswer answer, Deadline deadline) {
        try {
            return agreement.finish(answer.status(), answer.body(), (id, serverTimeMs) -> keyring.key(id, serverTimeMs, deadline));
        } catch (ProtocolException refused) {
            if (refused.reason() == Code.KEY_UNTRUSTED) {
                throw refused;
            }
            throw new ProtocolException(refused.reason(), refused.field(), refused.reason().meaning() + " The answer of "
                    + settings.sessionUrl().getAuthority() + " to the init does not hold: another service, a proxy or an impostor gave it");
        }
    }

    private static Suite wanted(Problem problem, List<String> ours) {
        List<String> theirs = problem.texts("suites");
        String chosen = Suite.chosen(ours, theirs);
        return chosen == null ? null : Suite.of(chosen);
    }

    /** Sends an init in plain, or a renewal in the session that it is about. */
    private Transport.WholeAnswer ask(byte[] body, String authorization, LiveSession old, Deadline deadline) {
        if (old == null) {
            HeaderList headers = authorization == null ? NO_HEADERS : HeaderList.of("Authorization", authorization);
            return transport.send(Transport.request(settings.sessionUrl(), "POST", INIT_PATH, headers, "application/json",
                    BodyPublishers.ofByteArray(body)), deadline);
        }
        SealedRequest request = new SealedRequest("POST", INIT_PATH + "/" + old.session().id() + "/renew",
                List.of(new Header("content-type", "application/json")), body, null);
        Outcome outcome = exchange(old, settings.sessionUrl(), request, deadline, new Laps());
        if (outcome.refusal() != null) {
            throw outcome.refusal();
        }
        return new Transport.WholeAnswer(outcome.answer().status(), outcome.answer().headers(), outcome.answer().body());
    }

    private KeySet fetchKeys(Deadline deadline) {
        Transport.WholeAnswer answer = transport.send(Transport.request(settings.sessionUrl(), "GET", KeySet.PATH, NO_HEADERS, null,
                BodyPublishers.noBody()), deadline);
        if (answer.status() != 200) {
            throw new ProtocolException(Code.KEY_UNTRUSTED, KeySet.PATH, settings.origin() + " answered with status " + answer.status()
                    + " where its key set should be: pin its public key itself, or check that the path is passed on");
        }
        return KeySet.parse(answer.body());
    }

    /** What an answer to this method says that is not sealed. */
    static ProblemException refusal(URI service, String method, int status, byte[] body) {
        Problem problem = Problem.parse(status, body);
        if (problem == null && status == 401 && method.equals("HEAD")) {
            // What answers HEAD has no body to say more in; of sealed requests, this status has one reason. It proves nothing.
            problem = Problem.of("session_expired", Map.of());
        }
        return problem == null ? ProblemException.of(service, status, body) : ProblemException.of(service, status, problem.code(), problem);
    }

    /** A call with a body that is there: one that the service has certainly not served is sent once more. */
    SealedAnswer call(SealedRequest request, Deadline deadline) {
        Laps laps = new Laps();
        Again again = new Again();
        LiveSession live = acquire(null, deadline);
        try {
            laps.skip();
            while (true) {
                Outcome outcome = exchange(live, settings.serverUrl(), request, deadline, laps);
                if (outcome.refusal() == null) {
                    return outcome.answer();
                }
                LiveSession next = heal(live, outcome.call(), outcome.elapsedMs(), outcome.refusal(), again, deadline);
                if (next != live) {
                    live.release();
                    live = next;
                }
            }
        } finally {
            live.release();
        }
    }

    /** What to send a call in that was refused, if it may be sent once more; else throws the refusal. */
    private LiveSession heal(LiveSession live, NativeCall call, long elapsedMs, ProblemException refusal, Again again, Deadline deadline) {
        if (!mend(live, call, elapsedMs, refusal)) {
            throw refusal;
        }
        boolean isClock = refusal.code().equals("clock_skew");
        if (isClock ? again.clock : again.session) {
            throw refusal;
        }
        again.clock |= isClock;
        again.session |= !isClock;
        return isClock ? live : acquire(live, deadline);
    }

    /** Takes the time that a refusal proves, or gives up the session that it says is over: that serves the next call, whatever becomes of
     * this one. Whether this one may be sent once more. */
    boolean mend(LiveSession live, NativeCall call, long elapsedMs, ProblemException refusal) {
        Problem problem = refusal.problem();
        if (problem == null) {
            return false;
        }
        boolean isProven = false;
        if (problem.code().equals("clock_skew")) {
            isProven = call.provesClock(problem);
            if (isProven) {
                live.setClock(problem.serverTimeMs());
            }
        } else if (problem.code().equals("session_expired")) {
            // Nobody has proven that: but else whoever only posts is stuck with it.
            drop(live);
        }
        return call.isSentAgain(problem, isProven, elapsedMs);
    }

    /** Gives up this session, and no newer one. */
    private void drop(LiveSession live) {
        if (current.compareAndSet(live, null)) {
            live.retire();
        }
    }

    static List<Header> inner(List<Header> headers) {
        for (Header header : headers) {
            if (HeaderNames.isSealing(header.name()) || header.name().toLowerCase(Locale.ROOT).startsWith("x-sealway-")) {
                throw new IllegalArgumentException("the header " + header.name() + " is not a caller's to send");
            }
        }
        // Those that frame a message are made anew at the other end.
        return headers.stream().filter(header -> InnerHeaders.isAllowed(header.name())).toList();
    }

    private Outcome exchange(LiveSession live, URI base, SealedRequest request, Deadline deadline, Laps laps) {
        Moment sent = Moment.now(settings.day());
        NativeSession.WholeRequest sealed = live.session().seal(request.method(), request.target(), inner(request.headers()), request.body(),
                live.stampMs(), settings.draw(16));
        SealedMessage message = sealed.message();
        BodyPublisher body = message.body().length == 0 ? BodyPublishers.noBody() : BodyPublishers.ofByteArray(message.body());
        HttpRequest plain = Transport.request(base, request.method(), request.target(), message.headers(), message.contentType(), body);
        laps.named("aes-gcm-encrypt");
        Transport.WholeAnswer answer = transport.send(plain, deadline);
        laps.http();
        if (!answer.headers().has(HeaderNames.X_SEAL)) {
            return new Outcome(null, sealed.call(), sent.elapsedMs(settings.day()), refusal(base, request.method(), answer.status(), answer.body()));
        }
        NativeCall.PlainAnswer opened = sealed.call().open(answer.status(), answer.headers(), answer.body());
        laps.named("aes-gcm-decrypt");
        return new Outcome(new SealedAnswer(answer.status(), opened.headers(), opened.body(),
                laps.metrics(answer.headers().first("Server-Timing"))), sealed.call(), sent.elapsedMs(settings.day()), null);
    }

    private static NativeCall.Opening opening(NativeCall call, Transport.StreamAnswer answer) {
        try {
            return call.opening(answer.status(), answer.headers());
        } catch (SealwayException refused) {
            Transport.giveUp(answer.body());
            throw refused;
        }
    }

    /** A call whose bodies flow. It is sent once more only if it has no body: of another, a part is gone. */
    SealedStream stream(SealedRequest request, InputStream body, Deadline deadline) {
        Again again = new Again();
        LiveSession live = acquire(null, deadline);
        boolean isOpen = false;
        try {
            while (true) {
                Moment sent = Moment.now(settings.day());
                byte[] head = InnerHeaders.encode(inner(request.headers()));
                boolean isBodiless = body == null && request.body().length == 0 && Placement.isBodiless(request.method(), head.length);
                NativeCall call;
                HttpRequest plain;
                if (body == null) {
                    NativeSession.WholeRequest sealed = live.session().seal(request.method(), request.target(), inner(request.headers()),
                            request.body(), live.stampMs(), settings.draw(16));
                    call = sealed.call();
                    plain = Transport.request(settings.serverUrl(), request.method(), request.target(), sealed.message().headers(),
                            sealed.message().contentType(),
                            isBodiless ? BodyPublishers.noBody() : BodyPublishers.ofByteArray(sealed.message().body()));
                } else {
                    NativeSession.StreamRequest begun = live.session().begin(request.method(), request.target(), Placement.OCTETS,
                            Long.toString(live.stampMs()), HexFormat.of().formatHex(settings.draw(16)));
                    call = begun.call();
                    plain = Transport.request(settings.serverUrl(), request.method(), request.target(), begun.headers(), Placement.OCTETS,
                            new SealingBody(head, body, begun.sealer()));
                }
                Transport.StreamAnswer answer = transport.open(plain, deadline);
                if (answer.headers().has(HeaderNames.X_SEAL)) {
                    SealedStream stream = new SealedStream(settings.serverUrl(), answer, opening(call, answer), live,
                            settings.idleTimeout(), settings.streamMax(), deadline);
                    isOpen = true;
                    return stream;
                }
                ProblemException refusal = refusal(settings.serverUrl(), request.method(), answer.status(),
                        SealedStream.readPlain(settings.serverUrl(), answer, deadline));
                if (body != null) {
                    mend(live, call, sent.elapsedMs(settings.day()), refusal);
                    throw refusal;
                }
                LiveSession next = heal(live, call, sent.elapsedMs(settings.day()), refusal, again, deadline);
                if (next != live) {
                    live.release();
                    live = next;
                }
            }
        } finally {
            if (!isOpen) {
                live.release();
            }
        }
    }

    /** Has the service forget the session, if there is one. */
    void end(Deadline deadline) {
        LiveSession live = current.getAndSet(null);
        if (live == null || live.isOver() || !live.acquire()) {
            return;
        }
        try {
            SealedRequest request = new SealedRequest("DELETE", INIT_PATH + "/" + live.session().id(), List.of(), new byte[0], null);
            Outcome outcome = exchange(live, settings.sessionUrl(), request, deadline, new Laps());
            if (outcome.refusal() != null && !outcome.refusal().code().equals("session_expired")) {
                throw outcome.refusal();
            }
        } finally {
            live.release();
            live.retire();
        }
    }

    /** Forgets the session and wipes its keys, without asking anybody. */
    void forget() {
        LiveSession live = current.getAndSet(null);
        if (live != null) {
            live.retire();
        }
    }
}
