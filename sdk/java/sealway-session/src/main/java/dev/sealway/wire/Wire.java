package dev.sealway.wire;

/** The wires. */
public enum Wire {
    /** Wire 1. */
    ONE(1),
    /** Wire 2. */
    TWO(2),
    /** Wire 3, the native one. */
    THREE(3);

    private final int number;

    Wire(int number) {
        this.number = number;
    }

    /** Its number. */
    public int number() {
        return number;
    }

    /** The wire of this number, or null. */
    public static Wire of(long number) {
        return number >= 1 && number <= 3 ? values()[(int) number - 1] : null;
    }

    /** Which of the old wires a request speaks: wire 1 when X-Nonce is there and X-Idempotency-Key is not. */
    public static Wire old(HeaderList headers) {
        return headers.has(HeaderNames.X_NONCE) && !headers.has(HeaderNames.X_IDEMPOTENCY_KEY) ? ONE : TWO;
    }
}
