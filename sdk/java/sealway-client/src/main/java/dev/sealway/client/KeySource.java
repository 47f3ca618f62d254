package dev.sealway.client;

import dev.sealway.client.Transport.Deadline;
import dev.sealway.session.nativeprotocol.NativeCall;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Stage;

/** Source of the keys of calls, which reads rejections: the sessions of a service on wire 3, or its keys on wire 4. */
interface KeySource<U extends KeyUse> {
    /** Returns keys for a call, which {@link KeyUse#release} gives back.
     *
     * @throws SealwayException of the stage {@code agreement} */
    U acquire(Deadline deadline);

    /** Returns keys for a retry; the same if they serve it.
     *
     * @param isClock true after a proven time, false after keys that the service no longer has */
    U renew(U used, boolean isClock, Deadline deadline);

    /** Returns the error for an answer that is not sealed. */
    ProblemException rejection(Stage stage, String host, String method, int status, byte[] body);

    /** Takes from a rejection what makes the next call work, and decides about a retry of this one. */
    SealedExchange.Rejection mend(U used, NativeCall call, long elapsedMs, ProblemException error);
}
