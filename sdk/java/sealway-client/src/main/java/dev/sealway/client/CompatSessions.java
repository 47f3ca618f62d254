package dev.sealway.client;

import dev.sealway.client.Transport.Deadline;
import dev.sealway.client.Transport.Outgoing;
import dev.sealway.crypto.Curve;
import dev.sealway.session.CompatInit;
import dev.sealway.session.CompatSession;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.SealedMessage;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.Json;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.Stage;
import dev.sealway.wire.UsageException;
import java.time.InstantSource;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;

/** Sessions of one client on wires 1 and 2, and calls in them. {@code spec/session.md}. */
final class CompatSessions {
    private static final long RENEW_BEFORE_MS = 10_000;
    private final Settings settings;
    private final Transport transport;
    private final ReentrantLock lock = new ReentrantLock();
    private volatile Lease current;

    CompatSessions(Settings settings, Transport transport) {
        this.settings = settings;
        this.transport = transport;
    }

    /** A session and the time for which it is used, by the longer of two clocks: a machine that slept finds it over. */
    record Lease(CompatSession session, Moment sent, long usableMs, CallMetrics metrics) {
        boolean isUsable(InstantSource day) {
            return sent.elapsedMs(day) < usableMs;
        }
    }

    Lease session(Lease not, Deadline deadline) {
        Lease agreed = current;
        if (agreed != null && agreed != not && agreed.isUsable(settings.day())) {
            return agreed;
        }
        deadline.lock(lock, settings.authorityHost());
        try {
            agreed = current;
            if (agreed == null || agreed == not || !agreed.isUsable(settings.day())) {
                current = agreed = ProtocolException.locate(Stage.AGREEMENT, settings.authorityHost(), () -> init(deadline));
            }
            return agreed;
        } finally {
            lock.unlock();
        }
    }

    private Lease init(Deadline deadline) {
        Laps laps = new Laps();
        CompatInit init = new CompatInit(settings.wire(), settings.initPath().endsWith("/anon"), settings.clientId(), settings.ttlSec(),
                Curve.P256.generate(settings.random()), settings.draw(16), System.currentTimeMillis());
        SealedMessage request = init.request();
        laps.named("share");
        Moment sent = Moment.now(settings.day());
        Transport.WholeAnswer answer = transport.send(Stage.AGREEMENT, Outgoing.of(settings.authorityUrl(), "POST", settings.initPath(), request),
                deadline);
        laps.http();
        if (answer.status() != 200 || ProblemException.isPage(answer.body())) {
            throw refusal(Stage.AGREEMENT, settings.authorityHost(), answer);
        }
        long nowMs = System.currentTimeMillis();
        CompatSession session = init.finish(answer.body(), nowMs);
        laps.named("agree");
        long lifeMs = session.expiresMs() - nowMs;
        long usableMs = lifeMs - Math.min(lifeMs / 10, RENEW_BEFORE_MS);
        return new Lease(session, sent, usableMs,
                settings.measured(laps.metrics("init", answer.headers().first("Server-Timing"))));
    }

    private static ProblemException refusal(Stage stage, String host, Transport.WholeAnswer answer) {
        try {
            if (Json.parse(answer.body()) instanceof Map<?, ?> members && members.get("error") instanceof String error) {
                return ProblemException.of(stage, host, answer.status(), error, null);
            }
        } catch (ProtocolException none) {
            return ProblemException.of(stage, host, answer.status(), answer.body());
        }
        return ProblemException.of(stage, host, answer.status(), answer.body());
    }

    /** Sends a call, and retries it once in a new session after a 401 that says that the session is over. On these wires nothing proves that
     * answer: a party that ends TLS can have the call served twice. */
    SealedAnswer call(SealedRequest request, Deadline deadline) {
        if (!request.method().equals("POST")) {
            throw new UsageException("method is " + request.method() + ": wires 1 and 2 seal POST alone");
        }
        Laps laps = new Laps();
        Lease agreed = session(null, deadline);
        laps.skip();
        try {
            return exchange(agreed, request, deadline, laps);
        } catch (ProblemException refused) {
            if (refused.status() != 401 || !refused.code().equals("SESSION_EXPIRED")) {
                throw refused;
            }
        }
        return exchange(session(agreed, deadline), request, deadline, laps);
    }

    private SealedAnswer exchange(Lease agreed, SealedRequest request, Deadline deadline, Laps laps) {
        int query = request.target().indexOf('?');
        String path = query < 0 ? request.target() : request.target().substring(0, query);
        CompatSession.Call call = agreed.session().seal(path, request.body(), System.currentTimeMillis(), settings.draw(16),
                settings.draw(12));
        SealedMessage message = call.message();
        laps.named("aes-gcm-encrypt");
        Transport.WholeAnswer answer = transport.send(Stage.CALL, Outgoing.of(settings.url(), "POST", request.target(), message), deadline);
        laps.http();
        String host = Settings.host(settings.url());
        if (!answer.headers().has(HeaderNames.X_KID) && (answer.status() != 200 || ProblemException.isPage(answer.body()))) {
            throw refusal(Stage.CALL, host, answer);
        }
        byte[] body = ProtocolException.locate(Stage.CALL, host,
                () -> call.open(answer.headers(), answer.status(), answer.body(), System.currentTimeMillis(), ReplayPolicy.DEFAULT));
        laps.named("aes-gcm-decrypt");
        return new SealedAnswer(answer.status(), answer.headers(), body, settings.measured(laps.metrics("call", answer.headers().first("Server-Timing"))));
    }

    void forget() {
        current = null;
    }

    /** Forgets the session and wipes its key: no call is under way any more. */
    void close() {
        Lease agreed = current;
        current = null;
        if (agreed != null) {
            agreed.session().close();
        }
    }
}
