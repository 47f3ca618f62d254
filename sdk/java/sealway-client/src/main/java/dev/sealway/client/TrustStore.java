package dev.sealway.client;

import java.util.List;

/** Where a client keeps the keys of the services that it has met. */
public interface TrustStore {
    /** The lines that were kept for an origin ({@code scheme://host:port}); empty where it was never met. */
    List<String> load(String origin);

    /** Keeps lines for an origin, in place of those that there were. */
    void save(String origin, List<String> lines);

    /** One that forgets everything when the process ends: for tests and measurements. */
    static TrustStore inMemory() {
        java.util.Map<String, List<String>> kept = new java.util.concurrent.ConcurrentHashMap<>();
        return new TrustStore() {
            @Override
            public List<String> load(String origin) {
                return kept.getOrDefault(origin, List.of());
            }

            @Override
            public void save(String origin, List<String> lines) {
                kept.put(origin, List.copyOf(lines));
            }
        };
    }

    /** One in a file, a line an origin. */
    static TrustStore inFile(java.nio.file.Path file) {
        return new FileTrustStore(file);
    }
}
