package dev.sealway.wire;

/** Checks of options. What is missing or out of bounds is an {@link IllegalArgumentException} that names the option and says what to do. */
public final class Options {
    private Options() {
    }

    /** A value that has to be there.
     *
     * @param remedy what to give */
    public static <T> T present(T value, String name, String remedy) {
        if (value == null) {
            throw new IllegalArgumentException(name + " is missing: " + remedy);
        }
        return value;
    }

    /** A value above one and up to another, as a length of time. */
    public static <T extends Comparable<T>> T within(T value, T above, T most, String name) {
        String remedy = "give more than " + above + " and at most " + most;
        if (present(value, name, remedy).compareTo(above) <= 0 || value.compareTo(most) > 0) {
            throw new IllegalArgumentException(name + " is " + value + ": " + remedy);
        }
        return value;
    }

    /** A number that is at least so much. */
    public static long atLeast(long value, long least, String name) {
        if (value < least) {
            throw new IllegalArgumentException(name + " is " + value + ": give " + least + " or more");
        }
        return value;
    }
}
