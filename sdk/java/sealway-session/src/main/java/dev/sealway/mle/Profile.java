package dev.sealway.mle;

import dev.sealway.session.ReplayPolicy;
import dev.sealway.wire.Options;
import dev.sealway.wire.UsageException;
import java.util.List;

/** The rules for the messages of one scheme. {@code spec/mle.md#profiles}. A profile is a value: each {@code with} method returns another one. */
public final class Profile {
    /** Default of the longest token, in bytes. */
    public static final int TOKEN_MAX_BYTES = 2 << 20;
    private final String name;
    private final Unit iat;
    private final Leniency leniency;
    private final Side request;
    private final Side answer;
    private final ReplayPolicy replay;
    private final int tokenMaxBytes;

    /** Units of the header parameter {@code iat}. */
    public enum Unit {
        /** Tokens have no time, and an {@code iat} is ignored. */
        NONE,
        /** Seconds since the epoch. */
        SECONDS,
        /** Milliseconds since the epoch. */
        MILLISECONDS
    }

    /** Departures from the standard that a profile reads. */
    private enum Leniency {
        NONE,
        /** The letters {@code + /} for {@code - _}, and IVs of 16 bytes with AES-GCM. */
        MASTERCARD,
        /** Tokens without {@code kid}, where exactly one key is live. */
        NO_KID
    }

    /** The rules of one direction.
     *
     * @param member the sole member of the body, whose value is the token; null for a body that is the token
     * @param cty the header parameter of messages that are sealed, or null */
    record Side(List<Alg> algs, List<Enc> encs, boolean requiresIat, String member, String cty) {
        Side with(String other) {
            return new Side(algs, encs, requiresIat, other, cty);
        }
    }

    private Profile(String name, Unit iat, Leniency leniency, Side request, Side answer, ReplayPolicy replay, int tokenMaxBytes) {
        this.name = name;
        this.iat = iat;
        this.leniency = leniency;
        this.request = request;
        this.answer = answer;
        this.replay = replay;
        this.tokenMaxBytes = tokenMaxBytes;
    }

    private Profile(String name, Unit iat, Leniency leniency, Side request, Side answer) {
        this(name, iat, leniency, request, answer, ReplayPolicy.DEFAULT, TOKEN_MAX_BYTES);
    }

    /** Returns Mastercard's JWE: no time, and what its libraries send besides base64url and IVs of 12 bytes. */
    public static Profile mastercardJwe() {
        Side both = new Side(List.of(Alg.RSA_OAEP_256), List.of(Enc.A256GCM, Enc.A128GCM, Enc.A192GCM, Enc.A128CBC_HS256), false, "encryptedData",
                "application/json");
        return new Profile("mastercard-jwe", Unit.NONE, Leniency.MASTERCARD, both, both);
    }

    /** Returns Visa's message-level encryption: a time in milliseconds. */
    public static Profile visa() {
        List<Enc> encs = List.of(Enc.A128GCM, Enc.A256GCM);
        return new Profile("visa", Unit.MILLISECONDS, Leniency.NONE, new Side(List.of(Alg.RSA_OAEP_256), encs, true, "encData", null),
                new Side(List.of(Alg.RSA_OAEP_256), encs, false, "encData", null));
    }

    /** Returns that of Visa Acceptance (Cybersource): a time in seconds; answers may use two more algorithms than requests. */
    public static Profile visaAcceptance() {
        return new Profile("visa-acceptance", Unit.SECONDS, Leniency.NONE,
                new Side(List.of(Alg.RSA_OAEP_256), List.of(Enc.A256GCM), true, "encryptedRequest", null),
                new Side(List.of(Alg.RSA_OAEP_256, Alg.RSA_OAEP), List.of(Enc.A256GCM, Enc.A128GCM), false, "encryptedResponse", null));
    }

    /** Returns a profile of the caller's own lists: strict base64url, IVs of the standard's lengths, {@code kid} required, and bodies that are the
     * token.
     *
     * @param iat the unit; requests must have a time, unless it is {@code NONE} */
    public static Profile genericJwe(List<Alg> algs, List<Enc> encs, Unit iat) {
        Side both = new Side(List.copyOf(algs), List.copyOf(encs), true, null, null);
        return new Profile("generic-jwe", Options.present(iat, "iat", "Unit.NONE is a profile without time"), Leniency.NONE, both,
                new Side(both.algs(), both.encs(), false, null, null));
    }

    /** Returns this profile with these sole members of the bodies of requests and answers; null for a body that is the token. */
    public Profile withMembers(String ofRequest, String ofAnswer) {
        return new Profile(name, iat, leniency, request.with(ofRequest), answer.with(ofAnswer), replay, tokenMaxBytes);
    }

    /** Returns this generic profile that opens tokens without {@code kid} where exactly one key is live.
     *
     * @throws UsageException for a profile of a scheme, which requires it */
    public Profile withOptionalKid() {
        if (!name.equals("generic-jwe")) {
            throw new UsageException("the profile " + name + " requires kid: use genericJwe");
        }
        return new Profile(name, iat, Leniency.NO_KID, request, answer, replay, tokenMaxBytes);
    }

    /** Returns this profile with another window for {@code iat}; five minutes by default. */
    public Profile withReplay(ReplayPolicy policy) {
        return new Profile(name, iat, leniency, request, answer, policy, tokenMaxBytes);
    }

    /** Returns this profile with another bound on tokens, in bytes. */
    public Profile withTokenMaxBytes(int bytes) {
        return new Profile(name, iat, leniency, request, answer, replay, bytes);
    }

    /** Returns the name, as configuration and logs have it. */
    public String name() {
        return name;
    }

    /** Returns the media type of sealed bodies of a direction. */
    public String mediaType(Message message) {
        return side(message).member() == null ? "application/jose" : "application/json";
    }

    /** Returns true if a direction allows this pair of algorithms. */
    public boolean allows(Message message, Alg alg, Enc enc) {
        return side(message).algs().contains(alg) && side(message).encs().contains(enc);
    }

    Side side(Message message) {
        return message == Message.REQUEST ? request : answer;
    }

    Unit iat() {
        return iat;
    }

    ReplayPolicy replay() {
        return replay;
    }

    int tokenMaxBytes() {
        return tokenMaxBytes;
    }

    boolean hasMixedLetters() {
        return leniency == Leniency.MASTERCARD;
    }

    boolean allowsLongIv() {
        return leniency == Leniency.MASTERCARD;
    }

    boolean allowsNoKid() {
        return leniency == Leniency.NO_KID;
    }
}
