package dev.sealway.exchange;

import dev.sealway.wire.Wire;

/** The form of an error's body. */
public enum Form {
    /** {@code {"error": CODE}}: wires 1 and 2. */
    PLAIN,
    /** {@code application/problem+json} (RFC 9457): wire 3. */
    PROBLEM;

    /** Returns the form that clients of a wire read. */
    public static Form of(Wire wire) {
        return wire == Wire.NATIVE ? PROBLEM : PLAIN;
    }
}
