package dev.sealway.client;

import dev.sealway.client.Transport.Deadline;
import dev.sealway.client.Transport.Outgoing;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.nativeprotocol.Agreement;
import dev.sealway.session.nativeprotocol.ClientShare;
import dev.sealway.session.nativeprotocol.KeySet;
import dev.sealway.session.nativeprotocol.NativeCall;
import dev.sealway.session.nativeprotocol.NativeSession;
import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Code;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Stage;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReentrantLock;

/** Sessions of one client on wire 3, one at a time, and calls in them. {@code spec/session-3.md}. */
final class NativeSessions implements KeySource<LiveSession> {
    private static final String INIT_PATH = "/v3/sessions";
    private static final HeaderList NO_HEADERS = HeaderList.of();
    private final Settings settings;
    private final Transport transport;
    private final Keyring keyring;
    private final SealedCalls<LiveSession> calls;
    private final ReentrantLock lock = new ReentrantLock();
    private final AtomicReference<LiveSession> current = new AtomicReference<>();

    NativeSessions(Settings settings, Transport transport) {
        this.settings = settings;
        this.transport = transport;
        this.keyring = new Keyring(settings.trust(), settings.signatureAlgorithms(), settings.origin(), this::fetchKeys);
        this.calls = new SealedCalls<>(settings.calls(), transport, this);
    }

    SealedCalls<LiveSession> calls() {
        return calls;
    }

    @Override
    public LiveSession acquire(Deadline deadline) {
        return acquire(null, deadline);
    }

    @Override
    public LiveSession renew(LiveSession used, boolean isClock, Deadline deadline) {
        return isClock ? used : acquire(used, deadline);
    }

    /** Returns the session in use, which {@link LiveSession#release} gives back. A session that is about to end is renewed; a new one is agreed if
     * there is none, or none but {@code not}. Callers that come in the meantime wait for it. */
    private LiveSession acquire(LiveSession not, Deadline deadline) {
        return ProtocolException.locate(Stage.AGREEMENT, settings.authorityHost(), () -> current(not, deadline));
    }

