package dev.sealway.client;

import dev.sealway.wire.Options;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;

/** A trust store in a file, which several processes may share: {@code <origin> <words>}, an origin a line. The file is written as a whole
 * and moved into place. */
public final class FileTrustStore implements TrustStore {
    private static final Object WRITING = new Object();
    private final Path file;

    /** Creates a store in this file, which need not exist yet. */
    public FileTrustStore(Path file) {
        this.file = Options.present(file, "file", "give its path").toAbsolutePath();
    }

    private List<String> lines() throws IOException {
        return Files.exists(file) ? Files.readAllLines(file) : List.of();
    }

    @Override
    public List<String> load(String origin) {
        try {
            return lines().stream().filter(line -> line.startsWith(origin + " "))
                    .flatMap(line -> List.of(line.substring(origin.length() + 1).split(" ")).stream()).toList();
        } catch (IOException unreadable) {
            throw new UncheckedIOException(unreadable);
        }
    }

    @Override
    public void save(String origin, List<String> words) {
        update(origin, kept -> words);
    }

    /** {@inheritDoc}
     *
     * <p>The file is read again under a lock that other processes see: else two writers at once lose an origin, which is then trusted anew. The
     * lock is on a file of its own, since the store's file is replaced. */
    @Override
    public void update(String origin, UnaryOperator<List<String>> change) {
        synchronized (WRITING) {
            try (FileChannel lock = FileChannel.open(Path.of(file + ".lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
                lock.lock();
                List<String> kept = load(origin);
                List<String> words = change.apply(kept);
                if (!words.equals(kept)) {
                    write(origin, words);
                }
            } catch (IOException unwritable) {
                throw new UncheckedIOException(unwritable);
            }
        }
    }

    private void write(String origin, List<String> words) throws IOException {
        Path part = Files.createTempFile(file.getParent(), "sealway", ".part");
        try {
            List<String> all = new ArrayList<>(lines().stream().filter(line -> !line.startsWith(origin + " ")).toList());
            all.add(origin + " " + String.join(" ", words));
            Files.write(part, all);
            Files.move(part, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } finally {
            Files.deleteIfExists(part);
        }
    }
}
