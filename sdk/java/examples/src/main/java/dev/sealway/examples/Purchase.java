package dev.sealway.examples;

import dev.sealway.wire.Json;
import dev.sealway.wire.JsonNumber;
import dev.sealway.wire.ProtocolException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;

/** {@code POST /transaction/purchase}: an ordinary servlet, which knows nothing of seals. */
final class Purchase extends HttpServlet {
    private static final long serialVersionUID = 1;
    private static final int BODY_MAX = 65_536;
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").withZone(ZoneOffset.UTC);
    private static final SecureRandom RANDOM = new SecureRandom();

    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
        Map<String, Object> receipt = "/transaction/purchase".equals(request.getRequestURI()) ? receipt(request.getInputStream()
                .readNBytes(BODY_MAX)) : null;
        if (receipt == null) {
            response.setStatus(400);
            return;
        }
        response.setContentType("application/json");
        response.getOutputStream().write(Json.write(receipt).getBytes(StandardCharsets.UTF_8));
    }

    private static Map<String, Object> receipt(byte[] body) {
        Object order;
        try {
            order = Json.parse(body);
        } catch (ProtocolException malformed) {
            return null;
        }
        if (!(order instanceof Map<?, ?> members) || !(members.get("schemeCode") instanceof String scheme)
                || !(members.get("amount") instanceof JsonNumber amount)) {
            return null;
        }
        byte[] id = new byte[8];
        RANDOM.nextBytes(id);
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("status", "SUCCESS");
        out.put("transactionId", "TXN-" + HexFormat.of().withUpperCase().formatHex(id));
        out.put("schemeCode", scheme);
        out.put("amount", amount);
        out.put("timestamp", TIME.format(Instant.now()));
        out.put("message", "Purchase of " + amount.text() + " in scheme " + scheme + " completed successfully");
        return out;
    }
}
