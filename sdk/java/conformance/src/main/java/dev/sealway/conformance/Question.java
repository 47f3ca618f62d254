package dev.sealway.conformance;

import dev.sealway.session.SessionRecord;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.JsonNumber;
import dev.sealway.wire.ProtocolException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

/** What the driver is asked. */
record Question(Map<?, ?> members) {
    private static final HexFormat HEX = HexFormat.of();

    private Object get(String name) {
        if (members.get(name) == null) {
            throw new FaultException("no member " + name);
        }
        return members.get(name);
    }

    String text(String name) {
        return get(name) instanceof String text ? text : fault(name);
    }

    String optionalText(String name) {
        return members.get(name) instanceof String text ? text : null;
    }

    long number(String name) {
        Long number = get(name) instanceof JsonNumber found ? found.whole(Long.MAX_VALUE) : null;
        return number == null ? fault(name) : number;
    }

    Long optionalNumber(String name) {
        return members.get(name) == null ? null : (Long) number(name);
    }

    int status() {
        return Math.toIntExact(number("status"));
    }

    byte[] hex(String name) {
        return HEX.parseHex(text(name));
    }

    List<byte[]> hexes(String name) {
        return get(name) instanceof List<?> items ? items.stream().map(item -> HEX.parseHex((String) item)).toList() : fault(name);
    }

    List<String> texts(String name) {
        return get(name) instanceof List<?> items ? items.stream().map(String.class::cast).toList() : fault(name);
    }

    HeaderList headers() {
        List<Header> out = new ArrayList<>();
        for (Object pair : (List<?>) get("headers")) {
            out.add(new Header((String) ((List<?>) pair).get(0), (String) ((List<?>) pair).get(1)));
        }
        return new HeaderList(out);
    }

    SessionRecord session() {
        try {
            return SessionRecord.fromMembers(get("session"));
        } catch (ProtocolException malformed) {
            throw new FaultException("session: " + malformed.field());
        }
    }

    private static <T> T fault(String name) {
        throw new FaultException("malformed member " + name);
    }
}
