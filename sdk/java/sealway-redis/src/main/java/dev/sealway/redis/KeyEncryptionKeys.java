package dev.sealway.redis;

import dev.sealway.crypto.SecretBytes;
import dev.sealway.wire.Options;
import dev.sealway.wire.StrictBase64;
import dev.sealway.wire.UsageException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Pattern;

/** The key-encryption keys of a store: lines of {@code id base64}, 1 to 16 of them. Safe for use by any number of threads. */
public final class KeyEncryptionKeys {
    private static final System.Logger LOG = System.getLogger("dev.sealway.redis");
    private static final int KEYS_MAX = 16;
    private static final int KEY_LEN = 32;
    private static final int FILE_MAX = 65_536;
    private static final long AGAIN_NANOS = 1_000_000_000L;
    private static final Pattern ID = Pattern.compile("[A-Za-z0-9_-]{1,32}");
    private final Path file;
    private Map<String, SecretBytes> keys;
    private long readNanos;

    private KeyEncryptionKeys(Path file, Map<String, SecretBytes> keys) {
        this.file = file;
        this.keys = keys;
        this.readNanos = System.nanoTime();
    }

    /** Reads the keys of a file, {@code sessions.kek_file} of the authority. It is read again when a key is unknown, at most once a second.
     *
     * @throws IOException if it cannot be read
     * @throws UsageException if it is malformed
     */
    public static KeyEncryptionKeys inFile(Path file) throws IOException {
        return new KeyEncryptionKeys(Options.present(file, "file", "give the path of sessions.kek_file"), read(file));
    }

    /** Reads the keys of these lines, as the variable {@code SEALWAY_KEK} holds them.
     *
     * @throws UsageException if they are malformed
     */
    public static KeyEncryptionKeys of(String lines) {
        return new KeyEncryptionKeys(null, parse("key-encryption keys", Options.present(lines, "lines", "give what SEALWAY_KEK holds")));
    }

    private static Map<String, SecretBytes> read(Path file) throws IOException {
        if (Files.size(file) > FILE_MAX) {
            throw new UsageException(file + ": too long for a file of key-encryption keys");
        }
        return parse(file.toString(), Files.readString(file));
    }

    private static Map<String, SecretBytes> parse(String name, String lines) {
        Map<String, SecretBytes> out = new LinkedHashMap<>();
        int number = 0;
        for (String raw : lines.lines().toList()) {
            number++;
            String line = raw.strip();
            if (line.isEmpty() || line.startsWith("#")) {
                continue;
            }
            String[] parts = line.split(" ", 2);
            byte[] key = parts.length == 2 ? StrictBase64.decode(parts[1].strip()) : null;
            if (key == null || key.length != KEY_LEN || !ID.matcher(parts[0]).matches() || out.containsKey(parts[0])) {
                throw new UsageException(name + ":" + number + ": expected an id of its own and 32 bytes in base64");
            }
            out.put(parts[0], SecretBytes.owning(key));
        }
        if (out.isEmpty() || out.size() > KEYS_MAX) {
            throw new UsageException(name + ": expected 1 to 16 key-encryption keys");
        }
        return out;
    }

    /** Returns the key of an id; null if there is none. */
    synchronized SecretBytes key(String id) {
        SecretBytes known = keys.get(id);
        if (known == null && file != null && System.nanoTime() - readNanos > AGAIN_NANOS) {
            readNanos = System.nanoTime();
            try {
                keys = read(file);
            } catch (IOException | UsageException unusable) {
                LOG.log(System.Logger.Level.ERROR, "the file of key-encryption keys could not be read again", unusable);
            }
            known = keys.get(id);
        }
        return known;
    }

    @Override
    public synchronized String toString() {
        return "KeyEncryptionKeys" + Arrays.toString(keys.keySet().toArray());
    }
}
