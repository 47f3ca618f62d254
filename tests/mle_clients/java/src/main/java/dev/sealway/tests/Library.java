package dev.sealway.tests;

import static dev.sealway.tests.MleClients.JSON;
import static dev.sealway.tests.MleClients.check;
import static java.nio.charset.StandardCharsets.UTF_8;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.mastercard.developer.encryption.FieldLevelEncryption;
import com.mastercard.developer.encryption.FieldLevelEncryptionConfig;
import com.mastercard.developer.encryption.FieldLevelEncryptionConfig.FieldValueEncoding;
import com.mastercard.developer.encryption.FieldLevelEncryptionConfigBuilder;
import com.mastercard.developer.encryption.FieldLevelEncryptionParams;
import com.mastercard.developer.encryption.JweConfig;
import com.mastercard.developer.encryption.JweConfigBuilder;
import com.mastercard.developer.encryption.JweEncryption;
import com.mastercard.developer.utils.EncryptionUtils;
import com.nimbusds.jose.EncryptionMethod;
import com.nimbusds.jose.JOSEObjectType;
import com.nimbusds.jose.JWEAlgorithm;
import com.nimbusds.jose.JWEHeader;
import com.nimbusds.jose.JWEObject;
import com.nimbusds.jose.Payload;
import com.nimbusds.jose.crypto.ECDHDecrypter;
import com.nimbusds.jose.crypto.ECDHEncrypter;
import com.nimbusds.jose.crypto.RSADecrypter;
import com.nimbusds.jose.crypto.RSAEncrypter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.interfaces.ECPrivateKey;
import java.security.interfaces.ECPublicKey;
import java.security.interfaces.RSAPublicKey;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;

/** The libraries, each behind the same few calls. */
interface Library {
    /** The members that hold the token of a request and of an answer. The body of generic-jwe is the token itself. */
    Map<String, Map<String, String>> MEMBERS = Map.of(
            "mastercard-jwe", Map.of("request", "encryptedData", "answer", "encryptedData"),
            "visa", Map.of("request", "encData", "answer", "encData"),
            "visa-acceptance", Map.of("request", "encryptedRequest", "answer", "encryptedResponse"),
            "generic-jwe", Map.of());

    String type();

    /** True if it is given answers in clear too, which it must leave as they are. */
    boolean opensAll();

    /** Returns the plaintext that is sealed for a text; null if only the library knows. */
    byte[] sent(String text) throws Exception;

    /** Seals a text. Adds the headers of the message to `headers`, if the form has any. */
    byte[] seal(byte[] text, String message, Map<String, String> headers) throws Exception;

    byte[] open(byte[] body, String message, Function<String, String> headers) throws Exception;

    boolean isSame(byte[] opened, byte[] expected) throws Exception;

    static Library of(JsonNode spec) throws Exception {
        Certificate certificate = EncryptionUtils.loadEncryptionCertificate(spec.at("/seal/certificate").asText());
        PrivateKey key = keyOf(spec.at("/open/key").asText(), certificate);
        if (spec.has("fle")) return new FieldLevel(spec.get("fle"), FieldLevel.configOf(spec.get("fle"), certificate, key));
        return spec.get("library").asText().equals("mastercard")
                ? new Mastercard(spec, certificate, key)
                : new Nimbus(spec, certificate, key);
    }

