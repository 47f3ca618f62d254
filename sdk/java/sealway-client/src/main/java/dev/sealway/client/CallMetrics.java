package dev.sealway.client;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/** Measurements of one exchange.
 *
 * @param endpoint {@code init}, {@code renew}, {@code call} or {@code end}
 * @param roundTrip time of the whole, retries included
 * @param http time of the last HTTP exchange, up to the whole answer, or to the head of a streamed one
 * @param crypto times of the cryptographic steps by name
 * @param server the server's {@code Server-Timing}, in milliseconds by name
 */
public record CallMetrics(String endpoint, Duration roundTrip, Duration http, Map<String, Duration> crypto, Map<String, Double> server) {
    /** Returns the times in milliseconds, ready for JSON. */
    public Map<String, Object> toMillis() {
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("round_trip_ms", millis(roundTrip));
        out.put("http_ms", millis(http));
        Map<String, Object> steps = new LinkedHashMap<>();
        crypto.forEach((name, value) -> steps.put(name, millis(value)));
        out.put("crypto_ms", steps);
        out.put("server_ms", new LinkedHashMap<>(server));
        return out;
    }

    private static double millis(Duration duration) {
        return Math.round(duration.toNanos() / 1000.0) / 1000.0;
    }

    static Map<String, Double> serverTiming(String header) {
        Map<String, Double> out = new LinkedHashMap<>();
        for (String entry : header == null ? new String[0] : header.split(",", 64)) {
            int at = entry.indexOf(";dur=");
            if (at > 0) {
                try {
                    out.put(entry.substring(0, at).strip(), Double.parseDouble(entry.substring(at + 5).split(";", 2)[0].strip()));
                } catch (NumberFormatException malformed) {
                    // It informs, and decides nothing.
                    continue;
                }
            }
        }
        return out;
    }
}
