package dev.sealway.client;

import dev.sealway.session.nativeprotocol.KeyDocument;
import dev.sealway.session.nativeprotocol.KeySet;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.Stage;
import java.util.List;
import java.util.Map;

/** The service has none of the keys that the client trusts: {@code key_retired}. If the stage is {@code call}, the outcome of the request is
 * unknown. */
public final class KeyRetiredException extends ProblemException {
    private static final long serialVersionUID = 1;
    private final List<String> keys;

    private KeyRetiredException(Facts facts, List<String> keys) {
        super(keys.isEmpty() ? facts : new Facts(facts.stage(), facts.host(), facts.isRetryable(), facts.status(), facts.code(), facts.problem(),
                facts.isSealed(), facts.event() + " It names these keys, without proof: " + String.join(", ", keys) + "."));
        this.keys = keys;
    }

    static KeyRetiredException of(Facts facts) {
        return new KeyRetiredException(facts, named(facts.problem().members()));
    }

    /** Returns the error for a key document without a key that the client can use. */
    static KeyRetiredException of(String host, KeyDocument document) {
        return new KeyRetiredException(new Facts(Stage.AGREEMENT, host, false, 200, "key_retired", null, false,
                "the key document has no key that is in use, and that this client trusts, allows and has the KEM for."), kids(document));
    }

    private static List<String> named(Map<String, Object> members) {
        try {
            return members.get("key_document") != null ? kids(KeyDocument.of(members.get("key_document")))
                    : members.get("key_set") != null ? List.copyOf(KeySet.of(members.get("key_set")).byId().keySet()) : List.of();
        } catch (ProtocolException malformed) {
            return List.of();
        }
    }

    private static List<String> kids(KeyDocument document) {
        return document.keys().stream().map(key -> key.config().kid()).toList();
    }

    /** Returns the keys that the service has now: kids on wire 4, key ids on wire 3; empty if it named none. Any party on the path can have
     * written them: pin a key only after the service's operator confirmed it. */
    public List<String> keys() {
        return keys;
    }
}
