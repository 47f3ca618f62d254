package dev.sealway.client;

import dev.sealway.client.Transport.Deadline;
import dev.sealway.client.Transport.Outgoing;
import dev.sealway.crypto.Hpke;
import dev.sealway.crypto.Kem;
import dev.sealway.crypto.KemSender;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.nativeprotocol.KeyConfig;
import dev.sealway.session.nativeprotocol.KeyDocument;
import dev.sealway.session.nativeprotocol.NativeCall;
import dev.sealway.session.nativeprotocol.OneShotKeys;
import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.session.nativeprotocol.RequestKeys;
import dev.sealway.wire.Code;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.Stage;
import java.util.List;
import java.util.Set;

/** Keys of calls on wire 4: new ones for every try, agreed with the service's key. {@code spec/one-shot.md}. */
final class OneShotSource implements KeySource<OneShotSource.Use> {
    private final CallSettings settings;
    private final Transport transport;
    private final OneShotKeyring keyring;
    private final Hpke.Psk psk;
    /** The server's time less this machine's, as a sealed problem has proven it. */
    private volatile long offsetMs;

    /** @param accepted names of the signature algorithms that the client accepts of a root; empty for no restriction
     * @param psk pre-shared key, or null */
    OneShotSource(CallSettings settings, Transport transport, OneShotTrust trust, List<String> accepted, Set<Kem> kems, Hpke.Psk psk) {
        this.settings = settings;
        this.transport = transport;
        this.keyring = new OneShotKeyring(trust, accepted, kems, settings, this::fetch);
        this.psk = psk;
    }

    /** Keys of one try. */
    final class Use implements KeyUse {
        private final OneShotKeys keys;

        private Use(OneShotKeys keys) {
            this.keys = keys;
        }

        @Override
        public RequestKeys keys() {
            return keys;
        }

        @Override
        public long stampMs() {
            return settings.day().millis() + offsetMs;
        }

        @Override
        public void release() {
            keys.close();
        }
    }

    @Override
    public Use acquire(Deadline deadline) {
        return ProtocolException.locate(Stage.AGREEMENT, settings.host(), () -> {
            KeyConfig key = keyring.key(deadline);
            return new Use(OneShotKeys.agree(key, psk, KemSender.generate(key.kem(), settings.random())));
        });
    }

    @Override
    public Use renew(Use used, boolean isClock, Deadline deadline) {
        return acquire(deadline);
    }

    private KeyDocument fetch(Deadline deadline) {
        Transport.WholeAnswer answer = transport.send(Stage.AGREEMENT, Outgoing.of(settings.url(), "GET", KeyDocument.PATH,
                new SealedMessage(HeaderList.of(), null, new byte[0])), deadline);
        if (answer.status() != 200) {
            throw new ProtocolException(Code.KEY_UNTRUSTED, KeyDocument.PATH, "the key document could not be fetched (status " + answer.status()
                    + "). A pinned key configuration needs none.");
        }
        return KeyDocument.parse(answer.body());
    }

    @Override
    public ProblemException rejection(Stage stage, String host, String method, int status, byte[] body) {
        Problem problem = Problem.parse(status, body);
        return problem == null ? ProblemException.of(stage, host, status, body) : ProblemException.oneShot(host, problem, false);
    }

    @Override
    public SealedExchange.Rejection mend(Use used, NativeCall call, long elapsedMs, ProblemException error) {
        Problem problem = error.problem();
        if (problem == null) {
            return new SealedExchange.Rejection(error, false);
        }
        boolean isSealed = error.isSealed();
        boolean isMended = true;
        if (isSealed && problem.code().equals("clock_skew") && problem.serverTimeMs() != null) {
            offsetMs = problem.serverTimeMs() - settings.day().millis();
        } else if (!isSealed && problem.code().equals("key_retired")) {
            isMended = keyring.retired(problem.members().get("key_document"), error);
        }
        return new SealedExchange.Rejection(call.isUnserved(problem, isSealed, elapsedMs) ? error.unserved() : error,
                isMended && call.isSentAgain(problem, isSealed, elapsedMs));
    }
}
