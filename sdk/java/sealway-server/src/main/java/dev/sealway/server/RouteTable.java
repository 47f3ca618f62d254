package dev.sealway.server;

import dev.sealway.wire.Options;
import dev.sealway.wire.UsageException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Which paths are sealed: {@code spec/routes.md}. The first entry that names a path decides, in the order of the calls; a path that none
 * names is {@link Mode#REQUIRED} unless said otherwise. Paths are compared as sent, with their escapes. */
public final class RouteTable {
    private static final String MODE = "give one of Mode.OFF, OPTIONAL and REQUIRED";
    private final List<Route> routes = new ArrayList<>();
    private final Mode otherwise;

    /** Everything is sealed that no entry names. */
    public RouteTable() {
        this(Mode.REQUIRED);
    }

    /** How a path is served that no entry names. */
    public RouteTable(Mode otherwise) {
        this.otherwise = Options.present(otherwise, "otherwise", MODE);
    }

    /** How a route is served. */
    public enum Mode {
        /** As it comes. */
        OFF,
        /** Sealed if it carries a header of sealing, else as it comes. */
        OPTIONAL,
        /** Sealed, else refused. */
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

    /** This path alone.
     *
     * @throws UsageException for a path that could not be sent or has no canonical form, and if an earlier entry names it
     */
    public RouteTable path(String path, Mode mode) {
        return with(path, false, mode);
    }

    /** Every path that begins so.
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

    /** Of a path as sent, without its query; null if a container, a framework or a service may read it as one that must be sealed. */
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

    /** Whether a form is of an entry that is not {@code REQUIRED}, and of no such entry that is as narrow. */
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
