package dev.sealway.mle;

import dev.sealway.crypto.Bytes;
import dev.sealway.wire.UsageException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;

/** The few forms of DER (X.690) that the platform does not read: the attributes of a subject, and PKCS#1. */
final class Der {
    private static final int SEQUENCE = 0x30;
    private static final int SET = 0x31;
    private static final int OID = 0x06;
    private static final int VERSION = 0xa0;
    /** UTF8String, PrintableString and IA5String. */
    private static final List<Integer> TEXTS = List.of(0x0c, 0x13, 0x16);
    /** The attribute serialNumber, 2.5.4.5. */
    private static final byte[] SERIAL_NUMBER = {0x55, 4, 5};
    /** The version 0 and the algorithm rsaEncryption of a PKCS#8 key. */
    private static final byte[] PKCS8_HEAD = HexFormat.of().parseHex("020100300d06092a864886f70d0101010500");

    private Der() {
    }

    /** A value: its tag and its content. */
    private record Value(int tag, ByteBuffer content) {
    }

    private static Value next(ByteBuffer in) {
        int tag = in.get() & 0xff;
        int length = in.get() & 0xff;
        if (length >= 0x80) {
            int count = length - 0x80;
            length = 0;
            for (int at = 0; at < count; at++) {
                length = length << 8 | in.get() & 0xff;
            }
        }
        if (length < 0 || length > in.remaining()) {
            throw new IllegalArgumentException();
        }
        ByteBuffer content = in.slice(in.position(), length);
        in.position(in.position() + length);
        return new Value(tag, content);
    }

    private static ByteBuffer take(ByteBuffer in, int tag) {
        Value value = next(in);
        if (value.tag() != tag) {
            throw new IllegalArgumentException();
        }
        return value.content();
    }

    /** Returns the values of the serialNumber attributes of a certificate's subject (RFC 5280 section 4.1). */
    static List<String> serialNumbers(byte[] certificate) {
        try {
            ByteBuffer tbs = take(take(ByteBuffer.wrap(certificate), SEQUENCE), SEQUENCE);
            if ((tbs.get(tbs.position()) & 0xff) == VERSION) {
                next(tbs);
            }
            // Serial number, signature algorithm, issuer and validity stand before the subject.
            for (int at = 0; at < 4; at++) {
                next(tbs);
            }
            List<String> found = new ArrayList<>();
            for (ByteBuffer name = take(tbs, SEQUENCE); name.hasRemaining();) {
                for (ByteBuffer attributes = take(name, SET); attributes.hasRemaining();) {
                    ByteBuffer attribute = take(attributes, SEQUENCE);
                    if (Arrays.equals(bytes(take(attribute, OID)), SERIAL_NUMBER)) {
                        Value value = next(attribute);
                        if (!TEXTS.contains(value.tag())) {
                            throw new IllegalArgumentException();
                        }
                        found.add(new String(bytes(value.content()), StandardCharsets.UTF_8));
                    }
                }
            }
            return found;
        } catch (IllegalArgumentException | BufferUnderflowException | IndexOutOfBoundsException malformed) {
            throw new UsageException("the certificate's subject cannot be read");
        }
    }

    private static byte[] bytes(ByteBuffer content) {
        byte[] out = new byte[content.remaining()];
        content.get(out);
        return out;
    }

    /** Puts a PKCS#1 key into a PKCS#8 one (RFC 5208 section 5). */
    static byte[] pkcs8(byte[] pkcs1) {
        return value(SEQUENCE, Bytes.join(PKCS8_HEAD, value(0x04, pkcs1)));
    }

    private static byte[] value(int tag, byte[] content) {
        byte[] length = HexFormat.of().parseHex(String.format("%06x", content.length));
        int zeros = length[0] != 0 ? 0 : length[1] != 0 ? 1 : 2;
        byte[] shortest = Arrays.copyOfRange(length, zeros, length.length);
        byte[] head = content.length < 0x80 ? new byte[] {(byte) tag} : new byte[] {(byte) tag, (byte) (0x80 + shortest.length)};
        return Bytes.join(head, shortest, content);
    }
}
