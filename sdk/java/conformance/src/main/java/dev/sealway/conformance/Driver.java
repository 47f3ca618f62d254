package dev.sealway.conformance;

import dev.sealway.exchange.Rejection;
import dev.sealway.wire.Json;
import dev.sealway.wire.ProtocolException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** The driver of {@code sdk/conformance/README.md}: one JSON object a line in, one a line out. */
public final class Driver {
    private Driver() {
    }

    /** Reads standard input to its end. */
    public static void main(String[] args) throws IOException {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Operations operations = new Operations();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (!line.isBlank()) {
                out.println(Json.write(answer(operations, line)));
                out.flush();
            }
        }
    }

    static Map<String, Object> answer(Operations operations, String line) {
        try {
            if (!(Json.parse(line.getBytes(StandardCharsets.UTF_8)) instanceof Map<?, ?> members)) {
                return Map.of("fault", "no JSON object");
            }
            Question question = new Question(members);
            return Map.of("ok", operations.run(question.text("op"), question));
        } catch (FaultException fault) {
            return Map.of("fault", fault.getMessage());
        } catch (ProtocolException | Rejection refused) {
            return Map.of("error", refused.code());
        } catch (RuntimeException broken) {
            return Map.of("fault", broken.toString());
        }
    }
}
