package dev.sealway.client;

import dev.sealway.wire.Options;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.UnaryOperator;

/** Where a client keeps the keys of the services that it has met. */
public interface TrustStore {
    /** The lines that were kept for an origin ({@code scheme://host:port}); empty where it was never met. */
    List<String> load(String origin);

    /** Keeps lines for an origin, in place of those that there were. */
    void save(String origin, List<String> lines);

    /** Keeps what {@code change} makes of an origin's lines. A store that several clients or processes share does this as one step, so that
     * nobody writes between reading and writing; this default does not. What {@code change} throws is thrown, and nothing is kept. */
    default void update(String origin, UnaryOperator<List<String>> change) {
        save(origin, change.apply(load(origin)));
    }

    /** One that forgets everything when the process ends: for tests and measurements. */
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

    /** One in a file, a line an origin, which several processes may share. */
    static TrustStore inFile(Path file) {
        return new FileTrustStore(Options.present(file, "file", "give its path"));
    }
}
