package dev.sealway.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;

import dev.sealway.crypto.Curve;
import dev.sealway.wire.Json;
import java.security.interfaces.ECPublicKey;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class DriverTest {
    private static final long NOW = 1_750_000_000_000L;
    private static final String SCALAR = "0000000000000000000000000000000000000000000000000000000000000007";
    private final Operations operations = new Operations();

    private Map<?, ?> ask(String op, Object... more) {
        Map<String, Object> question = new LinkedHashMap<>();
        question.put("op", op);
        for (int at = 0; at < more.length; at += 2) {
            question.put((String) more[at], more[at + 1]);
        }
        return (Map<?, ?>) Json.parse(Json.write(Driver.answer(operations, Json.write(question))).getBytes());
    }

    private Map<?, ?> ok(String op, Object... more) {
        Map<?, ?> answer = ask(op, more);
        return assertInstanceOf(Map.class, answer.get("ok"), op + ": " + answer);
    }

    @Test
    void aCallSucceedsOnEveryWireAndSuite() {
        List<String> done = new ArrayList<>();
        String trusted = HexFormat.of().formatHex(Curve.P256.encode((ECPublicKey) FixedKeys.curve(HexFormat.of().parseHex(SCALAR))
                .getPublic()));
        for (String suite : List.of("1", "2", "P256", "X25519MLKEM768", "SecP256r1MLKEM768")) {
            int wire = suite.length() == 1 ? Integer.parseInt(suite) : 3;
            String path = wire == 3 ? "/v3/sessions" : "/session/init";
            List<String> suites = List.of(suite);
            Map<?, ?> init = ok("client.init", "wire", wire, "path", path, "client_id", "c", "ttl_sec", null, "now_ms", NOW,
                    "suite", suite, "suites", suites, "trusted_hex", List.of(trusted));
            Map<?, ?> server = ok("server.init", "path", path, "headers", init.get("headers"), "body_hex", init.get("body_hex"),
                    "now_ms", NOW, "suites", suites, "identity_hex", SCALAR);
            Map<?, ?> client = ok("client.finish", "handle", init.get("handle"), "status", server.get("status"), "headers",
                    server.get("headers"), "body_hex", server.get("body_hex"), "now_ms", NOW);
            roundTrip(client.get("session"), server.get("session"));
            done.add(suite);
            if (wire == 3) {
                Map<?, ?> renew = ok("client.renew", "session", client.get("session"), "suite", suite, "suites", suites, "now_ms",
                        NOW);
                Map<?, ?> renewed = ok("server.renew", "session", server.get("session"), "body_hex", renew.get("body_hex"),
                        "now_ms", NOW, "suites", suites, "identity_hex", SCALAR);
                Map<?, ?> again = ok("client.finish", "handle", renew.get("handle"), "status", 201, "headers", List.of(),
                        "body_hex", renewed.get("body_hex"), "now_ms", NOW);
                roundTrip(again.get("session"), renewed.get("session"));
            }
        }
        System.out.println("driver: round trips on " + done);
    }

    private void roundTrip(Object client, Object session) {
        Map<?, ?> sealed = ok("client.seal", "session", client, "method", "POST", "target", "/a?b", "headers", List.of(),
                "body_hex", "00ff", "now_ms", NOW);
        Map<?, ?> opened = ok("server.open", "session", session, "method", "POST", "target", "/a?b", "headers",
                sealed.get("headers"), "body_hex", sealed.get("body_hex"), "now_ms", NOW);
        assertEquals("00ff", opened.get("body_hex"));
        Map<?, ?> answer = ok("server.seal", "call", opened.get("call"), "status", 200, "headers", List.of(), "body_hex", "aa",
                "now_ms", NOW);
        Map<?, ?> plain = ok("client.open", "call", sealed.get("call"), "status", 200, "headers", answer.get("headers"),
                "body_hex", answer.get("body_hex"), "now_ms", NOW);
        assertEquals("aa", plain.get("body_hex"));
        assertEquals("no such handle", ask("client.open", "call", sealed.get("call"), "status", 200, "headers", List.of(),
                "body_hex", "", "now_ms", NOW).get("fault"));
    }

    @Test
    void anUnknownOperationIsAFaultAndARejectionOfTheCoreAnError() {
        assertEquals("unknown op dance", ask("dance").get("fault"));
        assertEquals("no member wire", ask("client.init").get("fault"));
        assertEquals("json_invalid", ask("server.init", "path", "/session/init", "headers", List.of(), "body_hex", "7b",
                "now_ms", NOW).get("error"));
    }
}
