package dev.sealway.server;

import dev.sealway.session.Claim;
import dev.sealway.session.Fresh;
import dev.sealway.session.SessionRecord;
import dev.sealway.wire.Code;
import dev.sealway.wire.Json;
import dev.sealway.wire.Options;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.UsageException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.URI;
import java.net.UnknownHostException;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** A store that asks a session authority. {@code spec/session.md#authority-endpoints}.
 *
 * <p>Sessions are cached for half a second. A claim is asked for once. */
public final class AuthorityStore implements SessionStore, AutoCloseable {
    private static final int MESSAGE_MAX = 65_536;
    private static final int KEPT_MAX = 10_000;
    private static final long KEPT_NANOS = 500_000_000L;
    private static final int SECRET_MIN = 16;
    private final URI base;
    private final String authorization;
    private final Duration timeout;
    private final HttpClient http;
    private final Map<String, CacheEntry> kept = new ConcurrentHashMap<>();

    private record CacheEntry(SessionRecord session, long sinceNanos) {
    }

    private record Reply(int status, Map<?, ?> members) {
    }

    /** Creates a store.
     *
     * @param url {@code https://…}, or {@code http://} of a loopback address, since keys travel in the answers
     * @param secret at least 16 visible ASCII characters
     * @param timeout of each request to the authority */
    public AuthorityStore(URI url, String secret, Duration timeout) {
        Options.present(url, "url", "give the authority's address, as https://authority.example.com");
        Options.present(secret, "secret", "give the one line that the authority knows this server by");
        Options.within(timeout, Duration.ZERO, Duration.ofDays(365), "timeout");
        if (!"https".equals(url.getScheme()) && !("http".equals(url.getScheme()) && isLoopback(url.getHost()))) {
            throw new UsageException("url is not https://, or http:// of a loopback address: session keys travel there");
        }
        if (secret.length() < SECRET_MIN || !secret.chars().allMatch(c -> c > 0x20 && c < 0x7f)) {
            throw new UsageException("secret is not one line of at least 16 visible ASCII characters");
        }
        String text = url.toString();
        this.base = URI.create(text.endsWith("/") ? text.substring(0, text.length() - 1) : text);
        this.authorization = "Bearer " + secret;
        this.timeout = timeout;
        this.http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).followRedirects(HttpClient.Redirect.NEVER)
                .connectTimeout(timeout).executor(Executors.newVirtualThreadPerTaskExecutor()).build();
    }

    /** Creates a store with the secret in a file. */
    public static AuthorityStore withSecretFile(URI url, Path file, Duration timeout) throws IOException {
        return new AuthorityStore(url, Files.readString(Options.present(file, "file", "give the path of the file with the secret")).strip(), timeout);
    }

    private static boolean isLoopback(String host) {
        try {
            return "localhost".equals(host)
                    || host != null && host.matches("\\[?[0-9a-fA-F.:]+]?") && InetAddress.getByName(host).isLoopbackAddress();
        } catch (UnknownHostException none) {
            return false;
        }
    }

    @Override
    public SessionRecord find(String id) {
        CacheEntry known = kept.get(id);
        if (known != null && System.nanoTime() - known.sinceNanos() < KEPT_NANOS) {
            return known.session();
        }
        long askedNanos = System.nanoTime();
        Reply reply = ask(HttpRequest.newBuilder(URI.create(base + "/v1/authority/sessions/" + id)).GET());
        kept.remove(id);
        if (!id.equals(reply.members().get("id"))) {
            throw away("it answered another question", null);
        }
        if (reply.status() == 404 && "SESSION_NOT_FOUND".equals(reply.members().get("error"))) {
            return null;
        }
        if (reply.status() != 200) {
            throw away("it answered " + reply.status(), null);
        }
        try {
            SessionRecord session = SessionRecord.fromMembers(reply.members());
            if (kept.size() >= KEPT_MAX) {
                kept.clear();
            }
            kept.put(id, new CacheEntry(session, askedNanos));
            return session;
        } catch (ProtocolException malformed) {
            throw away("a session of its has a malformed " + malformed.field(), null);
        }
    }

    @Override
    public Fresh reserve(Claim claim) {
        Map<String, Object> question = new LinkedHashMap<>();
        question.put("key", claim.key());
        question.put("sealed", claim.isSealed());
        question.put("stamp_ms", claim.stampMs());
        Reply reply = ask(HttpRequest.newBuilder(URI.create(base + "/v1/authority/nonces"))
                .header("Content-Type", "application/json").POST(HttpRequest.BodyPublishers.ofString(Json.write(question))));
        if (reply.status() == 507) {
            throw new StoreException(true, "the authority has no room for a nonce", null);
        }
        if (!claim.key().equals(reply.members().get("key"))) {
            throw away("it answered another question", null);
        }
        if (reply.status() == 409 && "TIMESTAMP_OUTSIDE_WINDOW".equals(reply.members().get("error"))) {
            throw new ProtocolException(Code.TIMESTAMP_OUTSIDE_WINDOW);
        }
        if (reply.status() == 409 && "REPLAYED".equals(reply.members().get("error"))) {
            throw new ProtocolException(Code.REPLAYED);
        }
        if (reply.status() != 201) {
            throw away("it answered " + reply.status(), null);
        }
        return Fresh.granted(claim);
    }

    private Reply ask(HttpRequest.Builder question) {
        HttpRequest request = question.header("Authorization", authorization).build();
        var answer = http.sendAsync(request, head -> new BoundedBody(MESSAGE_MAX));
        byte[] body = {};
        try {
            HttpResponse<byte[]> response = answer.get(timeout.toNanos(), TimeUnit.NANOSECONDS);
            body = response.body();
            if (!response.headers().firstValue("Content-Type").orElse("").equals("application/json")) {
                throw away("it answered " + response.statusCode() + " and no JSON", null);
            }
            if (Json.parse(body) instanceof Map<?, ?> members) {
                return new Reply(response.statusCode(), members);
            }
            throw away("it answered no object", null);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw away("the call was cancelled", interrupted);
        } catch (ProtocolException malformed) {
            throw away("it answered no JSON", null);
        } catch (java.util.concurrent.ExecutionException | java.util.concurrent.TimeoutException failed) {
            answer.cancel(true);
            throw away("it did not answer", failed);
        } finally {
            Arrays.fill(body, (byte) 0);
        }
    }

    private static StoreException away(String what, Throwable cause) {
        return new StoreException(false, "the authority is of no use: " + what, cause);
    }

    @Override
    public void close() {
        http.shutdownNow();
    }

    @Override
    public String toString() {
        return "AuthorityStore[" + base + "]";
    }
}
