package dev.sealway.tests;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.security.MessageDigest;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

/**
 * A client of a scheme ({@code call SPEC}), or a double of the scheme ({@code serve SPEC}), by the published libraries for Java.
 * SPEC is described in ../README.md. It ends at the first difference, with the reason on standard error.
 */
public final class MleClients {
    static final ObjectMapper JSON = new ObjectMapper().enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS);

    /** The service's answer to a request, in turn; the number is prime, so that every body meets each of them. */
    private static final List<String> TURNS = List.of("echo", "echo", "empty", "echo", "error", "echo", "get");
    private static final Map<String, Integer> STATUS = Map.of("echo", 200, "get", 200, "empty", 204, "error", 400);
    /** The body of the service's error. */
    private static final byte[] ERROR = "{\"error\":\"DECLINED\",\"reason\":\"nicht gedeckt 💳\",\"code\":51}".getBytes(UTF_8);
    /** The body of the service's answer to a request without one. */
    private static final byte[] FOUND =
        "{\"found\":[\"é\",1],\"by\":\"get\",\"card\":{\"pan\":\"5555555555554444\"}}".getBytes(UTF_8);

    /** Ends the program if something does not hold. */
    static void check(boolean holds, String why) {
        if (!holds) throw new IllegalStateException(why.substring(0, Math.min(why.length(), 2000)));
    }

    public static void main(String[] arguments) {
        try {
            JsonNode spec = JSON.readTree(arguments[1]);
            if (arguments[0].equals("call")) call(spec, Library.of(spec));
            else serve(spec, Library.of(spec));
        } catch (Throwable fault) {
            end(fault);
        }
    }

    private static void end(Throwable fault) {
        fault.printStackTrace();
        Runtime.getRuntime().halt(1);
    }

    private static void call(JsonNode spec, Library library) throws Exception {
        JsonNode bodies = JSON.readTree(new File(spec.get("bodies").asText()));
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        boolean isWhole = spec.get("shape").asText().equals("whole");
        for (int index = 0; index < spec.get("count").asInt(); index++) {
            String turn = TURNS.get(index % TURNS.size());
            String text = bodies.get(index % bodies.size()).asText();
            String what = "round " + index + ", " + turn + ", " + text.substring(0, Math.min(200, text.length())) + ": ";
            var request = HttpRequest.newBuilder(URI.create(spec.get("url").asText())).header("X-Answer", turn);
            if (!turn.equals("get")) {
                Map<String, String> headers = new HashMap<>();
                request.POST(BodyPublishers.ofByteArray(library.seal(text.getBytes(UTF_8), "request", headers)));
                headers.forEach(request::header);
                request.header("Content-Type", library.type());
                byte[] sent = library.sent(text);
                if (sent != null) request.header("X-Sent-Sha256", sha256(sent));
                if (spec.get("profile").asText().equals("visa")) request.header("keyId", spec.at("/seal/kid").asText());
            }
            var answer = client.send(request.build(), BodyHandlers.ofByteArray());
            byte[] received = answer.body();
            String shown = new String(received, UTF_8);
            check(answer.statusCode() == STATUS.get(turn), what + "status " + answer.statusCode() + " " + shown);
            if (turn.equals("empty") || (turn.equals("echo") && text.isEmpty())) {
                check(received.length == 0, what + "the answer has a body: " + shown);
                continue;
            }
            boolean isClear = turn.equals("error") && spec.get("errors").asText().equals("clear");
            if (isClear) check(MessageDigest.isEqual(received, ERROR), what + shown);
            else if (isWhole) {
                String type = answer.headers().firstValue("content-type").orElse("");
                Library.checkSealed(spec, type, received, "answer");
            }
            byte[] opened = isClear && !library.opensAll() ? ERROR : library.open(received, "answer", name -> answer.headers().firstValue(name).orElse(null));
            byte[] expected = turn.equals("echo") ? text.getBytes(UTF_8) : turn.equals("get") ? FOUND : ERROR;
            check(library.isSame(opened, expected), what + new String(opened, UTF_8));
        }
        System.out.println(spec.get("count") + " round trips");
    }

    private static String sha256(byte[] bytes) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    }

    private static void serve(JsonNode spec, Library library) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", exchange -> {
            try {
                answer(exchange, spec, library);
            } catch (Throwable fault) {
                end(fault);
            }
        });
        server.start();
        System.out.println("127.0.0.1:" + server.getAddress().getPort());
    }

    private static void answer(HttpExchange exchange, JsonNode spec, Library library) throws Exception {
        byte[] body = exchange.getRequestBody().readAllBytes();
        String turn = exchange.getRequestHeaders().getFirst("X-Answer");
        boolean isWhole = spec.get("shape").asText().equals("whole");
        byte[] opened = new byte[0];
        if (body.length > 0) {
            if (isWhole) {
                Library.checkSealed(spec, exchange.getRequestHeaders().getFirst("Content-Type"), body, "request");
            }
            opened = library.open(body, "request", exchange.getRequestHeaders()::getFirst);
        }
        if (!isWhole) check(!new String(body, UTF_8).contains("\"card\""), "a field is in clear");
        byte[] plain = switch (turn) {
            case "get" -> FOUND;
            case "error", "clear-error" -> ERROR;
            default -> opened;
        };
        boolean isClear = turn.equals("clear-error");
        Map<String, String> headers = new HashMap<>();
        byte[] sealed = turn.equals("empty") || isClear ? plain : library.seal(plain, "answer", headers);
        int status = isClear ? 400 : STATUS.get(turn);
        if (status != 204) exchange.getResponseHeaders().set("Content-Type", isClear ? "application/json" : library.type());
        headers.forEach(exchange.getResponseHeaders()::set);
        exchange.sendResponseHeaders(status, status == 204 ? -1 : sealed.length);
        if (status != 204) exchange.getResponseBody().write(sealed);
        exchange.close();
    }
}
