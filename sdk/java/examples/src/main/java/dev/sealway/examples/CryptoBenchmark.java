package dev.sealway.examples;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Curve;
import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.MlKem;
import dev.sealway.crypto.X25519;
import dev.sealway.exchange.Exchange;
import dev.sealway.exchange.Opening;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.nativeprotocol.Acceptance;
import dev.sealway.session.nativeprotocol.Agreement;
import dev.sealway.session.nativeprotocol.ClientShare;
import dev.sealway.session.nativeprotocol.Identity;
import dev.sealway.session.nativeprotocol.InitRequest;
import dev.sealway.session.nativeprotocol.NativeSession;
import dev.sealway.session.nativeprotocol.ServerShare;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Header;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.InvocationTargetException;
import java.security.KeyPair;
import java.security.Provider;
import java.security.SecureRandom;
import java.security.Security;
import java.security.interfaces.ECPublicKey;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/** Seal and open beside bare AES-GCM, an init beside bare key agreement; interleaved, medians. {@code bench [jdk|accp]}.
 *
 * <p>It counts the thread's own processor time, so that it can be read on a machine that others use too. */
public final class CryptoBenchmark {
    private static final int ROUNDS = 25;
    private static final long ROUND_NANOS = 12_000_000;
    private static final long WARM_UP_NANOS = 1_500_000_000L;
    private static final long NOW = 1_750_000_000_000L;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static Object sink;
    private final SecureRandom random = new SecureRandom();

    private CryptoBenchmark() {
    }

    /** Runs it. */
    public static void main(String[] args) {
        Environment.run(() -> {
            String provider = args.length == 0 ? "jdk" : args[0];
            if (provider.equals("accp") && !install()) {
                System.err.println("Amazon Corretto Crypto Provider is not available on this machine");
                return false;
            }
            if (!List.of("jdk", "accp").contains(provider)) {
                throw new Environment.ArgumentException("usage: bench [jdk|accp]");
            }
            System.out.println("provider " + provider + ", microseconds of processor time, medians of " + ROUNDS + " interleaved rounds");
            new CryptoBenchmark().run();
            return true;
        });
    }

    private static boolean install() {
        try {
            Class<?> accp = Class.forName("com.amazon.corretto.crypto.provider.AmazonCorrettoCryptoProvider");
            Provider provider = (Provider) accp.getField("INSTANCE").get(null);
            accp.getMethod("assertHealthy").invoke(provider);
            return Security.insertProviderAt(provider, 1) == 1;
        } catch (ClassNotFoundException | NoSuchFieldException | NoSuchMethodException | IllegalAccessException
                | InvocationTargetException | LinkageError missing) {
            return false;
        }
    }

    private byte[] draw(int length) {
        byte[] out = new byte[length];
        random.nextBytes(out);
        return out;
    }

    private void run() {
        KeyPair pair = Curve.P256.generate(random);
        Identity identity = new Identity(Curve.P256.encode((ECPublicKey) pair.getPublic()), 0, Long.MAX_VALUE,
                message -> Curve.P256.sign(pair.getPrivate(), message, random));
        Agreement agreement = agreement(Suite.P256);
        Acceptance.Grant accepted = accept(agreement, identity);
        NativeSession session = agreement.finish(201, accepted.body(), id -> identity.publicKey());
        for (int length : new int[] {256, 1024, 65_536}) {
            calls(session, accepted.session(), draw(length));
        }
        for (Suite suite : new Suite[] {Suite.P256, Suite.X25519MLKEM768}) {
            inits(suite, identity);
        }
    }

    private void calls(NativeSession session, SessionRecord record, byte[] body) {
        SecretKeySpec key = new SecretKeySpec(draw(32), "AES");
        byte[] aad = draw(32);
        byte[] iv = draw(12);
        byte[] sealed = bare(Cipher.ENCRYPT_MODE, key, iv, aad, body);
        SealedMessage request = session.seal("POST", "/transaction/purchase", headers(), body, NOW, draw(16)).message();
        Map<String, Runnable> tasks = new LinkedHashMap<>();
        tasks.put("aes-gcm seal", () -> sink = bare(Cipher.ENCRYPT_MODE, key, draw(12), aad, body));
        tasks.put("wire 3 seal", () -> sink = session.seal("POST", "/transaction/purchase", headers(), body, NOW, draw(16)));
        tasks.put("aes-gcm open", () -> sink = bare(Cipher.DECRYPT_MODE, key, iv, aad, sealed));
        tasks.put("wire 3 open", () -> {
            Opening opening = Exchange.begin("POST", "/transaction/purchase", withType(request), NOW, ReplayPolicy.DEFAULT).session(record);
            opening.stream().read(request.body(), 0, request.body().length);
            sink = opening.open(opening.stream().end().getFirst(), record, NOW);
        });
        report(body.length + " B", tasks);
    }

