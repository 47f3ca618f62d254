package dev.sealway.conformance;

import dev.sealway.crypto.Curve;
import dev.sealway.crypto.Hpke;
import dev.sealway.crypto.Kem;
import dev.sealway.crypto.KemSender;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.exchange.AnswerSeal;
import dev.sealway.exchange.Exchange;
import dev.sealway.exchange.PlainRequest;
import dev.sealway.exchange.Reply;
import dev.sealway.session.CompatInit;
import dev.sealway.session.CompatSession;
import dev.sealway.session.Family;
import dev.sealway.session.Fresh;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.ServerInit;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.Unreplayed;
import dev.sealway.session.nativeprotocol.Acceptance;
import dev.sealway.session.nativeprotocol.Agreement;
import dev.sealway.session.nativeprotocol.ClientShare;
import dev.sealway.session.nativeprotocol.Identity;
import dev.sealway.session.nativeprotocol.InitRequest;
import dev.sealway.session.nativeprotocol.KeyConfig;
import dev.sealway.session.nativeprotocol.NativeCall;
import dev.sealway.session.nativeprotocol.NativeSession;
import dev.sealway.session.nativeprotocol.OneShotKeys;
import dev.sealway.session.nativeprotocol.RequestKeys;
import dev.sealway.session.nativeprotocol.ServerShare;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Code;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.Wire;
import java.nio.charset.StandardCharsets;
import java.security.KeyPair;
import java.security.SecureRandom;
import java.security.interfaces.ECPublicKey;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** The driver's operations and what they keep between them. */
final class Operations {
    private static final HexFormat HEX = HexFormat.of();
    private static final long TTL_MAX_SEC = 3600;
    private final SecureRandom random = new SecureRandom();
    private final Map<Long, Object> handles = new HashMap<>();
    private long last;

    Map<String, Object> run(String operation, Question q) {
        return switch (operation) {
            case "hello" -> Map.of("language", "java", "wires", List.of(1, 2, 3, 4), "suites",
                    Suite.DEFAULT.stream().map(Suite::text).toList(), "kems", Stream.of(Kem.values()).map(Kem::text).toList(),
                    "roles", List.of("client", "server"));
            case "client.init" -> clientInit(q);
            case "server.init" -> serverInit(q);
            case "client.finish" -> clientFinish(q);
            case "client.renew" -> clientRenew(q);
            case "server.renew" -> serverRenew(q);
            case "client.key" -> clientKey(q);
            case "client.seal" -> clientSeal(q);
            case "server.open" -> serverOpen(q);
            case "server.seal" -> serverSeal(q);
            case "client.open" -> clientOpen(q);
            case "reset" -> {
                handles.clear();
                yield Map.of();
            }
            default -> throw new FaultException("unknown op " + operation);
        };
    }

    private byte[] draw(int length) {
        byte[] out = new byte[length];
        random.nextBytes(out);
        return out;
    }

    private long keep(Object value) {
        handles.put(++last, value);
        return last;
    }

    /** A handle that this use, refused or not, uses up. */
    private Object take(long number) {
        Object value = handle(number, Object.class);
        handles.remove(number);
        return value;
    }

    private <T> T handle(long number, Class<T> kind) {
        if (!kind.isInstance(handles.get(number))) {
            throw new FaultException("no such handle");
        }
        return kind.cast(handles.get(number));
    }

    private static Map<String, Object> members(Object... namesAndValues) {
        Map<String, Object> out = new LinkedHashMap<>();
        for (int at = 0; at < namesAndValues.length; at += 2) {
            out.put((String) namesAndValues[at], namesAndValues[at + 1]);
        }
        return out;
    }

    private static List<Object> pairs(HeaderList headers, String contentType) {
        List<Object> out = new ArrayList<>();
        headers.forEach(header -> out.add(List.of(header.name(), header.value())));
        if (contentType != null) {
            out.add(List.of("Content-Type", contentType));
        }
        return out;
    }

    private record PendingInit(Agreement agreement, Map<String, byte[]> trusted) {
    }

    private record AgreedSession(NativeSession session, Map<String, byte[]> trusted) {
    }

