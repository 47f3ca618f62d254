package dev.sealway.examples;

import dev.sealway.client.SealedAnswer;
import dev.sealway.client.SealedRequest;
import dev.sealway.client.SealwayClient;
import dev.sealway.client.Trust;
import dev.sealway.client.TrustStore;
import dev.sealway.wire.Json;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.UsageException;
import dev.sealway.wire.Wire;
import java.net.URI;
import java.util.List;
import java.util.Map;

/** What the example programs read from their environment. */
final class Environment {
    static final SealedRequest PURCHASE = SealedRequest.postJson("/transaction/purchase", "{\"schemeCode\":\"AEF\",\"amount\":5000}");

    private Environment() {
    }

    /** A variable that is not what it should be: the program ends with 2. */
    static final class ArgumentException extends RuntimeException {
        private static final long serialVersionUID = 1;

        ArgumentException(String message) {
            super(message);
        }
    }

    static String get(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    static URI url(String name, String otherwise) {
        try {
            URI url = URI.create(get(name, otherwise));
            if (url.getHost() != null && url.getScheme().startsWith("http")) {
                return url;
            }
        } catch (IllegalArgumentException malformed) {
            throw new ArgumentException(name + ": expected http:// or https:// and a host");
        }
        throw new ArgumentException(name + ": expected http:// or https:// and a host");
    }

    static int number(String name, String text, int least, int most) {
        try {
            int number = Integer.parseInt(text);
            if (number >= least && number <= most) {
                return number;
            }
        } catch (NumberFormatException malformed) {
            throw new ArgumentException(name + ": expected a whole number of " + least + " to " + most);
        }
        throw new ArgumentException(name + ": expected a whole number of " + least + " to " + most);
    }

    static Wire wire() {
        return Wire.of(number("SEALWAY_WIRE", get("SEALWAY_WIRE", "3"), 1, 3));
    }

    static SealwayClient client() {
        String session = get("SESSION_URL", "http://localhost:3000");
        SealwayClient.Builder builder = SealwayClient.builder(url("SERVER_URL", session)).authorityUrl(url("SESSION_URL", session))
                .wire(wire());
        try {
            builder.clientId(get("SEALWAY_CLIENT_ID", "sealway-java"));
            String pins = get("SEALWAY_PINS", null);
            if (pins != null) {
                builder.trust(Trust.pins(List.of(pins.strip().split("\\s*,\\s*"))));
            } else if (wire() == Wire.NATIVE) {
                System.err.println("WARNING: SEALWAY_PINS is not set: the service that answers at " + session
                        + " is trusted at first use. Do not do this in production.");
                builder.trust(Trust.firstUse(TrustStore.inMemory()));
            }
            return builder.build();
        } catch (UsageException invalid) {
            throw new ArgumentException("SEALWAY_PINS or SEALWAY_CLIENT_ID: " + invalid.getMessage());
        }
    }

    static boolean isPurchase(SealedAnswer answer) {
        return answer.status() == 200 && Json.parse(answer.body()) instanceof Map<?, ?> members && "SUCCESS".equals(members.get("status"));
    }

    /** Runs a program: 0 if all succeeded, 1 if not, 2 for bad arguments. */
    static void run(Program program) {
        int status;
        try {
            status = program.run() ? 0 : 1;
        } catch (ArgumentException usage) {
            System.err.println(usage.getMessage());
            status = 2;
        } catch (SealwayException failed) {
            System.err.println(failed.getMessage());
            status = 1;
        } catch (Exception failed) {
            System.err.println(failed);
            status = 1;
        }
        System.exit(status);
    }

    /** A program; whether all succeeded. */
    @FunctionalInterface
    interface Program {
        boolean run() throws Exception;
    }
}
