package dev.sealway.session;

/** Endpoints of inits of wires 1 and 2. */
public enum Family {
    /** {@code POST /session/init}. */
    SESSION("/session/init"),
    /** {@code POST /session/init/anon}, wire 1 alone. */
    ANONYMOUS("/session/init/anon"),
    /** {@code POST /v1/session/init}, wire 2 alone. */
    V1("/v1/session/init");

    private final String path;

    Family(String path) {
        this.path = path;
    }

    /** Returns the path of the endpoint. */
    public String path() {
        return path;
    }

    /** Returns the endpoint of a path, or null. */
    public static Family of(String path) {
        for (Family family : values()) {
            if (family.path.equals(path)) {
                return family;
            }
        }
        return null;
    }
}
