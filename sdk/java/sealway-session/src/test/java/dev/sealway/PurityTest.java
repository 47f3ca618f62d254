package dev.sealway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** The core is a value: its classes name no clock, no randomness of their own, no network, no thread, no environment. */
class PurityTest {
    private static final List<String> PACKAGES = List.of("java/net/", "java/time/", "java/nio/channels/", "java/nio/file/",
            "java/util/concurrent/ThreadLocalRandom", "java/util/Random", "java/util/random/", "java/util/UUID",
            "java/util/Calendar", "java/lang/Thread", "java/lang/ProcessBuilder",
            "java/io/File", "java/util/Timer");
    private static final Set<String> MEMBERS = Set.of("java/lang/System.currentTimeMillis", "java/lang/System.nanoTime",
            "java/lang/System.getenv", "java/lang/Runtime.getRuntime", "java/lang/System.getProperty", "java/security/SecureRandom.<init>",
            "java/security/SecureRandom.getInstanceStrong", "java/security/SecureRandom.getInstance", "java/lang/Math.random",
            "javax/crypto/KEM.newEncapsulator(Ljava/security/PublicKey;)Ljavax/crypto/KEM$Encapsulator;",
            "java/security/Signature.initSign(Ljava/security/PrivateKey;)V",
            "java/util/Date.<init>()V",
            "java/security/KeyPairGenerator.initialize(I)V",
            "java/security/KeyPairGenerator.initialize(Ljava/security/spec/AlgorithmParameterSpec;)V");

    /** What of these a class file refers to: from its constant pool (JVMS section 4.4). */
    private static List<String> found(byte[] file) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(file));
        in.skipBytes(8);
        int count = in.readUnsignedShort();
        Object[] pool = new Object[count];
        int[] tags = new int[count];
        for (int at = 1; at < count; at++) {
            tags[at] = in.readUnsignedByte();
            switch (tags[at]) {
                case 1 -> pool[at] = in.readUTF();
                case 3, 4 -> in.skipBytes(4);
                case 5, 6 -> {
                    in.skipBytes(8);
                    at++;
                }
                case 7, 8, 16, 19, 20 -> pool[at] = new int[] {in.readUnsignedShort()};
                case 9, 10, 11, 12, 17, 18 -> pool[at] = new int[] {in.readUnsignedShort(), in.readUnsignedShort()};
                case 15 -> in.skipBytes(3);
                default -> throw new IOException("a constant of the unknown kind " + tags[at]);
            }
        }
        List<String> out = new ArrayList<>();
        for (int at = 1; at < count; at++) {
            if (tags[at] == 7 && PACKAGES.stream().anyMatch(name(pool, pool[at])::startsWith)) {
                out.add(name(pool, pool[at]));
            }
            if (tags[at] == 9 || tags[at] == 10 || tags[at] == 11) {
                int[] member = (int[]) pool[at];
                int[] nameAndType = (int[]) pool[member[1]];
                String named = name(pool, pool[member[0]]) + "." + pool[nameAndType[0]];
                if (MEMBERS.contains(named) || MEMBERS.contains(named + pool[nameAndType[1]])) {
                    out.add(named);
                }
            }
        }
        return out;
    }

    private static String name(Object[] pool, Object entry) {
        return (String) pool[((int[]) entry)[0]];
    }

    @Test
    void noClassOfTheCoreReachesAClockRandomnessOrTheNetwork() throws IOException {
        int count = 0;
        try (var files = Files.walk(Path.of("target/classes"))) {
            for (Path file : files.filter(path -> path.toString().endsWith(".class")).toList()) {
                assertEquals(List.of(), found(Files.readAllBytes(file)), file.toString());
                count++;
            }
        }
        assertTrue(count > 40, "only " + count + " classes were looked at");
        System.out.println("purity: " + count + " classes of the core reach no clock, randomness or network");
    }

    @Test
    void theCheckFindsAViolation() throws IOException {
        Path file = Path.of("target/test-classes/dev/sealway/PurityTest$Impure.class");
        assertEquals(Set.of("java/lang/System.nanoTime", "java/security/SecureRandom.<init>", "java/net/URI"),
                Set.copyOf(found(Files.readAllBytes(file))));
    }

    static final class Impure {
        private Impure() {
        }

        static String reach() {
            return System.nanoTime() + new java.security.SecureRandom().toString() + java.net.URI.create("/");
        }
    }
}
