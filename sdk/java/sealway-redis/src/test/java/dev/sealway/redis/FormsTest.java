package dev.sealway.redis;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.wire.UsageException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The script and the key-encryption keys, byte for byte. */
class FormsTest {
    @Test
    void theScriptIsThatOfTheSpec() throws IOException {
        Path root = Path.of("").toAbsolutePath();
        while (!Files.exists(root.resolve("spec/redis-store.md"))) {
            root = root.getParent();
            assertNotNull(root, "no spec/redis-store.md above this folder");
        }
        String spec = Files.readString(root.resolve("spec/redis-store.md"));
        int begin = spec.indexOf("```lua\n") + "```lua\n".length();
        assertEquals(spec.substring(begin, spec.indexOf("```", begin)), Script.TEXT);
    }

    @Test
    void keysAreReadAsTheAuthorityReadsThemAndNeverPrinted(@TempDir Path folder) throws Exception {
        String one = Base64.getEncoder().encodeToString("1".repeat(32).getBytes());
        Path file = folder.resolve("kek");
        Files.writeString(file, "# two of them\n\nfirst " + one + "\n  second  " + one + "\n");
        KeyEncryptionKeys keys = KeyEncryptionKeys.inFile(file);
        assertNotNull(keys.key("first"));
        assertNotNull(keys.key("second"));
        assertFalse(keys.toString().contains(one));
        Files.writeString(file, "third " + one + "\n");
        assertNull(keys.key("third"));
        Thread.sleep(1_100);
        assertNotNull(keys.key("third"));
        Files.writeString(file, "# keys\nfirst " + one + "\nsecond SECRET!\n");
        String told = assertThrows(UsageException.class, () -> KeyEncryptionKeys.inFile(file)).getMessage();
        assertTrue(told.contains(file + ":3:") && !told.contains("SECRET"), told);
        for (String wrong : new String[] {"", "first", "first AAAA", "a b " + one, "first " + one + "\nfirst " + one}) {
            assertThrows(UsageException.class, () -> KeyEncryptionKeys.of(wrong), wrong);
        }
    }
}
