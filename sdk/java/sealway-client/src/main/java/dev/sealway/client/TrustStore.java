package dev.sealway.client;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.UnaryOperator;

/** Keeps the keys of the services that a client has met. {@link FileTrustStore} keeps them in a file. */
public interface TrustStore {
    /** Returns the lines that are kept for an origin ({@code scheme://host:port}); none if it was never met. */
    List<String> load(String origin);

    /** Replaces the lines of an origin. */
    void save(String origin, List<String> lines);

    /** Replaces the lines of an origin by those that {@code change} returns. A store that several clients or processes share does this in one
     * step, so that no other writer comes in between; this default does not. If {@code change} throws, nothing is kept. */
    default void update(String origin, UnaryOperator<List<String>> change) {
        save(origin, change.apply(load(origin)));
    }

    /** Returns a store that forgets everything when the process ends, for tests and measurements. */
    static TrustStore inMemory() {
        Map<String, List<String>> kept = new ConcurrentHashMap<>();
        return new TrustStore() {
            @Override
            public List<String> load(String origin) {
                return kept.getOrDefault(origin, List.of());
            }

            @Override
            public void save(String origin, List<String> lines) {
                kept.put(origin, List.copyOf(lines));
            }

            @Override
            public void update(String origin, UnaryOperator<List<String>> change) {
                kept.compute(origin, (same, lines) -> List.copyOf(change.apply(lines == null ? List.of() : lines)));
            }
        };
    }
}
