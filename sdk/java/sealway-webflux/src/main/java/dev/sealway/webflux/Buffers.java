package dev.sealway.webflux;

import dev.sealway.session.nativeprotocol.FrameOpener;
import dev.sealway.session.nativeprotocol.FrameSealer;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import java.util.ArrayList;
import java.util.List;
import org.reactivestreams.Publisher;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferFactory;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.http.HttpHeaders;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Frames over publishers of buffers. */
final class Buffers {
    private Buffers() {
    }

    static byte[] take(DataBuffer buffer) {
        byte[] out = new byte[buffer.readableByteCount()];
        buffer.read(out);
        DataBufferUtils.release(buffer);
        return out;
    }

    static HeaderList headers(HttpHeaders headers) {
        List<Header> out = new ArrayList<>();
        headers.forEach((name, values) -> values.forEach(value -> out.add(new Header(name, value))));
        return new HeaderList(out);
    }

    /** The sealed stream of a body; the last frame is empty. */
    static Flux<DataBuffer> seal(Publisher<? extends DataBuffer> body, FrameSealer sealer, DataBufferFactory factory) {
        return Flux.from(body).map(Buffers::take).concatMapIterable(sealer::seal)
                .concatWith(Mono.fromCallable(() -> sealer.seal(new byte[0], 0, 0, true))).map(factory::wrap);
    }

    /** Opens a sealed stream. The first element comes with the first frame, and may be empty. */
    static Flux<byte[]> open(Flux<DataBuffer> sealed, FrameOpener opener) {
        // Taken in a step of its own: a buffer whose step fails is discarded, and is released once alone.
        return sealed.map(Buffers::take).concatMapIterable(data -> opener.feed(data, 0, data.length)).concatWith(Mono.fromRunnable(opener::finish));
    }
}
