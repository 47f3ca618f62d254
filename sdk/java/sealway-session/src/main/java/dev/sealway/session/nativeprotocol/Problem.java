package dev.sealway.session.nativeprotocol;

import dev.sealway.wire.Forms;
import dev.sealway.wire.Json;
import dev.sealway.wire.JsonNumber;
import dev.sealway.wire.ProtocolException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A problem of wire 3 (RFC 9457). {@code spec/session-3.md#problems}.
 *
 * @param code the code
 * @param status the status
 * @param members all members, these two included
 */
public record Problem(String code, int status, Map<String, Object> members) {
    /** Media type of problems. */
    public static final String TYPE = "application/problem+json";
    /** Bound on a problem that a client reads, in bytes. */
    public static final int BYTES_MAX = 98_304;
    private static final String URN = "urn:sealway:problem:";

    /** The problems of the registry: their status and title. */
    private static final Map<String, Definition> KNOWN = Map.ofEntries(
            known("session_expired", 401, "The session is over or unknown: agree a new one."),
            known("unsealable", 400, "The request does not open."),
            known("replayed", 409, "The request was received before."),
            known("clock_skew", 400, "The request's time is too far from the server's."),
            known("suite_required", 409, "Begin anew with another suite."),
            known("key_retired", 409, "No key that the client pinned or sealed to is live any more."),
            known("unauthenticated", 401, "The client did not prove who it is."),
            known("policy", 403, "The client may not do this."),
            known("wire_disabled", 403, "This wire is not served here."),
            known("too_large", 413, "The message is over its bound."),
            known("malformed", 400, "The message is not what it should be."),
            known("not_found", 404, "There is no such thing here."),
            known("method_not_allowed", 405, "Another method is needed."),
            known("rate_limited", 429, "Too many requests: wait."),
            known("store_unavailable", 503, "Try again later."),
            known("upstream_unreachable", 502, "The service behind did not answer."),
            known("upstream_timeout", 504, "The service behind did not answer in time."));

    private record Definition(int status, String title) {
    }

    private static Map.Entry<String, Definition> known(String code, int status, String title) {
        return Map.entry(code, new Definition(status, title));
    }

    /** Returns a problem of the registry, with more members. */
    public static Problem of(String code, Map<String, Object> more) {
        Definition known = KNOWN.get(code);
        Map<String, Object> members = new LinkedHashMap<>();
        members.put("type", URN + code);
        members.put("title", known.title());
        members.put("status", known.status());
        members.put("code", code);
        members.putAll(more);
        return new Problem(code, known.status(), members);
    }

    /** Reads the body of an answer that is not sealed; null if it is not a problem of Sealway's, or over its bound. */
    public static Problem parse(int status, byte[] body) {
        try {
            if (body.length <= BYTES_MAX && Json.parse(body) instanceof Map<?, ?> found && found.get("code") instanceof String code
                    && (URN + code).equals(found.get("type"))) {
                Map<String, Object> members = new LinkedHashMap<>();
                found.forEach((name, value) -> members.put((String) name, value));
                return new Problem(code, status, members);
            }
        } catch (ProtocolException none) {
            return null;
        }
        return null;
    }

    /** Returns the body. */
    public byte[] write() {
        return Json.write(members).getBytes(StandardCharsets.UTF_8);
    }

    /** Returns its {@code server_time_ms}, or null. */
    public Long serverTimeMs() {
        Object time = members.get("server_time_ms");
        return time instanceof JsonNumber number ? number.whole(Forms.TIME_MAX_MS) : time instanceof Long number ? number : null;
    }

    /** Returns a text member, or null. */
    public String text(String name) {
        return members.get(name) instanceof String text ? text : null;
    }

    /** Returns a member that is a list of texts; empty if it is not. */
    public List<String> texts(String name) {
        return members.get(name) instanceof List<?> items
                ? items.stream().filter(String.class::isInstance).map(String.class::cast).toList() : List.of();
    }
}
