package dev.sealway.wire;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;

/** Headers as received, repetitions included: a required header that is repeated is an error. */
public final class HeaderList implements Iterable<Header> {
    private final List<Header> headers;

    /** These, in their order. */
    public HeaderList(Collection<Header> headers) {
        this.headers = List.copyOf(headers);
    }

    /** Names and values by turns. */
    public static HeaderList of(String... namesAndValues) {
        List<Header> headers = new ArrayList<>();
        for (int at = 0; at + 1 < namesAndValues.length; at += 2) {
            headers.add(new Header(namesAndValues[at], namesAndValues[at + 1]));
        }
        return new HeaderList(headers);
    }

    /** The value of a header that has to be there once, of printable ASCII and tab.
     *
     * @throws ProtocolException {@code header_missing} if it is absent or empty, {@code header_invalid}
     */
    public String required(String name) {
        String found = null;
        for (Header header : headers) {
            if (header.name().equalsIgnoreCase(name)) {
                if (found != null) {
                    throw new ProtocolException(Code.HEADER_INVALID, name);
                }
                found = header.value();
            }
        }
        if (found == null || found.isEmpty()) {
            throw new ProtocolException(Code.HEADER_MISSING, name);
        }
        for (int at = 0; at < found.length(); at++) {
            char c = found.charAt(at);
            if (c != '\t' && (c < 0x20 || c > 0x7e)) {
                throw new ProtocolException(Code.HEADER_INVALID, name);
            }
        }
        return found;
    }

    /** The value of a header that may be there once; empty where it is not.
     *
     * @throws ProtocolException {@code header_invalid}
     */
    public String optional(String name) {
        String first = first(name);
        return first == null || first.isEmpty() && count(name) == 1 ? "" : required(name);
    }

    /** The first value of a header, or null. */
    public String first(String name) {
        for (Header header : headers) {
            if (header.name().equalsIgnoreCase(name)) {
                return header.value();
            }
        }
        return null;
    }

    /** Returns true if a header is present, empty or not. */
    public boolean has(String name) {
        return first(name) != null;
    }

    /** Returns the number of times that a header is present. */
    public int count(String name) {
        return (int) headers.stream().filter(header -> header.name().equalsIgnoreCase(name)).count();
    }

    /** All of them, in their order. */
    public List<Header> list() {
        return headers;
    }

    @Override
    public Iterator<Header> iterator() {
        return headers.iterator();
    }
}