    private Map<String, Object> clientInit(Question q) {
        Wire wire = Wire.of(q.number("wire"));
        if (wire == Wire.NATIVE) {
            Map<String, byte[]> trusted = new HashMap<>();
            q.hexes("trusted_hex").forEach(key -> trusted.put(Identity.keyId(key), key));
            Agreement.Offer offer = new Agreement.Offer(q.texts("suites"), q.text("client_id"), q.optionalNumber("ttl_sec"),
                    List.of(), null);
            Agreement agreement = new Agreement(offer, ClientShare.generate(suite(q.text("suite")), random),
                    (java.util.function.UnaryOperator<InitRequest>) null);
            return members("handle", keep(new PendingInit(agreement, trusted)), "method", "POST", "headers",
                    pairs(HeaderList.of(), "application/json"), "body_hex", HEX.formatHex(agreement.request().write()));
        }
        boolean isAnonymous = q.text("path").equals(Family.ANONYMOUS.path());
        CompatInit init = new CompatInit(wire, isAnonymous, q.optionalText("client_id"), q.optionalNumber("ttl_sec"),
                Curve.P256.generate(random), draw(16), q.number("now_ms"));
        return members("handle", keep(init), "method", "POST", "headers", pairs(init.request().headers(), "application/json"),
                "body_hex", HEX.formatHex(init.request().body()));
    }

    private static Suite suite(String name) {
        Suite suite = Suite.of(name);
        if (suite == null) {
            throw new FaultException("unknown suite");
        }
        return suite;
    }

    private Identity identity(Question q) {
        KeyPair pair = FixedKeys.curve(q.hex("identity_hex"));
        return new Identity(Curve.P256.encode((ECPublicKey) pair.getPublic()), 0, Long.MAX_VALUE,
                message -> Curve.P256.sign(pair.getPrivate(), message, random));
    }

    private Map<String, Object> serverInit(Question q) {
        String path = q.text("path");
        long nowMs = q.number("now_ms");
        HeaderList headers = q.headers();
        byte[] body = q.hex("body_hex");
        if (path.equals("/v3/sessions")) {
            InitRequest request = InitRequest.read(body);
            return accepted(q, request, new Acceptance.Decision(draw(16), Acceptance.ttlSec(request, TTL_MAX_SEC), nowMs, "none",
                    null, null), headers.first("Authorization"), null);
        }
        Family family = Family.of(path);
        if (family == null) {
            throw new FaultException("unknown path");
        }
        Unreplayed<ServerInit> read = ServerInit.read(family, headers, body, nowMs, ReplayPolicy.DEFAULT);
        ServerInit.Grant accepted = read.release(Fresh.granted(read.claim())).accept(headers.has("Authorization"), null, draw(16),
                Curve.P256.generate(random));
        HeaderList answer = family == Family.V1 ? HeaderList.of(HeaderNames.X_KID, accepted.session().id()) : HeaderList.of();
        return members("status", 200, "headers", pairs(answer, "application/json"), "body_hex",
                HEX.formatHex(accepted.answer().getBytes(StandardCharsets.UTF_8)), "session", accepted.session().toMembers());
    }

    private Map<String, Object> accepted(Question q, InitRequest request, Acceptance.Decision decision, String authorization,
            SessionRecord renewed) {
        Acceptance.Grant accepted = Acceptance.accept(request, authorization, decision, q.texts("suites"),
                List.of(identity(q)), suite -> ServerShare.generate(suite, random), renewed);
        return members("status", 201, "headers", pairs(HeaderList.of(), "application/json"), "body_hex",
                HEX.formatHex(accepted.body()), "session", accepted.session().toMembers());
    }

    private Map<String, Object> serverRenew(Question q) {
        SessionRecord old = q.session();
        InitRequest request = InitRequest.read(q.hex("body_hex"));
        return accepted(q, request, new Acceptance.Decision(draw(16), Acceptance.ttlSec(request, TTL_MAX_SEC), q.number("now_ms"),
                old.auth(), old.subject(), old.tenant()), null, old);
    }

    private Map<String, Object> clientFinish(Question q) {
        byte[] body = q.hex("body_hex");
        int status = q.status();
        Object begun = take(q.number("handle"));
        if (begun instanceof PendingInit init) {
            NativeSession session = init.agreement().finish(status, body, init.trusted()::get);
            return members("session", keep(new AgreedSession(session, init.trusted())), "session_id", session.id());
        }
        if (!(begun instanceof CompatInit init)) {
            throw new FaultException("no such handle");
        }
        if (status != 200) {
            throw new ProtocolException(Code.ANSWER_MISMATCH, "status");
        }
        CompatSession session = init.finish(body, q.number("now_ms"));
        return members("session", keep(session), "session_id", session.id());
    }

