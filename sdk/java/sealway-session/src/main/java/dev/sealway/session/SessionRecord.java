package dev.sealway.session;

import dev.sealway.crypto.SecretBytes;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.JsonNumber;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.StrictBase64;
import dev.sealway.wire.Wire;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** A server's record of a session. {@code spec/session.md#authority-endpoints}.
 *
 * @param id {@code S-…} or {@code A-…}
 * @param wire the only wire it is usable with
 * @param clientId null on wire 1
 * @param subject whom a verified token names, or null
 * @param createdMs when it was agreed; of a renewed one, when the first of its chain was
 * @param expiresMs the end of its life, milliseconds of the epoch
 * @param key 32 bytes: the session key, or on wire 3 the {@code prk}
 * @param tenant of the client, or null
 * @param auth {@code none}, {@code bearer}, {@code dpop} or {@code certificate}
 */
public record SessionRecord(String id, Wire wire, String clientId, String subject, long createdMs, long expiresMs,
        SecretBytes key, String tenant, String auth) {
    private static final Set<String> MEMBERS = Set.of("id", "wire", "client_id", "subject", "created_ms", "expires_ms",
            "key", "tenant", "auth");
    private static final List<String> AUTHS = List.of("none", "bearer", "dpop", "certificate");
    private static final int KEY_LEN = 32;

    /** Returns true if its life is over. */
    public boolean isExpired(long nowMs) {
        return nowMs >= expiresMs;
    }

    /** Returns the {@code X-Kid} of the session. */
    public String kid() {
        return Forms.KID_PREFIX + id;
    }

    /** Returns true if it is an anonymous session of wire 1. */
    public boolean isAnonymous() {
        return id.startsWith("A-");
    }

    /** Returns the session as a message of the authority, which holds the key. */
    public Map<String, Object> toMembers() {
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("id", id);
        out.put("wire", wire.number());
        out.put("client_id", clientId);
        out.put("subject", subject);
        out.put("created_ms", createdMs);
        out.put("expires_ms", expiresMs);
        byte[] bytes = key.copy();
        out.put("key", StrictBase64.encode(bytes));
        java.util.Arrays.fill(bytes, (byte) 0);
        out.put("tenant", tenant);
        out.put("auth", auth);
        return out;
    }

    /** Reads a message of the authority.
     *
     * @throws ProtocolException {@code field_invalid} with the member at fault
     */
    public static SessionRecord fromMembers(Object value) {
        if (!(value instanceof Map<?, ?> members)) {
            throw new ProtocolException(Code.FIELD_INVALID);
        }
        for (Object name : members.keySet()) {
            if (!MEMBERS.contains(name)) {
                throw new ProtocolException(Code.FIELD_INVALID, "unknown member");
            }
        }
        String id = text(members, "id", true);
        Wire wire = Wire.of(number(members, "wire"));
        String clientId = text(members, "client_id", false);
        byte[] key = StrictBase64.decode(text(members, "key", true));
        String auth = members.get("auth") == null ? "none" : text(members, "auth", true);
        check(Forms.isSessionId(id), "id");
        check(wire != null, "wire");
        check(clientId == null ? wire == Wire.ONE : Forms.isClientId(clientId), "client_id");
        check(key != null && key.length == KEY_LEN, "key");
        check(AUTHS.contains(auth), "auth");
        return new SessionRecord(id, wire, clientId, text(members, "subject", false), number(members, "created_ms"),
                number(members, "expires_ms"), SecretBytes.owning(key), text(members, "tenant", false), auth);
    }

    private static void check(boolean isGood, String name) {
        if (!isGood) {
            throw new ProtocolException(Code.FIELD_INVALID, name);
        }
    }

    private static String text(Map<?, ?> members, String name, boolean isRequired) {
        Object value = members.get(name);
        check(value instanceof String || value == null && !isRequired, name);
        return (String) value;
    }

    private static long number(Map<?, ?> members, String name) {
        Long number = members.get(name) instanceof JsonNumber found ? found.whole(Long.MAX_VALUE) : null;
        check(number != null, name);
        return number;
    }

    @Override
    public String toString() {
        return "SessionRecord[" + id + ", wire " + wire.number() + "]";
    }
}
