package dev.sealway.session.nativeprotocol;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;

/** The one encoding of everything that is hashed over more than one part. {@code spec/session-3.md#encodings}. */
final class Fields {
    private ByteBuffer out = ByteBuffer.allocate(512);

    Fields add(byte[] value) {
        if (out.remaining() < 4 + value.length) {
            out = ByteBuffer.allocate(2 * (out.capacity() + value.length)).put(out.flip());
        }
        out.putInt(value.length).put(value);
        return this;
    }

    /** Of headers and identifiers: characters are bytes. */
    Fields add(String value) {
        return add(value.getBytes(StandardCharsets.ISO_8859_1));
    }

    /** Of JSON: UTF-8; absent is as empty. */
    Fields text(String value) {
        return add(value == null ? new byte[0] : value.getBytes(StandardCharsets.UTF_8));
    }

    Fields number(long value) {
        return add(ByteBuffer.allocate(8).putLong(value).array());
    }

    Fields optional(Long value) {
        return value == null ? add(new byte[0]) : number(value);
    }

    Fields list(List<String> values) {
        Fields inner = new Fields();
        values.forEach(inner::add);
        return add(inner.bytes());
    }

    /** A list that is no bytes at all if it is absent. */
    Fields algorithms(List<String> names) {
        return names.isEmpty() ? this : list(names);
    }

    byte[] bytes() {
        return Arrays.copyOf(out.array(), out.position());
    }
}
