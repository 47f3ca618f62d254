package dev.sealway.server;

import java.io.IOException;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;

/** A whole body up to a bound; one that is longer is an error, and is read no further. */
final class BoundedBody implements HttpResponse.BodySubscriber<byte[]> {
    private final HttpResponse.BodySubscriber<byte[]> whole = HttpResponse.BodySubscribers.ofByteArray();
    private long left;
    private Flow.Subscription subscription;

    /** @param max in bytes */
    BoundedBody(long max) {
        this.left = max;
    }

    @Override
    public CompletionStage<byte[]> getBody() {
        return whole.getBody();
    }

    @Override
    public void onSubscribe(Flow.Subscription given) {
        subscription = given;
        whole.onSubscribe(given);
    }

    @Override
    public void onNext(List<ByteBuffer> buffers) {
        for (ByteBuffer buffer : buffers) {
            left -= buffer.remaining();
        }
        if (left < 0) {
            subscription.cancel();
            whole.onError(new IOException("the body is over its bound"));
        } else {
            whole.onNext(buffers);
        }
    }

    @Override
    public void onError(Throwable failed) {
        whole.onError(failed);
    }

    @Override
    public void onComplete() {
        if (left >= 0) {
            whole.onComplete();
        }
    }
}