    private Map<String, Object> clientRenew(Question q) {
        AgreedSession met = handle(q.number("session"), AgreedSession.class);
        Agreement.Offer offer = new Agreement.Offer(q.texts("suites"), met.session().clientId(), null, List.of(), null);
        Agreement agreement = new Agreement(offer, ClientShare.generate(suite(q.text("suite")), random), met.session());
        return members("handle", keep(new PendingInit(agreement, met.trusted())), "body_hex",
                HEX.formatHex(agreement.request().write()));
    }

    private record Recipient(KeyConfig key, Hpke.Psk psk) {
    }

    private Map<String, Object> clientKey(Question q) {
        KeyConfig key = KeyConfig.read(q.hex("config_hex"));
        if (key.kem() == null) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
        String id = q.optionalText("psk_id");
        Hpke.Psk psk = id == null ? null : new Hpke.Psk(id.getBytes(StandardCharsets.US_ASCII), SecretBytes.owning(q.hex("psk_hex")));
        return members("session", keep(new Recipient(key, psk)), "kid", key.kid());
    }

    private Map<String, Object> clientSeal(Question q) {
        byte[] body = q.hex("body_hex");
        Object session = handle(q.number("session"), Object.class);
        RequestKeys keys = switch (session) {
            case AgreedSession met -> met.session();
            case Recipient to -> OneShotKeys.agree(to.key(), to.psk(), KemSender.generate(to.key().kem(), random));
            default -> null;
        };
        if (keys != null) {
            RequestKeys.WholeRequest sealed = keys.seal(q.text("method"), q.text("target"), q.headers(), body, q.number("now_ms"),
                    draw(16));
            return sealed(sealed.message(), sealed.call());
        }
        CompatSession old = handle(q.number("session"), CompatSession.class);
        CompatSession.Call call = old.seal(path(q.text("target")), body, q.number("now_ms"), draw(16), draw(12));
        return sealed(call.message(), call);
    }

    private static String path(String target) {
        int query = target.indexOf('?');
        return query < 0 ? target : target.substring(0, query);
    }

    private Map<String, Object> sealed(SealedMessage message, Object call) {
        return members("call", keep(call), "headers", pairs(message.headers(), message.contentType()), "body_hex",
                HEX.formatHex(message.body()));
    }

    private Map<String, Object> serverOpen(Question q) {
        SessionRecord session = q.session();
        HeaderList headers = q.headers();
        byte[] body = q.hex("body_hex");
        long nowMs = q.number("now_ms");
        Exchange exchange = Exchange.begin(q.text("method"), q.text("target"), headers, nowMs, ReplayPolicy.DEFAULT);
        Unreplayed<PlainRequest> opened = exchange.session(session).openAll(body, nowMs);
        PlainRequest plain = opened.release(Fresh.granted(opened.claim()));
        HeaderList inner = plain.headers() == null ? HeaderList.of() : plain.headers();
        return members("call", keep(plain.reply()), "headers", pairs(inner, null), "body_hex", HEX.formatHex(plain.first()), "claim_hex",
                opened.claim().key());
    }

    private Map<String, Object> serverSeal(Question q) {
        if (!(take(q.number("call")) instanceof Reply reply)) {
            throw new FaultException("no such handle");
        }
        byte[] body = q.hex("body_hex");
        SealedMessage message = switch (reply.answer(q.status())) {
            case AnswerSeal.Frames frames -> frames.seal(q.headers(), body, q.number("now_ms"), draw(16));
            case AnswerSeal.Whole whole -> whole.seal(body, q.number("now_ms"), draw(16), draw(12));
            case AnswerSeal.Plain plain -> throw new FaultException("an answer of this status is not sealed");
        };
        return members("status", q.status(), "headers", pairs(message.headers(), message.contentType()), "body_hex",
                HEX.formatHex(message.body()));
    }

    private Map<String, Object> clientOpen(Question q) {
        Object call = take(q.number("call"));
        byte[] body = q.hex("body_hex");
        if (call instanceof NativeCall framed) {
            NativeCall.PlainAnswer opened = framed.open(q.status(), q.headers(), body);
            return members("headers", pairs(opened.headers(), null), "body_hex", HEX.formatHex(opened.body()), "is_problem",
                    opened.isProblem());
        }
        if (!(call instanceof CompatSession.Call old)) {
            throw new FaultException("no such handle");
        }
        byte[] plain = old.open(q.headers(), q.status(), body, q.number("now_ms"), ReplayPolicy.DEFAULT);
        return members("headers", List.of(), "body_hex", HEX.formatHex(plain));
    }

    /** For messages of the wire alone: what a handle keeps is not shown. */
    @Override
    public String toString() {
        return "Operations[" + handles.size() + " handles]";
    }
}
