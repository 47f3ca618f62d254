package dev.sealway.session.nativeprotocol;

import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.Json;
import dev.sealway.wire.JsonNumber;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.StrictBase64;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/** Reads the members of a JSON object one after the other; {@code null} is as absent. */
final class Members {
    static final long U32 = 0xffff_ffffL;
    static final long U64 = -1L;
    private final Map<?, ?> members;
    private final Code fault;

    private Members(Map<?, ?> members, Code fault) {
        this.members = members;
        this.fault = fault;
    }

    /** @param fault what every fault is called; null for {@code json_invalid} and {@code field_invalid} */
    static Members parse(byte[] data, Code fault) {
        Object value;
        try {
            value = Json.parse(data);
        } catch (ProtocolException invalid) {
            throw fault == null ? invalid : new ProtocolException(fault);
        }
        if (!(value instanceof Map<?, ?> members)) {
            throw new ProtocolException(fault == null ? Code.FIELD_INVALID : fault);
        }
        return new Members(members, fault);
    }

    /** Of an object within another; faults are of the member {@code within}. */
    static Members of(Object value, String within) {
        if (!(value instanceof Map<?, ?> members)) {
            throw new ProtocolException(Code.FIELD_INVALID, within);
        }
        return new Members(members, null);
    }

    ProtocolException refused(String name) {
        return fault == null ? new ProtocolException(Code.FIELD_INVALID, name) : new ProtocolException(fault);
    }

    boolean has(String name) {
        return members.get(name) != null;
    }

    Object get(String name) {
        return members.get(name);
    }

    String text(String name, Predicate<String> form) {
        if (members.get(name) instanceof String text && form.test(text)) {
            return text;
        }
        throw refused(name);
    }

    /** A text of 1 to {@code max} bytes, or null where it is absent. */
    String optionalText(String name, int max) {
        return has(name) ? text(name, text -> !text.isEmpty() && text.getBytes(StandardCharsets.UTF_8).length <= max) : null;
    }

    long number(String name, long max) {
        Long number = members.get(name) instanceof JsonNumber found ? found.whole(max) : null;
        if (number == null) {
            throw refused(name);
        }
        return number;
    }

    /** Base64 of 1 to {@code max} bytes. */
    byte[] base64UpTo(String name, int max) {
        byte[] bytes = base64(name, -1);
        if (bytes.length > max) {
            throw refused(name);
        }
        return bytes;
    }

    byte[] base64(String name, int length) {
        byte[] bytes = members.get(name) instanceof String text && !text.isEmpty() ? StrictBase64.decode(text) : null;
        if (bytes == null || length >= 0 && bytes.length != length) {
            throw refused(name);
        }
        return bytes;
    }

    /** Different names of a form. */
    List<String> names(String name, Predicate<String> form, int least, int most) {
        if (!(members.get(name) instanceof List<?> items) || items.size() < least || items.size() > most) {
            throw refused(name);
        }
        List<String> out = new ArrayList<>();
        for (Object item : items) {
            if (!(item instanceof String text) || !form.test(text)) {
                throw refused(name);
            }
            out.add(text);
        }
        if (new HashSet<>(out).size() != out.size()) {
            throw refused(name);
        }
        return List.copyOf(out);
    }

    static boolean isAlgorithmName(String text) {
        return isSuiteName(text.replace('+', '-'));
    }

    static boolean isSuiteName(String text) {
        return !text.isEmpty() && text.length() <= 32 && text.chars().allMatch(Forms::isWord);
    }
}
