package dev.sealway.wire;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Locale;

/** A number of JSON, as it was written; from {@link Json#parse} it is within the range of a double. */
public record JsonNumber(String text) {
    /** As a double. */
    public double asDouble() {
        return Double.parseDouble(text);
    }

    /** The number if it is whole, however written, and 0 to {@code max}; else null. {@code max} is read as unsigned. */
    public Long whole(long max) {
        double rounded = asDouble();
        // BigDecimal reads no exponent of more than ten digits, and expands one such as -999999999. A number that has one is zero, or
        // beyond the range of a double.
        if (rounded == 0) {
            return text.toLowerCase(Locale.ROOT).split("e", 2)[0].chars().anyMatch(c -> c >= '1' && c <= '9') ? null : 0L;
        }
        if (rounded < 0 || rounded >= 0x1p65) {
            return null;
        }
        BigDecimal number = new BigDecimal(text);
        if (number.stripTrailingZeros().scale() > 0) {
            return null;
        }
        BigInteger whole = number.toBigInteger();
        return whole.compareTo(new BigInteger(Long.toUnsignedString(max))) <= 0 ? whole.longValue() : null;
    }
}
