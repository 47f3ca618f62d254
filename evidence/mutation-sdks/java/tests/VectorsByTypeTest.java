package dev.sealway.conformance;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The vectors of wires 3 and 4 in groups, each of one type, so that a mutant meets those that reach it alone. They are read once for all
 * mutants of a process: none of these is in the code that reads them. */
class VectorsByTypeTest {
    private static final int SIZE = 8;
    private static final List<Group> GROUPS = new ArrayList<>();

    static {
        add("session3", NativeVectorsTest::run);
        add("one-shot", OneShotVectorsTest::run);
    }

    private record Group(String name, List<Scenario> scenarios, Consumer<Scenario> run) {
        @Override
        public String toString() {
            return name;
        }
    }

    private static void add(String folder, Consumer<Scenario> run) {
        Map<String, List<Scenario>> types = new TreeMap<>();
        for (Scenario scenario : Scenario.folder(folder)) {
            if (!OneShotVectorsTest.OF_SERVERS.contains(scenario.type())) {
                types.computeIfAbsent(scenario.type(), type -> new ArrayList<>()).add(scenario);
            }
        }
        types.forEach((type, all) -> {
            for (int at = 0; at < all.size(); at += SIZE) {
                GROUPS.add(new Group(type + " " + at, all.subList(at, Math.min(at + SIZE, all.size())), run));
            }
        });
    }

    static Stream<Group> groups() {
        return GROUPS.stream();
    }

    @ParameterizedTest
    @MethodSource("groups")
    void eachVectorHolds(Group group) {
        group.scenarios().forEach(group.run());
    }
}
