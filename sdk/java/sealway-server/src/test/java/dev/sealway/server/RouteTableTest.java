package dev.sealway.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.server.RouteTable.Mode;
import dev.sealway.wire.Json;
import dev.sealway.wire.JsonNumber;
import dev.sealway.wire.UsageException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** All of {@code vectors/routes}. */
class RouteTableTest {
    private static List<Map<?, ?>> vectors(String type) throws IOException {
        Path root = Path.of("").toAbsolutePath();
        while (!Files.exists(root.resolve("vectors/routes"))) {
            root = root.getParent();
            assertNotNull(root, "no vectors/routes above this folder");
        }
        List<Map<?, ?>> all = new ArrayList<>();
        try (Stream<Path> files = Files.list(root.resolve("vectors/routes"))) {
            for (Path file : files.toList()) {
                all.add((Map<?, ?>) Json.parse(Files.readAllBytes(file)));
            }
        }
        assertTrue(all.stream().allMatch(vector -> List.of("routes", "routes-rejected").contains(vector.get("type"))), "an unknown type");
        return all.stream().filter(vector -> type.equals(vector.get("type"))).toList();
    }

    private static RouteTable with(RouteTable table, Object each) {
        Map<?, ?> rule = (Map<?, ?>) each;
        Mode mode = Mode.valueOf(((String) rule.get("sealed")).toUpperCase(java.util.Locale.ROOT));
        return rule.get("exact") instanceof String path ? table.path(path, mode) : table.prefix((String) rule.get("prefix"), mode);
    }

    @Test
    void eachTargetHasTheDecisionOfItsVector() throws IOException {
        int played = 0;
        for (Map<?, ?> vector : vectors("routes")) {
            RouteTable table = new RouteTable();
            ((List<?>) vector.get("rules")).forEach(rule -> with(table, rule));
            for (Object each : (List<?>) vector.get("cases")) {
                Map<?, ?> one = (Map<?, ?>) each;
                String target = (String) one.get("target");
                Mode mode = table.mode(target.split("\\?", 2)[0]);
                String decision = mode == null ? "refused" : Map.of(Mode.OFF, "plain", Mode.OPTIONAL, "optional", Mode.REQUIRED, "sealed").get(mode);
                assertEquals(one.get("decision"), decision, vector.get("name") + ": " + target);
                played++;
            }
        }
        assertTrue(played >= 300, "played " + played);
    }

    @Test
    void aWrongRuleIsAnErrorThatNamesIt() throws IOException {
        List<Map<?, ?>> all = vectors("routes-rejected");
        for (Map<?, ?> vector : all) {
            List<?> rules = (List<?>) vector.get("rules");
            int at = Math.toIntExact(((JsonNumber) vector.get("rule")).whole(rules.size()));
            RouteTable table = new RouteTable();
            rules.subList(0, at).forEach(rule -> with(table, rule));
            Map<?, ?> wrong = (Map<?, ?>) rules.get(at);
            String told = assertThrows(UsageException.class, () -> with(table, wrong)).getMessage();
            Object path = wrong.containsKey("exact") ? wrong.get("exact") : wrong.get("prefix");
            assertTrue(told.contains("\"" + path + "\""), told);
            assertEquals(vector.get("reason").equals("unreachable"), told.contains("never reached"), told);
        }
        assertTrue(all.size() > 10);
    }

    @Test
    void pathsWithoutARouteArePlainInModeOff() {
        RouteTable table = new RouteTable(Mode.OFF).prefix("/api/", Mode.REQUIRED);
        assertEquals(Mode.OFF, table.mode("/x"));
        assertEquals(null, table.mode("/API/x"));
        assertEquals(Mode.OFF, new RouteTable(Mode.OFF).mode("//x/.."));
    }
}
