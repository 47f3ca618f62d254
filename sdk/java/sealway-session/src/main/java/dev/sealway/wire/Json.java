package dev.sealway.wire;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import java.io.IOException;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON as {@code spec/session.md#encodings} reads it: strict, of a repeated member the last counts, 127 levels deep.
 *
 * <p>Values are {@code Map<String, Object>}, {@code List<Object>}, String, {@link JsonNumber}, Boolean and null. */
public final class Json {
    private static final int DEPTH_MAX = 127;
    private static final int SHALLOW_MAX = 64;
    private static final JsonFactory FACTORY = factory(DEPTH_MAX);
    private static final JsonFactory SHALLOW = factory(SHALLOW_MAX);

    private Json() {
    }

    private static JsonFactory factory(int depth) {
        return JsonFactory.builder().streamReadConstraints(StreamReadConstraints.builder().maxNestingDepth(depth).build()).build();
    }

    /** Reads one value.
     *
     * @throws ProtocolException {@code json_invalid}
     */
    public static Object parse(byte[] data) {
        return read(data, FACTORY, parser -> value(parser, parser.nextToken(), true));
    }

    /** Reads one object of at most 64 levels, whose own members have different names. A number may be beyond a double.
     *
     * @throws ProtocolException {@code json_invalid}
     */
    public static Map<String, Object> uniqueMembers(byte[] data) {
        return read(data, SHALLOW, parser -> {
            Map<String, Object> members = new LinkedHashMap<>();
            expect(parser, JsonToken.START_OBJECT);
            while (parser.nextToken() != JsonToken.END_OBJECT) {
                String name = whole(parser.currentName());
                if (members.containsKey(name)) {
                    throw new ProtocolException(Code.JSON_INVALID);
                }
                members.put(name, value(parser, parser.nextToken(), false));
            }
            return members;
        });
    }

    /** Reads one object with one member, whose value is a string. Nothing is kept of another object, however long it is.
     *
     * @throws ProtocolException {@code json_invalid}
     */
    public static Map.Entry<String, String> soleText(byte[] data) {
        return read(data, SHALLOW, parser -> {
            expect(parser, JsonToken.START_OBJECT);
            expect(parser, JsonToken.FIELD_NAME);
            String name = whole(parser.currentName());
            expect(parser, JsonToken.VALUE_STRING);
            String text = whole(parser.getText());
            expect(parser, JsonToken.END_OBJECT);
            return Map.entry(name, text);
        });
    }

    private static void expect(JsonParser parser, JsonToken token) throws IOException {
        if (parser.nextToken() != token) {
            throw new ProtocolException(Code.JSON_INVALID);
        }
    }

    /** What reads a value of a text. */
    private interface Reading<T> {
        T from(JsonParser parser) throws IOException;
    }

    private static <T> T read(byte[] data, JsonFactory factory, Reading<T> reading) {
        try {
            String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(data)).toString();
            if (text.startsWith("\ufeff")) {
                throw new ProtocolException(Code.JSON_INVALID);
            }
            try (JsonParser parser = factory.createParser(text)) {
                T value = reading.from(parser);
                if (parser.nextToken() != null) {
                    throw new ProtocolException(Code.JSON_INVALID);
                }
                return value;
            }
        } catch (CharacterCodingException malformed) {
            throw new ProtocolException(Code.JSON_INVALID);
        } catch (IOException malformed) {
            // Its message quotes the text, so it is not passed on.
            throw new ProtocolException(Code.JSON_INVALID);
        }
    }

    /** @param isDouble true if a number must be within the range of a double */
    private static Object value(JsonParser parser, JsonToken token, boolean isDouble) throws IOException {
        if (token == null) {
            throw new ProtocolException(Code.JSON_INVALID);
        }
        return switch (token) {
            case START_OBJECT -> {
                Map<String, Object> members = new LinkedHashMap<>();
                while (parser.nextToken() != JsonToken.END_OBJECT) {
                    String name = whole(parser.currentName());
                    members.put(name, value(parser, parser.nextToken(), isDouble));
                }
                yield members;
            }
            case START_ARRAY -> {
                List<Object> items = new ArrayList<>();
                for (JsonToken next = parser.nextToken(); next != JsonToken.END_ARRAY; next = parser.nextToken()) {
                    items.add(value(parser, next, isDouble));
                }
                yield items;
            }
            case VALUE_STRING -> whole(parser.getText());
            case VALUE_NUMBER_INT, VALUE_NUMBER_FLOAT -> {
                JsonNumber number = new JsonNumber(parser.getText());
                if (isDouble && Double.isInfinite(number.asDouble())) {
                    throw new ProtocolException(Code.JSON_INVALID);
                }
                yield number;
            }
            case VALUE_TRUE -> Boolean.TRUE;
            case VALUE_FALSE -> Boolean.FALSE;
            case VALUE_NULL -> null;
            default -> throw new ProtocolException(Code.JSON_INVALID);
        };
    }

    /** Half a surrogate pair has no UTF-8: two readers would hash different bytes. */
    private static String whole(String text) {
        if (!StandardCharsets.UTF_8.newEncoder().canEncode(text)) {
            throw new ProtocolException(Code.JSON_INVALID);
        }
        return text;
    }

    /** Writes a value: what {@link #parse} gives, and Integer and Long. Without white space, members in their order. */
    public static String write(Object value) {
        StringWriter out = new StringWriter();
        try (JsonGenerator generator = FACTORY.createGenerator(out)) {
            write(generator, value);
        } catch (IOException impossible) {
            throw new IllegalStateException(impossible);
        }
        return out.toString();
    }

    private static void write(JsonGenerator out, Object value) throws IOException {
        switch (value) {
            case null -> out.writeNull();
            case String text -> out.writeString(text);
            case Boolean flag -> out.writeBoolean(flag);
            case Integer number -> out.writeNumber(number);
            case Long number -> out.writeNumber(number);
            case Double number -> out.writeNumber(number);
            case JsonNumber number -> out.writeNumber(number.text());
            case List<?> items -> {
                out.writeStartArray();
                for (Object item : items) {
                    write(out, item);
                }
                out.writeEndArray();
            }
            case Map<?, ?> members -> {
                out.writeStartObject();
                for (Map.Entry<?, ?> member : members.entrySet()) {
                    out.writeFieldName((String) member.getKey());
                    write(out, member.getValue());
                }
                out.writeEndObject();
            }
            default -> throw new IllegalArgumentException("no JSON: " + value.getClass());
        }
    }
}
