package dev.sealway.server;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Locale;

/** Which paths are sealed. The longest entry that fits decides; a path that none fits is {@link Mode#REQUIRED} unless said otherwise. */
public final class RouteTable {
    private static final int DECODE_ROUNDS = 3;
    private final List<Route> routes = new ArrayList<>();
    private final Mode otherwise;

    /** Everything is sealed that no entry names. */
    public RouteTable() {
        this(Mode.REQUIRED);
    }

    /** How a path is served that no entry names. */
    public RouteTable(Mode otherwise) {
        this.otherwise = otherwise;
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

    /** Of a path that is sent. One that a container or a framework may take for another path is held to the stricter mode of both:
     * else what must be sealed would be reached in plain under another spelling. */
    Mode mode(String path) {
        for (Route route : routes) {
            // What is named in full is meant as it stands.
            if (!route.isPrefix() && route.path().equals(path)) {
                return longest(path);
            }
        }
        Mode mode = longest(path);
        String spelled = path;
        for (int round = 0; round < DECODE_ROUNDS; round++) {
            Mode other = alike(plain(spelled));
            mode = other.compareTo(mode) > 0 ? other : mode;
            spelled = decoded(spelled);
        }
        return mode;
    }

    private Mode longest(String path) {
        Mode mode = otherwise;
        int longest = -1;
        for (Route route : routes) {
            if (route.fits(path) && route.path().length() > longest) {
                longest = route.path().length();
                mode = route.mode();
            }
        }
        return mode;
    }

    private Mode alike(String plain) {
        Mode mode = otherwise;
        int longest = -1;
        for (Route route : routes) {
            String own = plain(decoded(route.path()));
            boolean isDirectory = route.isPrefix() && route.path().endsWith("/") && !own.equals("/");
            boolean fits = isDirectory ? (plain + "/").startsWith(own + "/")
                    : route.isPrefix() ? plain.startsWith(own) : plain.equals(own);
            if (fits && route.path().length() > longest) {
                longest = route.path().length();
                mode = route.mode();
            }
        }
        return mode;
    }

    /** In small letters, with single slashes and none at the end, without parameters of segments and without dot segments. */
    private static String plain(String path) {
        Deque<String> segments = new ArrayDeque<>();
        for (String segment : path.replace('\\', '/').split("/")) {
            int at = segment.indexOf(';');
            String name = at < 0 ? segment : segment.substring(0, at);
            if (name.equals("..")) {
                segments.pollLast();
            } else if (!name.isEmpty() && !name.equals(".")) {
                segments.addLast(name.toLowerCase(Locale.ROOT));
            }
        }
        return "/" + String.join("/", segments);
    }

    /** With its escapes undone, each byte a character. */
    private static String decoded(String path) {
        StringBuilder out = new StringBuilder(path.length());
        for (int at = 0; at < path.length(); at++) {
            char c = path.charAt(at);
            int high = c == '%' && at + 2 < path.length() ? Character.digit(path.charAt(at + 1), 16) : -1;
            int low = high < 0 ? -1 : Character.digit(path.charAt(at + 2), 16);
            if (low < 0) {
                out.append(c);
            } else {
                out.append((char) (high << 4 | low));
                at += 2;
            }
        }
        return out.toString();
    }
}
