package dev.sealway.examples;

import dev.sealway.client.SealedAnswer;
import dev.sealway.client.SealwayClient;
import dev.sealway.wire.Json;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** One sealed call, told step by step. {@code single [--json]}. */
public final class Single {
    private Single() {
    }

    /** Runs it. */
    public static void main(String[] args) {
        Environment.run(() -> run(List.of(args)));
    }

    private static boolean run(List<String> args) {
        boolean isJson = args.equals(List.of("--json"));
        if (!isJson && !args.isEmpty()) {
            throw new Environment.ArgumentException("usage: single [--json]");
        }
        try (SealwayClient client = Environment.client()) {
            tell(isJson, "1. Agree a session on wire " + Environment.wire().number());
            SealwayClient.SessionInfo session = client.session();
            tell(isJson, "   session " + session.id() + (session.suite() == null ? "" : ", suite " + session.suite()));
            tell(isJson, "2. Seal POST " + Environment.PURCHASE.target() + " and send it");
            SealedAnswer answer = client.send(Environment.PURCHASE);
            tell(isJson, "3. The answer opened: status " + answer.status());
            tell(isJson, "   " + answer.text());
            Map<String, Object> timings = new LinkedHashMap<>();
            timings.put("init", session.metrics().toMillis());
            timings.put("call", answer.metrics().toMillis());
            boolean isGood = Environment.isPurchase(answer);
            if (isJson) {
                Map<String, Object> out = new LinkedHashMap<>();
                out.put("program", "single");
                out.put("language", "java");
                out.put("wire", Environment.wire().number());
                out.put("suite", session.suite());
                out.put("session_id", session.id());
                out.put("status", answer.status());
                out.put("body", Json.parse(answer.body()));
                out.put("timings", timings);
                System.out.println(Json.write(out));
            } else {
                System.out.println("Metrics, in milliseconds");
                timings.forEach((name, value) -> System.out.println("   " + name + ": " + Json.write(value)));
            }
            client.end();
            return isGood;
        }
    }

    private static void tell(boolean isJson, String line) {
        (isJson ? System.err : System.out).println(line);
    }
}
