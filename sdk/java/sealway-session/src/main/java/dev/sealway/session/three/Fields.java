package dev.sealway.session.three;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** The one encoding of everything that is hashed over more than one part. {@code spec/session-3.md#encodings}. */
final class Fields {
    private final ByteArrayOutputStream out = new ByteArrayOutputStream(256);

    Fields add(byte[] value) {
        out.writeBytes(ByteBuffer.allocate(4).putInt(value.length).array());
        out.writeBytes(value);
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

    byte[] bytes() {
        return out.toByteArray();
    }
}
