package dev.sealway.client;

import dev.sealway.session.nativeprotocol.FrameSealer;
import java.io.IOException;
import java.io.InputStream;
import java.net.http.HttpRequest.BodyPublisher;
import java.nio.ByteBuffer;
import java.util.concurrent.Flow;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** The sealed stream of a body that is read as it is sent: each read of the source ends a frame, and a frame goes out before the next
 * read, which the platform's own publisher of streams does not grant. It is for one subscriber, once. */
final class SealingBody implements BodyPublisher {
    private final byte[] plain = new byte[FrameSealer.FRAME_MAX];
    private final InputStream source;
    private final FrameSealer sealer;
    private final AtomicBoolean isTaken = new AtomicBoolean();
    private int plainLen;

    SealingBody(byte[] innerHeaders, InputStream source, FrameSealer sealer) {
        this.source = source;
        this.sealer = sealer;
        System.arraycopy(innerHeaders, 0, plain, 0, innerHeaders.length);
        this.plainLen = innerHeaders.length;
    }

    @Override
    public long contentLength() {
        return -1;
    }

    @Override
    public void subscribe(Flow.Subscriber<? super ByteBuffer> subscriber) {
        if (!isTaken.compareAndSet(false, true)) {
            throw new IllegalStateException("a body that is read as it is sent is sent once");
        }
        FrameFeed flowing = new FrameFeed(subscriber);
        subscriber.onSubscribe(flowing);
        flowing.thread.start();
    }

    /** Reads the source on demand, on a thread of its own, since the source may block. */
    private final class FrameFeed implements Flow.Subscription {
        private final Flow.Subscriber<? super ByteBuffer> subscriber;
        private final Thread thread = Thread.ofVirtual().unstarted(this::run);
        private final ReentrantLock lock = new ReentrantLock();
        private final Condition isAsked = lock.newCondition();
        private long demand;
        private volatile boolean isCancelled;

        FrameFeed(Flow.Subscriber<? super ByteBuffer> subscriber) {
            this.subscriber = subscriber;
        }

        @Override
        public void request(long count) {
            lock.lock();
            try {
                demand = count > Long.MAX_VALUE - demand ? Long.MAX_VALUE : demand + Math.max(0, count);
                isAsked.signal();
            } finally {
                lock.unlock();
            }
        }

        @Override
        public void cancel() {
            isCancelled = true;
            thread.interrupt();
        }

        private void awaitDemand() throws InterruptedException {
            lock.lock();
            try {
                while (demand == 0) {
                    isAsked.await();
                }
                demand--;
            } finally {
                lock.unlock();
            }
        }

        private void run() {
            try (source) {
                boolean isLast = false;
                while (!isLast && !isCancelled) {
                    awaitDemand();
                    int read = source.read(plain, plainLen, plain.length - plainLen);
                    while (read == 0) {
                        read = source.read(plain, plainLen, plain.length - plainLen);
                    }
                    isLast = read < 0;
                    byte[] frame = sealer.seal(plain, 0, plainLen + Math.max(0, read), isLast);
                    plainLen = 0;
                    subscriber.onNext(ByteBuffer.wrap(frame));
                }
                if (!isCancelled) {
                    subscriber.onComplete();
                }
            } catch (IOException | InterruptedException | RuntimeException failed) {
                if (!isCancelled) {
                    subscriber.onError(failed);
                }
            }
        }
    }
}
