package dev.sealway.client;

import dev.sealway.session.nativeprotocol.Identity;
import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.UsageException;
import java.util.List;
import java.util.function.UnaryOperator;

/** Lists of keys that a root signed for one service: the time of issue of the newest one that was accepted, so that no older one is. */
final class RootHistory {
    private static final System.Logger LOG = System.getLogger("dev.sealway.client");
    private final Trust.Root root;
    private final List<String> accepted;
    private final String name;
    private Long issuedMs;

    /** @param accepted names of the signature algorithms that the client accepts; empty for no restriction
     * @param kind of the lists, by which the trust store tells their lines apart */
    RootHistory(Trust.Root root, List<String> accepted, String origin, String kind) {
        this.root = root;
        this.accepted = accepted;
        this.name = origin + "#" + kind + ":" + Identity.keyId(root.key());
        this.issuedMs = number(load(root.store(), name));
    }

    /** The checks of a list. */
    interface Check {
        void verify(byte[] root, List<String> accepted, long nowMs, Long takenIssuedMs);
    }

    static List<String> load(TrustStore store, String name) {
        try {
            return store.load(name);
        } catch (RuntimeException unreadable) {
            throw new UsageException("the trust store cannot be read: check its file and permissions", unreadable);
        }
    }

    static UsageException damaged(String name, Throwable cause) {
        return new UsageException("the trust store's line of " + name + " is damaged: remove it", cause);
    }

    private Long number(List<String> lines) {
        try {
            return lines.isEmpty() ? null : Long.valueOf(lines.getFirst());
        } catch (NumberFormatException damaged) {
            throw damaged(name, damaged);
        }
    }

    /** Accepts a list that passes its checks, and keeps its time of issue.
     *
     * @param own its time of issue, milliseconds of the epoch
     * @param nowMs this machine's clock
     * @throws ProtocolException the code of the check that failed */
    void take(long own, long nowMs, Check check) {
        try {
            check.verify(root.key(), accepted, nowMs, issuedMs);
        } catch (ProtocolException refused) {
            throw new ProtocolException(refused.reason(), refused.field(), "another service or an impostor answered: its list of keys is not the one"
                    + " that the root signed last, or is over by this machine's clock.");
        }
        UnaryOperator<List<String>> newest = lines -> {
            Long theirs = number(lines);
            if (theirs != null && theirs > own) {
                throw new ProtocolException(Code.KEY_UNTRUSTED, null, "another service or an impostor answered: its list of keys is older than one that"
                        + " the root signed and another process accepted.");
            }
            return List.of(Long.toString(own));
        };
        if (issuedMs != null && issuedMs == own) {
            newest.apply(root.store().load(name));
        } else {
            save(root.store(), name, newest);
        }
        issuedMs = own;
    }

    /** Keeps lines. A failure to write is logged and ends no call, since the keys of this process are right either way. Keys of another process
     * that this one does not trust end the call. */
    static void save(TrustStore store, String name, UnaryOperator<List<String>> change) {
        try {
            store.update(name, change);
        } catch (ProtocolException untrusted) {
            throw untrusted;
        } catch (RuntimeException unwritable) {
            LOG.log(System.Logger.Level.ERROR, "the keys of " + name + " could not be kept: the next start will not know them",
                    unwritable);
        }
    }
}
