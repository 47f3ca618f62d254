package dev.sealway.server;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/** The canonical forms of a path, which stand for all spellings that services read as one path: {@code spec/routes.md}. */
final class CanonicalPath {
    private static final Pattern KEPT_ESCAPE = Pattern.compile("%([0-9A-Fa-f]{2}|[uU][0-9A-Fa-f]{4})");
    private static final Pattern HIDDEN_SLASH = Pattern.compile(";.*[/\\\\]", Pattern.DOTALL);
    // SPEC routes.md#characters
    private static final String SPACES = "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000";
    private static final Map<Integer, String> FOLDED = Map.ofEntries(Map.entry(0x2044, "/"), Map.entry(0x2215, "/"), Map.entry(0x29f8, "/"),
            Map.entry(0x2216, "\\"), Map.entry(0x29f5, "\\"), Map.entry(0x2024, "."), Map.entry(0x2025, ".."), Map.entry(0x2026, "..."),
            Map.entry(0x17f, "s"), Map.entry(0x212a, "k"), Map.entry(0x130, "i"), Map.entry(0x131, "i"), Map.entry(0xdf, "ss"),
            Map.entry(0x1e9e, "ss"), Map.entry(0xfb00, "ff"), Map.entry(0xfb01, "fi"), Map.entry(0xfb02, "fl"), Map.entry(0xfb03, "ffi"),
            Map.entry(0xfb04, "ffl"), Map.entry(0xfb05, "st"), Map.entry(0xfb06, "st"), Map.entry(0xaa, "a"), Map.entry(0xba, "o"),
            Map.entry(0xb2, "2"), Map.entry(0xb3, "3"), Map.entry(0xb9, "1"));
    /** Characters that are rejected after folding. */
    private static final Pattern REFUSED = Pattern.compile("[\\x00-\\x1f\\x7f-\\x9f\\u0132\\u0133\\u01c7-\\u01cc\\u01f1-\\u01f3\\u02b0-\\u02b8"
            + "\\u02e0-\\u02e4\\u037e\\u1d2c-\\u1d6a\\u1d9b-\\u1dbf\\u1fef\\u203c\\u2047-\\u2049\\u2070-\\u209f\\u20a8\\u2100-\\u218f\\u2460-\\u24ff"
            + "\\u2a74-\\u2a76\\u2c7c\\u2c7d\\u3250-\\u33ff\\ua7f2-\\ua7f4\\ufb29\\ufe10-\\ufe6f\\x{107a5}\\x{1d400}-\\x{1d7ff}\\x{1f100}-\\x{1f1e5}"
            + "\\x{1fbf0}-\\x{1fbf9}]");

    private CanonicalPath() {
    }

    /** One form, or two where a decoder may have uncovered a query; null for a path on which services differ too much. */
    // SPEC routes.md#canonical-form
    static List<String> forms(String path) {
        List<String> segments = new ArrayList<>();
        for (String segment : path.split("/", -1)) {
            String read = read(segment);
            if (read == null) {
                return null;
            }
            segments.add(read);
        }
        String text = String.join("/", segments).replace('\\', '/');
        if (text.startsWith("//")) {
            return null;
        }
        String whole = form(text);
        String bare = form(text.split("[?#]", 2)[0]);
        if (whole == null || bare == null) {
            return null;
        }
        return whole.equals(bare) ? List.of(whole) : List.of(whole, bare);
    }

    private static String read(String segment) {
        byte[] bytes = segment.getBytes(StandardCharsets.UTF_8);
        for (int times = 0; times < 3; times++) {
            bytes = decoded(bytes);
        }
        String text;
        try {
            text = folded(StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString());
        } catch (CharacterCodingException none) {
            return null;
        }
        boolean isClear = !REFUSED.matcher(text).find() && !KEPT_ESCAPE.matcher(text).find() && !HIDDEN_SLASH.matcher(text).find();
        return isClear ? text : null;
    }

    private static String folded(String text) {
        StringBuilder out = new StringBuilder();
        text.codePoints().forEach(code -> {
            if (code >= 0xff01 && code <= 0xff5e) {
                out.append((char) (code - 0xfee0));
            } else if (SPACES.indexOf(code) >= 0) {
                out.append(' ');
            } else if (FOLDED.get(code) instanceof String letters) {
                out.append(letters);
            } else {
                out.appendCodePoint(code);
            }
        });
        return out.toString();
    }

    private static String form(String text) {
        StringBuilder out = new StringBuilder();
        for (String segment : text.split("/")) {
            int at = segment.indexOf(';');
            String name = at < 0 ? segment : segment.substring(0, at);
            int end = name.length();
            while (end > 0 && (name.charAt(end - 1) == ' ' || name.charAt(end - 1) == '.')) {
                end--;
            }
            if (end == 0 && name.indexOf('.') != name.lastIndexOf('.')) {
                // Which segment a step up takes away depends on the service.
                return null;
            }
            if (end > 0) {
                out.append('/');
                name.substring(0, end).chars().map(letter -> letter >= 'A' && letter <= 'Z' ? letter + 32 : letter)
                        .forEach(letter -> out.append((char) letter));
            }
        }
        return out.toString();
    }

    /** With its escapes undone once; what is none stays. */
    private static byte[] decoded(byte[] path) {
        ByteArrayOutputStream out = new ByteArrayOutputStream(path.length);
        for (int at = 0; at < path.length; at++) {
            int high = path[at] == '%' && at + 2 < path.length ? Character.digit(path[at + 1], 16) : -1;
            int low = high < 0 ? -1 : Character.digit(path[at + 2], 16);
            out.write(low < 0 ? path[at] : high << 4 | low);
            at += low < 0 ? 0 : 2;
        }
        return out.toByteArray();
    }
}
