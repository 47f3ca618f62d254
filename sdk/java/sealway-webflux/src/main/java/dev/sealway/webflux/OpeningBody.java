package dev.sealway.webflux;

import dev.sealway.server.Held;
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
    private final Held held;
    private List<byte[]> last = List.of();
    private long total;
    private long length = -1;
    private volatile RefusalException fault;

    /** @param held what came of frames that have not opened yet */
    OpeningBody(SealGate gate, SealGate.Three begun, Held held) {
        this.held = held;
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
        held.grow(data.length);
        if (opened == null) {
            if (!begun.feed(data, 0, data.length) || begun.isDone()) {
                return List.of();
            }
            List<byte[]> parts = admit();
            held.keep(data.length);
            return parts;
        }
        try {
            List<byte[]> parts = opened.rest().feed(data, 0, data.length);
            if (!parts.isEmpty()) {
                held.keep(data.length);
            }
            if (!opened.rest().isDone()) {
                return parts;
            }
            last = parts;
            return List.of();
        } catch (SealwayException refused) {
            throw gate.refusal(Kind.THREE, refused);
        }
    }

    /** The body has ended: what was held back. */
    List<byte[]> finish() {
        List<byte[]> parts = finished();
        held.keep(0);
        return parts;
    }

    private List<byte[]> finished() {
        if (opened != null) {
            try {
                opened.rest().finish();
            } catch (SealwayException truncated) {
                throw gate.refusal(Kind.THREE, truncated);
            }
            return last;
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
