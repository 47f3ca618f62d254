package dev.sealway.tests;

import io.github.jopenlibs.vault.Vault;
import io.github.jopenlibs.vault.VaultConfig;
import io.github.jopenlibs.vault.VaultException;
import io.github.jopenlibs.vault.api.Logical;
import io.github.jopenlibs.vault.response.LogicalResponse;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;

/** Drives the transit API by the driver of jopenlibs: ADDRESS TOKEN. Writes a line of JSON for each operation. */
public final class TransitClients {
    private static boolean failed;
    private static Logical logical;

    private static void say(String operation, boolean ok) {
        failed |= !ok;
        System.out.printf("{\"operation\":\"%s\",\"ok\":%b}%n", operation, ok);
    }

    private static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    private static LogicalResponse write(String path, Map<String, Object> fields) throws VaultException {
        LogicalResponse answer = logical.write("transit/" + path, fields);
        if (answer.getRestResponse().getStatus() >= 300) {
            throw new VaultException(path, answer.getRestResponse().getStatus());
        }
        return answer;
    }

    private static String member(String path, String name, Map<String, Object> fields) throws VaultException {
        return write(path, fields).getData().get(name);
    }

    private static int status(String path, Map<String, Object> fields) {
        try {
            return logical.write("transit/" + path, fields).getRestResponse().getStatus();
        } catch (VaultException error) {
            return error.getHttpStatusCode();
        }
    }

    public static void main(String[] arguments) throws VaultException {
        VaultConfig config = new VaultConfig().address(arguments[0]).token(arguments[1]).engineVersion(1).build();
        Vault vault = Vault.create(config);
        logical = vault.logical();

        var health = vault.debug().health();
        say("health", health.getInitialized() && !health.getSealed());
        say("sealStatus", !vault.seal().sealStatus().getSealed());
        say("lookupSelf", "admin".equals(vault.auth().lookupSelf().getDisplayName()));

        write("keys/orders", Map.of("type", "aes256-gcm96"));
        write("keys/invoices", Map.of("type", "ecdsa-p256"));
        write("keys/hooks", Map.of("type", "hmac"));
        say("read", "1".equals(logical.read("transit/keys/orders").getData().get("latest_version")));
        say("list", logical.list("transit/keys").getListData().size() == 3);

        String sealed = member("encrypt/orders", "ciphertext", Map.of("plaintext", encoded("java")));
        say("encrypt", sealed.startsWith("vault:v1:"));
        say("decrypt", encoded("java").equals(member("decrypt/orders", "plaintext", Map.of("ciphertext", sealed))));
        write("keys/orders/rotate", Map.of());
        say("rewrap", member("rewrap/orders", "ciphertext", Map.of("ciphertext", sealed)).startsWith("vault:v2:"));
        write("keys/orders/config", Map.of("min_decryption_version", 2, "deletion_allowed", true));
        say("config", status("decrypt/orders", Map.of("ciphertext", sealed)) == 400);

        String signature = member("sign/invoices", "signature", Map.of("input", encoded("42")));
        Map<String, Object> genuine = Map.of("input", encoded("42"), "signature", signature);
        Map<String, Object> another = Map.of("input", encoded("43"), "signature", signature);
        say("sign", "true".equals(member("verify/invoices", "valid", genuine)));
        say("verify", "false".equals(member("verify/invoices", "valid", another)));
        String tag = member("hmac/hooks", "hmac", Map.of("input", encoded("body")));
        say("hmac", "true".equals(member("verify/hooks", "valid", Map.of("input", encoded("body"), "hmac", tag))));
        say("hash", member("hash/sha2-256", "sum", Map.of("input", encoded("abc"))).startsWith("ba7816bf"));
        say("random", Base64.getDecoder().decode(member("random/24", "random_bytes", Map.of())).length == 24);
        var key = write("datakey/plaintext/orders", Map.of("bits", 256)).getData();
        String opened = member("decrypt/orders", "plaintext", Map.of("ciphertext", key.get("ciphertext")));
        say("datakey", opened.equals(key.get("plaintext")));

        logical.delete("transit/keys/orders");
        say("delete", status("keys/orders/rotate", Map.of()) == 400);
        System.exit(failed ? 1 : 0);
    }
}