    /** As one writes it by the platform's own API. */
    private static byte[] bare(int mode, SecretKeySpec key, byte[] iv, byte[] aad, byte[] in) {
        try {
            Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
            cipher.init(mode, key, new GCMParameterSpec(128, iv));
            cipher.updateAAD(aad);
            return cipher.doFinal(in);
        } catch (java.security.GeneralSecurityException broken) {
            throw new IllegalStateException(broken);
        }
    }

    private static dev.sealway.wire.HeaderList withType(SealedMessage message) {
        List<Header> all = new ArrayList<>(message.headers().list());
        all.add(new Header("Content-Type", message.contentType()));
        return new dev.sealway.wire.HeaderList(all);
    }

    private static List<Header> headers() {
        return List.of(new Header("content-type", "application/json"));
    }

    private Agreement agreement(Suite suite) {
        return new Agreement(new Agreement.Offer(List.of(suite.text()), "bench", null, List.of(), null), ClientShare.generate(suite, random),
                (UnaryOperator<InitRequest>) null);
    }

    private Acceptance.Grant accept(Agreement agreement, Identity identity) {
        InitRequest request = InitRequest.read(agreement.request().write());
        return Acceptance.accept(request, null, new Acceptance.Decision(draw(16), 3600, NOW, "none", null, null),
                List.of(request.suite()), List.of(identity), suite -> ServerShare.generate(suite, random), null);
    }

    private void inits(Suite suite, Identity identity) {
        byte[] message = draw(32);
        Map<String, Runnable> tasks = new LinkedHashMap<>();
        tasks.put("bare agreement, HKDF, sign and verify, both ends", () -> {
            if (suite == Suite.P256) {
                KeyPair one = Curve.P256.generate(random);
                KeyPair other = Curve.P256.generate(random);
                sink = Hashes.derive(Curve.P256.agree(one.getPrivate(), Curve.P256.encode((ECPublicKey) other.getPublic())), message, message);
                sink = Hashes.derive(Curve.P256.agree(other.getPrivate(), Curve.P256.encode((ECPublicKey) one.getPublic())), message, message);
            } else {
                KeyPair kem = MlKem.ML_KEM_768.generate(random);
                MlKem.Encapsulation made = MlKem.ML_KEM_768.encapsulate(MlKem.ML_KEM_768.encode(kem.getPublic()), random);
                byte[] opened = MlKem.ML_KEM_768.decapsulate(kem.getPrivate(), made.ciphertext());
                KeyPair one = X25519.generate(random);
                KeyPair other = X25519.generate(random);
                byte[] x = X25519.agree(one.getPrivate(), X25519.encode(other.getPublic()));
                sink = Hashes.derive(Bytes.join(made.secret(), x), message, message);
                sink = Hashes.derive(Bytes.join(opened, X25519.agree(other.getPrivate(), X25519.encode(one.getPublic()))), message, message);
            }
            sink = Curve.P256.verifies(identity.publicKey(), message, identity.signer().sign(message));
        });
        tasks.put("wire 3 init, both ends", () -> {
            Agreement begun = agreement(suite);
            sink = begun.finish(201, accept(begun, identity).body(), id -> identity.publicKey());
        });
        report(suite.text(), tasks);
    }

    private static void report(String title, Map<String, Runnable> tasks) {
        Map<String, double[]> times = new LinkedHashMap<>();
        tasks.forEach((name, task) -> {
            times.put(name, new double[ROUNDS]);
            measure(task, WARM_UP_NANOS);
        });
        for (int round = 0; round < ROUNDS; round++) {
            for (Map.Entry<String, Runnable> task : tasks.entrySet()) {
                times.get(task.getKey())[round] = measure(task.getValue(), ROUND_NANOS);
            }
        }
        StringBuilder line = new StringBuilder(title);
        double bare = 0;
        for (Map.Entry<String, double[]> each : times.entrySet()) {
            Arrays.sort(each.getValue());
            double median = each.getValue()[ROUNDS / 2];
            // Each pair has the platform's first.
            if (bare == 0) {
                line.append(String.format(" | %s %.2f", each.getKey(), median / 1000));
                bare = median;
            } else {
                line.append(String.format(", %s %.2f (%.2fx)", each.getKey(), median / 1000, median / bare));
                bare = 0;
            }
        }
        System.out.println(line);
    }

    private static double measure(Runnable task, long nanos) {
        long begin = THREADS.getCurrentThreadCpuTime();
        long count = 0;
        long spent = 0;
        while (spent < nanos) {
            for (int at = 0; at < 16; at++) {
                task.run();
            }
            count += 16;
            spent = THREADS.getCurrentThreadCpuTime() - begin;
        }
        return (double) spent / count;
    }
}
