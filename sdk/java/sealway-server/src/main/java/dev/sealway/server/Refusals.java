package dev.sealway.server;

import dev.sealway.session.three.Problem;
import dev.sealway.wire.Blame;
import dev.sealway.wire.Code;
import dev.sealway.wire.Header;
import dev.sealway.wire.Json;
import dev.sealway.wire.RefusedException;
import dev.sealway.wire.SealwayException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** What a peer is told of a refusal: little on the old wires, a problem on wire 3. {@code spec/registry.toml}. */
public final class Refusals {
    private Refusals() {
    }

    /** A refusal of the old wires by its error string. */
    static RefusalException plain(int status, String error, SealwayException why) {
        List<Header> headers = new ArrayList<>(List.of(new Header("Content-Type", "application/json"),
                new Header("Cache-Control", "no-store")));
        if (status == 405) {
            headers.add(new Header("Allow", "POST, OPTIONS"));
        } else if (status == 503) {
            headers.add(new Header("Retry-After", "1"));
        }
        byte[] body = Json.write(Map.of("error", error)).getBytes(StandardCharsets.US_ASCII);
        PlainAnswer answer = new PlainAnswer(status, List.copyOf(headers), body);
        return new RefusalException(answer, why == null ? error : why.code(), why == null ? Blame.PEER : why.blame(), why);
    }

    /** A refusal on wires 1 and 2. */
    static RefusalException old(SealwayException why) {
        if (why instanceof RefusalException made) {
            return made;
        }
        if (why instanceof StoreException store) {
            return store.isFull() ? plain(400, "CRYPTO_ERROR", why) : plain(503, "SERVICE_UNAVAILABLE", why);
        }
        Code code = why instanceof RefusedException refused ? refused.reason() : Code.PROVIDER;
        return switch (code) {
            case SESSION_UNKNOWN, SESSION_EXPIRED -> plain(401, "SESSION_EXPIRED", why);
            case BODY_TOO_LARGE -> plain(413, "PAYLOAD_TOO_LARGE", why);
            case POLICY -> plain(403, "SESSION_FORBIDDEN", why);
            case PROVIDER, RESERVATION_MISMATCH -> plain(503, "SERVICE_UNAVAILABLE", why);
            default -> plain(400, "CRYPTO_ERROR", why);
        };
    }

    /** A refusal on wire 3. */
    static RefusalException three(SealwayException why, Map<String, Object> more) {
        if (why instanceof RefusalException made) {
            return made;
        }
        Code code = why instanceof RefusedException refused ? refused.reason() : Code.PROVIDER;
        String problem = switch (code) {
            case SESSION_UNKNOWN, SESSION_EXPIRED -> "session_expired";
            case TIMESTAMP_OUTSIDE_WINDOW -> "clock_skew";
            case REPLAYED -> "replayed";
            case BODY_TOO_LARGE -> "too_large";
            case POLICY -> "policy";
            case PROVIDER, RESERVATION_MISMATCH -> "store_unavailable";
            default -> "unsealable";
        };
        return problem(problem, more, why);
    }

    /** A problem of the registry. */
    static RefusalException problem(String code, Map<String, Object> more, SealwayException why) {
        Problem problem = Problem.of(code, more);
        List<Header> headers = new ArrayList<>(List.of(new Header("Content-Type", Problem.TYPE), new Header("Cache-Control", "no-store")));
        if (problem.status() == 503) {
            headers.add(new Header("Retry-After", "1"));
        }
        PlainAnswer answer = new PlainAnswer(problem.status(), List.copyOf(headers), problem.write());
        return new RefusalException(answer, why == null ? code : why.code(), why == null ? Blame.PEER : why.blame(), why);
    }
}
