package dev.sealway.server;

import dev.sealway.wire.Options;
import dev.sealway.wire.UsageException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Paths that are sealed: {@code spec/routes.md}. The first entry that names a path decides, in the order of the calls; all other paths are
 * {@link Mode#REQUIRED} by default. Paths are compared as sent, with their escapes. */
public final class RouteTable {
    private static final String MODE = "give one of Mode.OFF, OPTIONAL and REQUIRED";
    private final List<Route> routes = new ArrayList<>();
    private final Mode otherwise;

    /** Creates a table in which all other paths are sealed. */
    public RouteTable() {
        this(Mode.REQUIRED);
    }

    /** Creates a table with this mode for all other paths. */
    public RouteTable(Mode otherwise) {
        this.otherwise = Options.present(otherwise, "otherwise", MODE);
    }

    /** Modes of a route. */
    public enum Mode {
        /** Plain requests. */
        OFF,
        /** Sealed requests by their headers; plain ones too. */
        OPTIONAL,
        /** Sealed requests alone. */
        REQUIRED
    }

    private record Route(String path, boolean isPrefix, Mode mode, String form) {
        boolean names(String other) {
            return isPrefix ? other.startsWith(path) : other.equals(path);
        }

        boolean matches(String other) {
            return other.equals(form) || isPrefix && other.startsWith(path.endsWith("/") ? form + "/" : form);
        }

        int length() {
            return form.getBytes(StandardCharsets.UTF_8).length;
        }
    }

    /** Adds a path.
     *
     * @throws UsageException for a path that could not be sent or has no canonical form, and if an earlier entry names it
     */
    public RouteTable path(String path, Mode mode) {
        return with(path, false, mode);
    }

    /** Adds all paths that begin with a prefix.
     *
     * @throws UsageException for a prefix that could not be sent or has no canonical form, and if an earlier entry names all
     *         its paths
     */
    public RouteTable prefix(String prefix, Mode mode) {
        return with(prefix, true, mode);
    }

    // SPEC routes.md#rules
    private RouteTable with(String path, boolean isPrefix, Mode mode) {
        Options.present(path, isPrefix ? "prefix" : "path", "give one that begins with a slash");
        Options.present(mode, "mode", MODE);
        List<String> forms = path.matches("/[!-~&&[^?#]]*") ? CanonicalPath.forms(path) : null;
        if (forms == null || forms.size() > 1 || forms.get(0).isEmpty() && !path.equals("/")) {
            throw new UsageException((isPrefix ? "prefix" : "path") + " \"" + path + "\": a path begins with one /, has visible ASCII characters alone, no query, "
                    + "no fragment, no .. segment and no control character, and its escapes are UTF-8");
        }
        for (Route earlier : routes) {
            if (earlier.names(path) && (earlier.isPrefix() || !isPrefix)) {
                throw new UsageException("route \"" + path + "\" is never reached: \"" + earlier.path()
                        + "\" before it names all its paths; put \"" + path + "\" first");
            }
        }
        routes.add(new Route(path, isPrefix, mode, forms.get(0)));
        return this;
    }

    /** Returns the mode of a path as sent, without its query; null if any software may read it as a path that must be sealed. */
    // SPEC routes.md#decision
    Mode mode(String path) {
        Route found = routes.stream().filter(route -> route.names(path)).findFirst().orElse(null);
        Mode mode = found == null ? otherwise : found.mode();
        if (mode == Mode.REQUIRED || found != null && !found.isPrefix() || isAllPlain()) {
            return mode;
        }
        List<String> forms = CanonicalPath.forms(path);
        return forms != null && forms.stream().allMatch(this::leadsToPlain) ? mode : null;
    }

    private boolean isAllPlain() {
        return routes.stream().noneMatch(route -> route.mode() == Mode.REQUIRED)
                && (otherwise != Mode.REQUIRED || routes.stream().anyMatch(route -> route.isPrefix() && route.path().equals("/")));
    }

    /** Returns true if a form belongs to an entry that is not {@code REQUIRED}, and to no {@code REQUIRED} entry that is as narrow. */
    private boolean leadsToPlain(String form) {
        int longest = -1;
        for (Route route : routes) {
            if (!route.matches(form)) {
                continue;
            }
            if (route.mode() == Mode.REQUIRED && route.length() >= longest) {
                return false;
            }
            if (route.mode() != Mode.REQUIRED && route.isPrefix()) {
                longest = Math.max(longest, route.length());
            }
        }
        return longest >= 0 || otherwise != Mode.REQUIRED;
    }
}
