package dev.sealway.server;

import java.util.ArrayList;
import java.util.List;

/** Which paths are sealed. The longest entry that fits decides; a path that none fits is {@link Mode#OFF}. */
public final class RouteTable {
    private final List<Route> routes = new ArrayList<>();

    /** How a route is served. */
    public enum Mode {
        /** As it comes. */
        OFF,
        /** Sealed if it carries a header of sealing, else as it comes. */
        OPTIONAL,
        /** Sealed, else refused. */
        REQUIRED
    }

    private record Route(String path, boolean isPrefix, Mode mode) {
        boolean fits(String other) {
            return isPrefix ? other.startsWith(path) : other.equals(path);
        }
    }

    /** This path alone. */
    public RouteTable path(String path, Mode mode) {
        routes.add(new Route(path, false, mode));
        return this;
    }

    /** Every path that begins so. */
    public RouteTable prefix(String prefix, Mode mode) {
        routes.add(new Route(prefix, true, mode));
        return this;
    }

    Mode mode(String path) {
        Mode mode = Mode.OFF;
        int longest = -1;
        for (Route route : routes) {
            if (route.fits(path) && route.path().length() > longest) {
                longest = route.path().length();
                mode = route.mode();
            }
        }
        return mode;
    }
}
