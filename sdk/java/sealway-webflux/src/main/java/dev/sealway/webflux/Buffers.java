package dev.sealway.webflux;

import dev.sealway.session.three.FrameOpener;
import dev.sealway.session.three.FrameSealer;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.reactivestreams.Publisher;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferFactory;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.http.HttpHeaders;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Frames over publishers of buffers. */
final class Buffers {
    private static final int PART = 32_768;

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

    /** The sealed stream of a body; the first frame begins with the inner headers, the last one is empty. */
    static Flux<DataBuffer> seal(Publisher<? extends DataBuffer> body, byte[] innerHeaders, FrameSealer sealer, DataBufferFactory factory) {
        AtomicReference<byte[]> head = new AtomicReference<>(innerHeaders);
        return Flux.from(body).map(Buffers::take).concatMapIterable(data -> frames(data, head, sealer))
                .concatWith(Mono.fromCallable(() -> last(head, sealer))).map(factory::wrap);
    }

    static byte[] last(AtomicReference<byte[]> head, FrameSealer sealer) {
        byte[] rest = head.getAndSet(new byte[0]);
        return sealer.seal(rest, 0, rest.length, true);
    }

    static List<byte[]> frames(byte[] data, AtomicReference<byte[]> head, FrameSealer sealer) {
        List<byte[]> out = new ArrayList<>(1);
        for (int at = 0; at < data.length; at += PART) {
            int length = Math.min(PART, data.length - at);
            byte[] begin = head.getAndSet(new byte[0]);
            byte[] plain = Arrays.copyOf(begin, begin.length + length);
            System.arraycopy(data, at, plain, begin.length, length);
            out.add(sealer.seal(plain, 0, plain.length, false));
        }
        return out;
    }

    /** What a sealed stream holds; its first element comes with the first frame, and may be empty. */
    static Flux<byte[]> open(Flux<DataBuffer> sealed, FrameOpener opener) {
        // Taken in a step of its own: a buffer whose step fails is discarded, and is released once alone.
        return sealed.map(Buffers::take).concatMapIterable(data -> opener.feed(data, 0, data.length)).concatWith(Mono.fromRunnable(opener::finish));
    }
}
