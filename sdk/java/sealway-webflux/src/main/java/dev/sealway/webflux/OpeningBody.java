package dev.sealway.webflux;

import dev.sealway.server.RefusalException;
import dev.sealway.server.SealGate;
import dev.sealway.server.SealGate.Kind;
import dev.sealway.session.three.ServerCall3;
import dev.sealway.wire.SealwayException;
import java.util.List;

/** The body of a request of wire 3, opened as it comes. For one subscriber, whose signals come one after the other. */
final class OpeningBody {
    private final SealGate gate;
    private final SealGate.Three begun;
    private ServerCall3.Begun opened;
    private List<byte[]> held = List.of();
    private long total;
    private long length = -1;
    private volatile RefusalException fault;

    OpeningBody(SealGate gate, SealGate.Three begun) {
        this.gate = gate;
        this.begun = begun;
    }

    /** The request, from the first part on. */
    ServerCall3.Begun opened() {
        return opened;
    }

    /** The length of its body where that was in one frame, else -1. */
    long length() {
        return length;
    }

    /** What the body turned out not to be, or null. */
    RefusalException fault() {
        return fault;
    }

    void fail(Throwable why) {
        if (why instanceof RefusalException refused) {
            fault = refused;
        }
    }

    /** What there is of the body, which may be empty parts. The last frame is held back until the body has ended: a byte behind it makes
     * the whole a forgery. */
    List<byte[]> feed(byte[] data) {
        total += data.length;
        if (total > gate.bodyMax()) {
            throw gate.tooLarge(Kind.THREE);
        }
        if (data.length == 0) {
            return List.of();
        }
        if (opened == null) {
            return begun.feed(data, 0, data.length) && !begun.isDone() ? admit() : List.of();
        }
        try {
            List<byte[]> parts = opened.rest().feed(data, 0, data.length);
            if (!opened.rest().isDone()) {
                return parts;
            }
            held = parts;
            return List.of();
        } catch (SealwayException refused) {
            throw gate.refusal(Kind.THREE, refused);
        }
    }

    /** The body has ended: what was held back. */
    List<byte[]> finish() {
        if (opened != null) {
            try {
                opened.rest().finish();
            } catch (SealwayException truncated) {
                throw gate.refusal(Kind.THREE, truncated);
            }
            return held;
        }
        if (!begun.isDone()) {
            throw gate.broken(Kind.THREE);
        }
        List<byte[]> parts = admit();
        length = parts.stream().mapToLong(part -> part.length).sum();
        return parts;
    }

    private List<byte[]> admit() {
        opened = begun.admit();
        return opened.parts();
    }
}
