package dev.sealway.client;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;

/** Keys in a file: {@code <origin> <words>}, an origin a line. Written as a whole and moved into place. */
final class FileTrustStore implements TrustStore {
    private final Path file;

    FileTrustStore(Path file) {
        this.file = file.toAbsolutePath();
    }

    private List<String> lines() throws IOException {
        return Files.exists(file) ? Files.readAllLines(file) : List.of();
    }

    @Override
    public synchronized List<String> load(String origin) {
        try {
            return lines().stream().filter(line -> line.startsWith(origin + " "))
                    .flatMap(line -> List.of(line.substring(origin.length() + 1).split(" ")).stream()).toList();
        } catch (IOException unreadable) {
            throw new UncheckedIOException(unreadable);
        }
    }

    @Override
    public synchronized void save(String origin, List<String> words) {
        try {
            List<String> all = new ArrayList<>(lines().stream().filter(line -> !line.startsWith(origin + " ")).toList());
            all.add(origin + " " + String.join(" ", words));
            Path part = Files.createTempFile(file.getParent(), "sealway", ".part");
            Files.write(part, all);
            Files.move(part, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException unwritable) {
            throw new UncheckedIOException(unwritable);
        }
    }
}