    /** Loads a private key; Mastercard's loader knows RSA alone. */
    private static PrivateKey keyOf(String path, Certificate certificate) throws Exception {
        if (certificate.getPublicKey() instanceof RSAPublicKey) return EncryptionUtils.loadDecryptionKey(path);
        String pem = Files.readString(Path.of(path)).replaceAll("-----[A-Z ]+-----|\\s", "");
        return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(pem)));
    }

    /** Returns the token of a body, which must have nothing beside it. */
    static String token(JsonNode spec, String message, byte[] body) throws Exception {
        String name = MEMBERS.get(spec.get("profile").asText()).get(message);
        if (name == null) return new String(body, UTF_8);
        JsonNode value = JSON.readTree(body);
        check(value.size() == 1 && value.has(name), "the token is not alone: " + value);
        return value.get(name).asText();
    }

    /** Checks what a library does not: the media type, the names in the header, and the time. */
    static void checkSealed(JsonNode spec, String type, byte[] body, String message) throws Exception {
        String profile = spec.get("profile").asText();
        check(type.startsWith(profile.equals("generic-jwe") ? "application/jose" : "application/json"), "type: " + type);
        String[] parts = token(spec, message, body).split("\\.", -1);
        check(parts.length == 5, "parts: " + Arrays.toString(parts));
        JsonNode header = JSON.readTree(Base64.getUrlDecoder().decode(parts[0]));
        String kid = spec.at("/open/kid").asText(null);
        check(kid == null || kid.equals("null") || kid.equals(header.get("kid").asText()), "kid: " + header);
        if (message.equals("request") && profile.startsWith("visa")) {
            long millis = header.get("iat").longValue() * (profile.equals("visa") ? 1 : 1000);
            check(Math.abs(millis - System.currentTimeMillis()) < 120_000, "iat: " + header);
        }
    }

    /** Mastercard's client-encryption. It takes JSON and returns JSON. */
    record Mastercard(JweConfig config) implements Library {
        Mastercard(JsonNode spec, Certificate certificate, PrivateKey key) throws Exception {
            this(configOf(spec.get("shape").asText().equals("whole"), certificate, key));
        }

        private static JweConfig configOf(boolean isWhole, Certificate certificate, PrivateKey key) throws Exception {
            var builder =
                    JweConfigBuilder.aJweEncryptionConfig().withEncryptionCertificate(certificate).withDecryptionKey(key);
            if (isWhole) return builder.withEncryptionPath("$", "$").withDecryptionPath("$.encryptedData", "$").build();
            return builder.withEncryptionPath("$.card", "$.secret")
                    .withEncryptionPath("$.customer.address", "$.hidden")
                    .withDecryptionPath("$.secret.encryptedData", "$.card")
                    .withDecryptionPath("$.hidden.encryptedData", "$.customer.address")
                    .build();
        }

        public String type() {
            return "application/json";
        }

        public boolean opensAll() {
            return true;
        }

        public byte[] sent(String text) {
            return null;
        }

        public byte[] seal(byte[] text, String message, Map<String, String> headers) throws Exception {
            return JweEncryption.encryptPayload(new String(text, UTF_8), config).getBytes(UTF_8);
        }

        public byte[] open(byte[] body, String message, Function<String, String> headers) throws Exception {
            return JweEncryption.decryptPayload(new String(body, UTF_8), config).getBytes(UTF_8);
        }

        public boolean isSame(byte[] opened, byte[] expected) throws Exception {
            return isSameValue(opened, expected);
        }
    }

    /** Compares values. The library leaves the object that held a token, empty. */
    private static boolean isSameValue(byte[] opened, byte[] expected) throws Exception {
        JsonNode value = JSON.readTree(opened);
        if (value instanceof ObjectNode object) {
            for (String name : List.of("secret", "hidden")) {
                if (object.has(name) && object.get(name).isEmpty()) object.remove(name);
            }
        }
        return value.equals(JSON.readTree(expected));
    }

    /** Mastercard's client-encryption in its field-level form, for values at paths. */
    record FieldLevel(JsonNode fle, FieldLevelEncryptionConfig config) implements Library {
        private static FieldLevelEncryptionConfig configOf(JsonNode fle, Certificate certificate, PrivateKey key)
                throws Exception {
            JsonNode names = fle.get("names");
            boolean isBase64 = fle.get("encoding").asText().equals("base64");
            var builder = FieldLevelEncryptionConfigBuilder.aFieldLevelEncryptionConfig()
                    .withEncryptionCertificate(certificate)
                    .withDecryptionKey(key)
                    .withEncryptionPath("$.card", "$.secret")
                    .withEncryptionPath("$.customer.address", "$.hidden")
                    .withDecryptionPath("$.secret", "$.card")
                    .withDecryptionPath("$.hidden", "$.customer.address")
                    .withOaepPaddingDigestAlgorithm(fle.get("digest").asText())
                    .withFieldValueEncoding(isBase64 ? FieldValueEncoding.BASE64 : FieldValueEncoding.HEX)
                    .withEncryptedValueFieldName(names.get("value").asText());
            if (fle.get("place").asText().equals("headers")) {
                return builder.withIvHeaderName(names.get("iv").asText())
                        .withEncryptedKeyHeaderName(names.get("encryptedKey").asText())
                        .withOaepPaddingDigestAlgorithmHeaderName(names.get("digest").asText())
                        .withEncryptionKeyFingerprintHeaderName(names.get("keyFingerprint").asText())
                        .withEncryptionCertificateFingerprintHeaderName(names.get("certificateFingerprint").asText())
                        .build();
            }
            return builder.withIvFieldName(names.get("iv").asText())
                    .withEncryptedKeyFieldName(names.get("encryptedKey").asText())
                    .withOaepPaddingDigestAlgorithmFieldName(names.get("digest").asText())
                    .withEncryptionKeyFingerprintFieldName(names.get("keyFingerprint").asText())
                    .withEncryptionCertificateFingerprintFieldName(names.get("certificateFingerprint").asText())
                    .build();
        }

        public String type() {
            return "application/json";
        }

        public boolean opensAll() {
            return false;
        }

        public byte[] sent(String text) {
            return null;
        }

        public byte[] seal(byte[] text, String message, Map<String, String> headers) throws Exception {
            String plain = new String(text, UTF_8);
            if (!config.useHttpHeaders()) return FieldLevelEncryption.encryptPayload(plain, config).getBytes(UTF_8);
            // As the library's interceptors do.
            var params = FieldLevelEncryptionParams.generate(config);
            String sealed = FieldLevelEncryption.encryptPayload(plain, config, params);
            headers.put(config.getIvHeaderName(), params.getIvValue());
            headers.put(config.getEncryptedKeyHeaderName(), params.getEncryptedKeyValue());
            headers.put(config.getOaepPaddingDigestAlgorithmHeaderName(), params.getOaepPaddingDigestAlgorithmValue());
            headers.put(config.getEncryptionCertificateFingerprintHeaderName(), config.getEncryptionCertificateFingerprint());
            headers.put(config.getEncryptionKeyFingerprintHeaderName(), config.getEncryptionKeyFingerprint());
            return sealed.getBytes(UTF_8);
        }

        public byte[] open(byte[] body, String message, Function<String, String> headers) throws Exception {
            String sealed = new String(body, UTF_8);
            String iv = config.useHttpHeaders() ? headers.apply(config.getIvHeaderName()) : null;
            if (iv == null) return FieldLevelEncryption.decryptPayload(sealed, config).getBytes(UTF_8);
            var params = new FieldLevelEncryptionParams(
                    iv,
                    headers.apply(config.getEncryptedKeyHeaderName()),
                    headers.apply(config.getOaepPaddingDigestAlgorithmHeaderName()),
                    config);
            return FieldLevelEncryption.decryptPayload(sealed, config, params).getBytes(UTF_8);
        }

        public boolean isSame(byte[] opened, byte[] expected) throws Exception {
            return isSameValue(opened, expected);
        }
    }

    /** nimbus-jose-jwt. Any bytes can be sealed. */
    record Nimbus(JsonNode spec, String profile, Certificate certificate, PrivateKey key, AtomicInteger sealed)
            implements Library {
        Nimbus(JsonNode spec, Certificate certificate, PrivateKey key) {
            this(spec, spec.get("profile").asText(), certificate, key, new AtomicInteger());
        }

        public String type() {
            return profile.equals("generic-jwe") ? "application/jose" : "application/json";
        }

        public boolean opensAll() {
            return false;
        }

        public byte[] sent(String text) {
            return text.getBytes(UTF_8);
        }

        public byte[] seal(byte[] text, String message, Map<String, String> headers) throws Exception {
            JsonNode encs = spec.at("/seal/encs");
            String enc = encs.get(sealed.getAndIncrement() % encs.size()).asText();
            JWEAlgorithm alg = JWEAlgorithm.parse(spec.at("/seal/alg").asText());
            var header = new JWEHeader.Builder(alg, EncryptionMethod.parse(enc)).keyID(spec.at("/seal/kid").asText());
            if (profile.equals("visa")) header.type(JOSEObjectType.JOSE).customParam("iat", System.currentTimeMillis());
            if (profile.equals("visa-acceptance")) {
                header.contentType("JWT").customParam("iat", System.currentTimeMillis() / 1000);
            }
            JWEObject token = new JWEObject(header.build(), new Payload(text));
            token.encrypt(
                    certificate.getPublicKey() instanceof ECPublicKey point
                            ? new ECDHEncrypter(point)
                            : new RSAEncrypter((RSAPublicKey) certificate.getPublicKey()));
            String name = MEMBERS.get(profile).get(message);
            String body = name == null ? token.serialize() : JSON.writeValueAsString(Map.of(name, token.serialize()));
            return body.getBytes(UTF_8);
        }

        public byte[] open(byte[] body, String message, Function<String, String> headers) throws Exception {
            JWEObject token = JWEObject.parse(token(spec, message, body));
            check(token.getHeader().getAlgorithm().getName().equals(spec.at("/open/alg").asText()), "alg");
            token.decrypt(key instanceof ECPrivateKey scalar ? new ECDHDecrypter(scalar) : new RSADecrypter(key));
            return token.getPayload().toBytes();
        }

        public boolean isSame(byte[] opened, byte[] expected) {
            return Arrays.equals(opened, expected);
        }
    }
}
