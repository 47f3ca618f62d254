package dev.sealway.server;

import dev.sealway.session.SessionRecord;
import dev.sealway.session.nativeprotocol.InnerHeaders;
import dev.sealway.session.nativeprotocol.OuterHeaders;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.function.Predicate;

/** Headers that cross the seal. */
final class ServiceHeaders {
    private static final Set<String> OF_SEALED_BODY = Set.of("content-type", "content-length", "content-encoding",
            "accept-encoding", "accept", "expect", "range", "if-range", "if-match", "if-none-match", "if-modified-since",
            "if-unmodified-since", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "http2-settings");
    private static final Set<String> OF_PLAIN_BODY = Set.of("content-range", "accept-ranges", "etag", "last-modified");
    private static final Set<String> ANSWER_OUTSIDE = Set.of("set-cookie", "retry-after", "vary", "server-timing",
            "access-control-allow-origin", "access-control-allow-headers", "access-control-allow-methods",
            "access-control-allow-credentials", "access-control-expose-headers", "access-control-max-age");
    private static final Set<String> NOT_SEALABLE = Set.of("accept-encoding", "expect", "range", "if-range", "te");
    private static final String HEX = "0123456789ABCDEF";

    private ServiceHeaders() {
    }

    private static boolean isForged(String name, boolean isFrontTrusted) {
        return OuterHeaders.isClaimed(name) || OuterHeaders.isOrigin(name) && !OuterHeaders.isBelieved(name, isFrontTrusted);
    }

    static List<Header> pass(HeaderList outer, boolean isFrontTrusted) {
        return list(outer.list(), name -> !isForged(name, isFrontTrusted));
    }

    /** @param inner null where the seal holds no headers, and the ones outside count */
    static List<Header> unsealed(HeaderList outer, HeaderList inner, SessionRecord session, boolean isFrontTrusted) {
        List<Header> out = inner != null ? OuterHeaders.service(outer, inner, isFrontTrusted)
                : list(pass(outer, isFrontTrusted), name -> !HeaderNames.isSealing(name) && !OF_SEALED_BODY.contains(name));
        if (inner == null) {
            out.add(new Header("content-type", "application/json"));
            out.add(new Header("accept", "application/json"));
        }
        out.addAll(identity(session));
        return out;
    }

    /** The headers that a handler sees of a request of a card scheme, whose headers are in clear.
     *
     * @param profile of the token, or null for a request without a body */
    static List<Header> opened(HeaderList outer, boolean isFrontTrusted, String profile) {
        List<Header> out = list(ofNoBody(pass(outer, isFrontTrusted)), name -> !NOT_SEALABLE.contains(name));
        // A compressed answer, or a part of one, cannot be sealed.
        out.add(new Header("accept-encoding", "identity"));
        if (profile != null) {
            out.add(new Header("content-type", "application/json"));
            out.add(new Header("X-Sealway-Wire", "mle:" + profile));
        }
        return out;
    }

    /** The headers of an answer in clear, whose length is written anew. */
    static List<Header> unframed(List<Header> headers) {
        return list(headers, name -> !Set.of("content-length", "transfer-encoding", "trailer").contains(name));
    }

    /** Headers without those that describe one body. */
    static List<Header> ofNoBody(List<Header> headers) {
        return list(headers, name -> !HeaderNames.isOfBody(name));
    }

    /** The headers that tell a handler whose session it is; what the session does not know is left out. */
    private static List<Header> identity(SessionRecord session) {
        List<Header> out = new ArrayList<>();
        add(out, "X-Sealway-Client-Id", session.clientId());
        add(out, "X-Sealway-Auth", session.auth());
        add(out, "X-Sealway-Subject", session.subject());
        add(out, "X-Sealway-Tenant", session.tenant());
        return out;
    }

    private static void add(List<Header> out, String name, String text) {
        if (text != null) {
            out.add(new Header(name, encode(text)));
        }
    }

    /** Two texts never alike: all but visible ASCII is percent-encoded, percent signs and spaces at the ends too. */
    private static String encode(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        StringBuilder out = new StringBuilder();
        for (int at = 0; at < bytes.length; at++) {
            int c = bytes[at] & 0xff;
            if (c > 0x20 && c < 0x7f && c != '%' || c == ' ' && at != 0 && at != bytes.length - 1) {
                out.append((char) c);
            } else {
                out.append('%').append(HEX.charAt(c >> 4)).append(HEX.charAt(c & 15));
            }
        }
        return out.toString();
    }

    /** The headers of an answer that stand outside the seal of wire 3 too, for those in between that act on them. */
    static List<Header> outside(List<Header> headers) {
        List<Header> out = list(headers, ANSWER_OUTSIDE::contains);
        out.add(new Header("Cache-Control", "no-store, no-transform"));
        return out;
    }

    /** The headers of an answer that go into the seal of wire 3: all but those of framing and the server's own. */
    static List<Header> inside(List<Header> headers) {
        return list(headers, InnerHeaders::isAllowed);
    }

    /** The headers of an answer that go beside a sealed body of wires 1 and 2: all but those that describe the plain one. */
    static List<Header> beside(List<Header> headers) {
        return list(headers, name -> !HeaderNames.isSealing(name) && !OF_SEALED_BODY.contains(name) && !OF_PLAIN_BODY.contains(name));
    }

    /** @param stays of a name in lower case */
    private static List<Header> list(List<Header> headers, Predicate<String> stays) {
        List<Header> out = new ArrayList<>(headers);
        out.removeIf(header -> !stays.test(header.name().toLowerCase(Locale.ROOT)));
        return out;
    }
}
