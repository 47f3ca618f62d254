package dev.sealway.session;

/** Which endpoint an init of wires 1 and 2 came to. */
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

    /** Its path. */
    public String path() {
        return path;
    }

    /** The family of a path, or null. */
    public static Family of(String path) {
        for (Family family : values()) {
            if (family.path.equals(path)) {
                return family;
            }
        }
        return null;
    }
}
