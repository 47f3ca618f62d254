package dev.sealway.wire;

import java.math.BigDecimal;
import java.math.BigInteger;

/** A number of JSON, as it was written; from {@link Json#parse} it is within the range of a double. */
public record JsonNumber(String text) {
    /** As a double. */
    public double asDouble() {
        return Double.parseDouble(text);
    }

    /** The number if it is whole, however written, and 0 to {@code max}; else null. {@code max} is read as unsigned. */
    public Long whole(long max) {
        BigDecimal number = new BigDecimal(text);
        if (number.signum() == 0) {
            return 0L;
        }
        // The first test keeps an exponent such as -999999999 from being expanded.
        if (number.signum() < 0 || asDouble() >= 0x1p65 || number.stripTrailingZeros().scale() > 0) {
            return null;
        }
        BigInteger whole = number.toBigInteger();
        return whole.compareTo(new BigInteger(Long.toUnsignedString(max))) <= 0 ? whole.longValue() : null;
    }
}
