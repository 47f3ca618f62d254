package dev.sealway.mle;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.PublicKey;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import javax.crypto.Cipher;

/** Makes tokens, wrong ones too: a field is what goes into the token, true or not. */
final class TokenBuilder implements Cloneable {
    static final String TEXT = "{\"pan\":\"4111111111111111\",\"amount\":12.50}";
    static final SecureRandom RANDOM = new SecureRandom();
    /** Members, without the braces. */
    String header;
    Alg alg;
    Enc enc;
    byte[] cek;
    byte[] iv;
    PublicKey recipient;
    byte[] plaintext = TEXT.getBytes(StandardCharsets.UTF_8);
    boolean isPkcs1;

    TokenBuilder(Alg alg, Enc enc, String iat, PublicKey recipient) {
        this.alg = alg;
        this.enc = enc;
        this.recipient = recipient;
        cek = draw(enc.cekLen);
        iv = draw(enc.ivLen);
        header = "\"alg\":\"" + alg.text() + "\",\"enc\":\"" + enc.text() + "\",\"kid\":\"own\"" + (iat == null ? "" : ",\"iat\":" + iat);
    }

    static byte[] draw(int length) {
        byte[] out = new byte[length];
        RANDOM.nextBytes(out);
        return out;
    }

    /** The decoded parts of a token. */
    record Parts(byte[][] parts) {
        /** Changes a part before it is encoded. */
        String with(int part, UnaryOperator<byte[]> change) {
            byte[][] changed = parts.clone();
            changed[part] = change.apply(parts[part].clone());
            return new Parts(changed).toString();
        }

        /** Changes a part after it is encoded. */
        String text(int part, UnaryOperator<String> change) {
            String[] texts = toString().split("\\.", -1);
            texts[part] = change.apply(texts[part]);
            return String.join(".", texts);
        }

        @Override
        public String toString() {
            return String.join(".", Arrays.stream(parts).map(Compact::encode).toList());
        }
    }

    Parts over(String json, byte[] aad) {
        try {
            byte[] encrypted;
            if (isPkcs1) {
                Cipher cipher = Cipher.getInstance("RSA/ECB/PKCS1Padding");
                cipher.init(Cipher.ENCRYPT_MODE, recipient);
                encrypted = cipher.doFinal(cek);
            } else {
                encrypted = alg.run(Cipher.ENCRYPT_MODE, recipient, cek, RANDOM);
            }
            byte[][] content = enc.seal(Arrays.copyOf(cek, enc.cekLen), iv, aad, plaintext);
            return new Parts(new byte[][] {json.getBytes(StandardCharsets.UTF_8), encrypted, iv, content[0], content[1]});
        } catch (GeneralSecurityException broken) {
            throw new AssertionError(broken);
        }
    }

    Parts of(String json) {
        return over(json, Compact.encode(json.getBytes(StandardCharsets.UTF_8)).getBytes(StandardCharsets.US_ASCII));
    }

    Parts token() {
        return of("{" + header + "}");
    }

    /** With another member in the header. */
    String adding(String member) {
        return of("{" + header + "," + member + "}").toString();
    }

    /** With a text in the place of another in the header. */
    String replacing(String old, String text) {
        if (!header.contains(old)) {
            throw new AssertionError(old);
        }
        return of("{" + header.replace(old, text) + "}").toString();
    }

    String with(Consumer<TokenBuilder> change) {
        try {
            TokenBuilder other = (TokenBuilder) clone();
            change.accept(other);
            return other.token().toString();
        } catch (CloneNotSupportedException impossible) {
            throw new AssertionError(impossible);
        }
    }
}