    private LiveSession current(LiveSession not, Deadline deadline) {
        LiveSession live = current.get();
        if (live != null && live != not && live.isUsable() && live.acquire()) {
            return live;
        }
        deadline.lock(lock, settings.authorityHost());
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

    /** Renews a session; null if that fails for any reason, since an init may still succeed. */
    private LiveSession renewed(LiveSession before, Deadline deadline) {
        if (!before.acquire()) {
            return null;
        }
        try {
            return agree(before, deadline);
        } catch (SealwayException failed) {
            return null;
        } finally {
            before.release();
        }
    }

    private LiveSession agree(LiveSession before, Deadline deadline) {
        Suite suite = before == null ? settings.suites().getFirst() : Suite.of(before.session().agreed().suite());
        List<String> suites = settings.suites().stream().map(Suite::text).toList();
        boolean mayChange = true;
        boolean mayRetake = true;
        while (true) {
            Laps laps = new Laps();
            String authorization = before == null ? settings.authorization().get() : null;
            Agreement.Offer offer = new Agreement.Offer(suites, settings.clientId(), settings.ttlSec(), keyring.pinned(), authorization,
                    settings.signatureAlgorithms());
            ClientShare share = ClientShare.generate(suite, settings.random());
            Agreement agreement = before == null ? new Agreement(offer, share, settings.proof()) : new Agreement(offer, share, before.session());
            laps.named("share");
            Moment sent = Moment.now(settings.day());
            Transport.WholeAnswer answer = ask(agreement.request().write(), authorization, before, deadline);
            long arrivedNanos = System.nanoTime();
            laps.http();
            if (answer.status() != 201) {
                ProblemException error = rejection(Stage.AGREEMENT, settings.authorityHost(), "POST", answer.status(), answer.body());
                Suite wanted = error.code().equals("suite_required") ? wanted(error.problem(), suites) : null;
                if (wanted != null && wanted != suite && mayChange) {
                    suite = wanted;
                    mayChange = false;
                } else if (error.code().equals("key_retired") && mayRetake && keyring.retired(error.problem().members().get("key_set"))) {
                    mayRetake = false;
                } else {
                    throw error;
                }
                continue;
            }
            NativeSession session = agreement.finish(answer.status(), answer.body(), (id, serverTimeMs) -> keyring.key(id, serverTimeMs, deadline));
            laps.named("agree");
            keyring.remember(session.agreed(), deadline);
            return new LiveSession(session, settings.day(), sent, arrivedNanos,
                    settings.measured(laps.metrics(before == null ? "init" : "renew", answer.headers().first("Server-Timing"))));
        }
    }

    private static Suite wanted(Problem problem, List<String> ours) {
        List<String> theirs = problem.texts("suites");
        String chosen = Suite.chosen(ours, theirs);
        return chosen == null ? null : Suite.of(chosen);
    }

    /** Sends an init in plain, or a renewal in the session that it renews. */
    private Transport.WholeAnswer ask(byte[] body, String authorization, LiveSession before, Deadline deadline) {
        if (before == null) {
            HeaderList headers = authorization == null ? NO_HEADERS : HeaderList.of("Authorization", authorization);
            return transport.send(Stage.AGREEMENT, Outgoing.of(settings.authorityUrl(), "POST", INIT_PATH,
                    new SealedMessage(headers, "application/json", body)), deadline);
        }
        SealedRequest request = new SealedRequest("POST", INIT_PATH + "/" + before.session().id() + "/renew",
                List.of(new Header("content-type", "application/json")), body, null);
        SealedCalls.Outcome outcome = calls.exchange(Stage.AGREEMENT, settings.authorityUrl(), before, request, deadline, new Laps());
        if (outcome.error() != null) {
            throw outcome.error();
        }
        return new Transport.WholeAnswer(outcome.answer().status(), outcome.answer().headers(), outcome.answer().body());
    }

    private KeySet fetchKeys(Deadline deadline) {
        Transport.WholeAnswer answer = transport.send(Stage.AGREEMENT, Outgoing.of(settings.authorityUrl(), "GET", KeySet.PATH,
                new SealedMessage(NO_HEADERS, null, new byte[0])), deadline);
        if (answer.status() != 200) {
            throw new ProtocolException(Code.KEY_UNTRUSTED, KeySet.PATH, "the key set could not be fetched (status " + answer.status()
                    + "). A pinned public key needs none.");
        }
        return KeySet.parse(answer.body());
    }

    @Override
    public ProblemException rejection(Stage stage, String host, String method, int status, byte[] body) {
        Problem problem = Problem.parse(status, body);
        if (problem == null && status == 401 && method.equals("HEAD")) {
            // An answer to HEAD has no body; for sealed requests this status has one reason. It proves nothing.
            problem = Problem.of("session_expired", Map.of());
        }
        return problem == null ? ProblemException.of(stage, host, status, body) : ProblemException.of(stage, host, status, problem.code(), problem);
    }

    /** Takes the time that a rejection proves, or gives up the session that it says is over, so that the next call works; and decides about a
     * retry of this one. */
    @Override
    public SealedExchange.Rejection mend(LiveSession live, NativeCall call, long elapsedMs, ProblemException error) {
        Problem problem = error.problem();
        if (problem == null) {
            return new SealedExchange.Rejection(error, false);
        }
        boolean isProven = false;
        if (problem.code().equals("clock_skew")) {
            isProven = call.provesClock(problem);
            if (isProven) {
                live.setClock(problem.serverTimeMs());
            }
        } else if (problem.code().equals("session_expired")) {
            // Unproven: but a client that only sends POST would keep a session that is gone.
            drop(live);
        }
        return new SealedExchange.Rejection(call.isUnserved(problem, isProven, elapsedMs) ? error.unserved() : error,
                call.isSentAgain(problem, isProven, elapsedMs));
    }

    /** Gives up this session, but no newer one. */
    private void drop(LiveSession live) {
        if (current.compareAndSet(live, null)) {
            live.retire();
        }
    }

    /** Ends the session at the service, if there is one. */
    void end(Deadline deadline) {
        LiveSession live = current.getAndSet(null);
        if (live == null || live.isOver() || !live.acquire()) {
            return;
        }
        try {
            SealedRequest request = new SealedRequest("DELETE", INIT_PATH + "/" + live.session().id(), List.of(), new byte[0], null);
            Laps laps = new Laps();
            SealedCalls.Outcome outcome = calls.exchange(Stage.AGREEMENT, settings.authorityUrl(), live, request, deadline, laps);
            settings.measured(laps.metrics("end", null));
            if (outcome.error() != null && !outcome.error().code().equals("session_expired")) {
                throw outcome.error();
            }
        } finally {
            live.release();
            live.retire();
        }
    }

    /** Forgets the session and wipes its keys; the service is not asked. */
    void forget() {
        LiveSession live = current.getAndSet(null);
        if (live != null) {
            live.retire();
        }
    }
}
