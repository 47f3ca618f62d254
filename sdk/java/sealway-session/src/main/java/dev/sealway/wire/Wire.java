package dev.sealway.wire;

/** Wires of sessions. */
public enum Wire {
    /** Wire 1. */
    ONE(1),
    /** Wire 2. */
    TWO(2),
    /** Wire 3, the native one. */
    NATIVE(3);

    private final int number;

    Wire(int number) {
        this.number = number;
    }

    /** Returns the number of the wire. */
    public int number() {
        return number;
    }

    /** The wire of this number, or null. */
    public static Wire of(long number) {
        return number >= 1 && number <= 3 ? values()[(int) number - 1] : null;
    }

    /** The compat wire of a request: wire 1 if it has X-Nonce and no X-Idempotency-Key, else wire 2. */
    public static Wire compat(HeaderList headers) {
        return headers.has(HeaderNames.X_NONCE) && !headers.has(HeaderNames.X_IDEMPOTENCY_KEY) ? ONE : TWO;
    }
}
