package dev.sealway.wire;

/** Checks of options. A {@link UsageException} names the option that is missing or out of bounds, and says what to give. */
public final class Options {
    private Options() {
    }

    /** Returns a value that must not be null.
     *
     * @param remedy what to give
     * @throws UsageException if it is null */
    public static <T> T present(T value, String name, String remedy) {
        if (value == null) {
            throw new UsageException(name + " is missing: " + remedy);
        }
        return value;
    }

    /** Returns a value above one bound and up to another, such as a duration.
     *
     * @throws UsageException if it is out of bounds */
    public static <T extends Comparable<T>> T within(T value, T above, T most, String name) {
        String remedy = "give more than " + above + " and at most " + most;
        if (present(value, name, remedy).compareTo(above) <= 0 || value.compareTo(most) > 0) {
            throw new UsageException(name + " is " + value + ": " + remedy);
        }
        return value;
    }

    /** Returns a number that is at least {@code least}.
     *
     * @throws UsageException if it is less */
    public static long atLeast(long value, long least, String name) {
        if (value < least) {
            throw new UsageException(name + " is " + value + ": give " + least + " or more");
        }
        return value;
    }
}
