package dev.sealway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.constantpool.ClassEntry;
import java.lang.classfile.constantpool.MemberRefEntry;
import java.lang.classfile.constantpool.PoolEntry;
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
            "java/util/Date", "java/util/Calendar", "java/lang/Thread", "java/lang/ProcessBuilder",
            "java/io/File", "java/util/Timer");
    private static final Set<String> MEMBERS = Set.of("java/lang/System.currentTimeMillis", "java/lang/System.nanoTime",
            "java/lang/System.getenv", "java/lang/Runtime.getRuntime", "java/lang/System.getProperty", "java/security/SecureRandom.<init>",
            "java/security/SecureRandom.getInstanceStrong", "java/security/SecureRandom.getInstance", "java/lang/Math.random",
            "javax/crypto/KEM.newEncapsulator(Ljava/security/PublicKey;)Ljavax/crypto/KEM$Encapsulator;",
            "java/security/Signature.initSign(Ljava/security/PrivateKey;)V",
            "java/security/KeyPairGenerator.initialize(I)V",
            "java/security/KeyPairGenerator.initialize(Ljava/security/spec/AlgorithmParameterSpec;)V");

    private static List<String> found(ClassModel model) {
        List<String> out = new ArrayList<>();
        for (PoolEntry entry : model.constantPool()) {
            if (entry instanceof ClassEntry used && PACKAGES.stream().anyMatch(used.asInternalName()::startsWith)) {
                out.add(used.asInternalName());
            }
            if (entry instanceof MemberRefEntry used) {
                String member = used.owner().asInternalName() + "." + used.name().stringValue();
                if (MEMBERS.contains(member) || MEMBERS.contains(member + used.type().stringValue())) {
                    out.add(member);
                }
            }
        }
        return out;
    }

    @Test
    void noClassOfTheCoreReachesAClockRandomnessOrTheNetwork() throws IOException {
        int count = 0;
        try (var files = Files.walk(Path.of("target/classes"))) {
            for (Path file : files.filter(path -> path.toString().endsWith(".class")).toList()) {
                assertEquals(List.of(), found(ClassFile.of().parse(file)), file.toString());
                count++;
            }
        }
        assertTrue(count > 40, "only " + count + " classes were looked at");
        System.out.println("purity: " + count + " classes of the core reach no clock, randomness or network");
    }

    @Test
    void theCheckFindsWhatItLooksFor() throws IOException {
        Path file = Path.of("target/test-classes/dev/sealway/PurityTest$Impure.class");
        assertEquals(Set.of("java/lang/System.nanoTime", "java/security/SecureRandom.<init>", "java/net/URI"),
                Set.copyOf(found(ClassFile.of().parse(file))));
    }

    static final class Impure {
        private Impure() {
        }

        static String reach() {
            return System.nanoTime() + new java.security.SecureRandom().toString() + java.net.URI.create("/");
        }
    }
}
