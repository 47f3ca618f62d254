package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.crypto.SignatureAlgorithm;
import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;
import java.util.List;
import java.util.function.Function;
import java.util.function.UnaryOperator;

/** The client's side of an init or a renewal. {@code spec/session-3.md#init}. */
public final class Agreement {
    private final InitRequest request;
    private final ClientShare share;
    private final byte[] credential;
    private final NativeSession renewed;

    /** The client's part of an init.
     *
     * @param suites in order of preference
     * @param clientId name of the client
     * @param ttlSec life to ask for, in seconds, or null
     * @param pinnedKeyIds ids of the pinned identity keys; may be empty
     * @param authorization the value of {@code Authorization} as it is sent, or null
     * @param signatureAlgorithms names of the algorithms that the client accepts; empty for no restriction
     */
    public record Offer(List<String> suites, String clientId, Long ttlSec, List<String> pinnedKeyIds, String authorization,
            List<String> signatureAlgorithms) {
        /** Makes an offer without a restriction of the algorithms. */
        public Offer(List<String> suites, String clientId, Long ttlSec, List<String> pinnedKeyIds, String authorization) {
            this(suites, clientId, ttlSec, pinnedKeyIds, authorization, List.of());
        }

        @Override
        public String toString() {
            return "Offer[" + clientId + "]";
        }
    }

    /** Begins an init.
     *
     * @param prove makes a DPoP proof of a request, or null
     */
    public Agreement(Offer offer, ClientShare share, UnaryOperator<InitRequest> prove) {
        InitRequest plain = new InitRequest(share.suite().text(), List.copyOf(offer.suites()), share.share(), offer.clientId(),
                offer.ttlSec(), null, List.copyOf(offer.pinnedKeyIds()), List.copyOf(offer.signatureAlgorithms()));
        this.request = prove == null ? plain : prove.apply(plain);
        this.share = share;
        this.credential = Transcript.credential(offer.authorization());
        this.renewed = null;
    }

    /** Begins a renewal of this session, whose client id it takes. */
    public Agreement(Offer offer, ClientShare share, NativeSession renewed) {
        this(new InitRequest(share.suite().text(), List.copyOf(offer.suites()), share.share(), renewed.clientId(), offer.ttlSec(),
                null, List.copyOf(offer.pinnedKeyIds()), List.copyOf(offer.signatureAlgorithms())), share, new byte[0], renewed);
    }

    private Agreement(InitRequest request, ClientShare share, byte[] credential, NativeSession renewed) {
        this.request = request;
        this.share = share;
        this.credential = credential;
        this.renewed = renewed;
    }

    /** Continues with a request that exists already. */
    public static Agreement of(InitRequest request, ClientShare share, String authorization, NativeSession renewed) {
        byte[] credential = renewed == null ? Transcript.credential(authorization) : new byte[0];
        return new Agreement(request, share, credential, renewed);
    }

    /** Returns the request to send. */
    public InitRequest request() {
        return request;
    }

    /** Lookup of trusted identity keys. */
    public interface KeyLookup {
        /** Returns the public key of an id if it is trusted to have signed at this time of the server, else null. */
        byte[] key(String keyId, long serverTimeMs);
    }

    /** Finishes with the answer, by keys without a validity period. */
    public NativeSession finish(int status, byte[] body, Function<String, byte[]> trusted) {
        return finish(status, body, (keyId, atMs) -> trusted.apply(keyId));
    }

    /** Finishes with the answer. The checks are made in the spec's order.
     *
     * @param trusted called once, at the check that the spec gives
     * @throws ProtocolException {@code answer_mismatch}, {@code suite_downgraded}, {@code key_untrusted},
     *     {@code signature_invalid}, {@code public_key_invalid}, {@code unconfirmed}
     */
    public NativeSession finish(int status, byte[] body, KeyLookup trusted) {
        InitAnswer.SignedAnswer signed = InitAnswer.read(status, body);
        InitAnswer answer = signed.answer();
        if (!answer.suite().equals(request.suite())) {
            throw new ProtocolException(Code.ANSWER_MISMATCH, "suite");
        }
        if (!answer.suite().equals(Suite.chosen(request.suites(), answer.suites()))) {
            throw new ProtocolException(Code.SUITE_DOWNGRADED);
        }
        byte[] key = trusted.key(answer.keyId(), answer.serverTimeMs());
        if (key == null || !request.accepts(key)) {
            throw new ProtocolException(Code.KEY_UNTRUSTED, answer.keyId());
        }
        byte[] hash = Hashes.sha256(Transcript.of(request, credential, answer, renewed == null ? null : renewed.id()));
        if (!SignatureAlgorithm.verifies(key, Transcript.signed(hash), signed.signature())) {
            throw new ProtocolException(Code.SIGNATURE_INVALID);
        }
        SecretBytes exporter = renewed == null ? null : renewed.exporter();
        SessionKeys keys = SessionKeys.schedule(hash, share.secret(answer.share()), exporter);
        if (!Hashes.equal(keys.confirm(hash), signed.confirm())) {
            keys.close();
            throw new ProtocolException(Code.UNCONFIRMED);
        }
        return new NativeSession(answer, request.clientId(), keys);
    }

    /** Returns the transcript of this request and an answer, for vectors and debugging. It holds nothing secret. */
    public byte[] transcript(byte[] body) {
        return Transcript.of(request, credential, InitAnswer.read(201, body).answer(), renewed == null ? null : renewed.id());
    }

    @Override
    public String toString() {
        return "Agreement[" + request.suite() + "]";
    }
}
