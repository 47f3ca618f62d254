package dev.sealway.server;

import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Pattern;

/** Bounds the bytes of sealed bodies that have arrived and are not opened yet: in all, and by address. */
final class Room {
    static final long BYTES = 64L << 20;
    static final long BYTES_MIN = 1L << 20;
    private static final int ADDRESS_PART = 16;
    /** One frame of wire 3 and what was read behind it. */
    private static final long FRAME = 128L << 10;
    private static final Pattern IPV4 = Pattern.compile("[0-9.]+");
    private final long max;
    private final long share;
    private final Map<ByteBuffer, Long> byAddress = new HashMap<>();
    private long taken;

    /** @param longest the longest body that is held whole: no address's share is less than that, nor than a sixteenth */
    static Room of(long max, long longest) {
        return new Room(max, Math.min(max, Math.max(Math.max(max / ADDRESS_PART, longest), FRAME)));
    }

    /** @param share an address's */
    Room(long max, long share) {
        this.max = max;
        this.share = share;
    }

    long max() {
        return max;
    }

    long share() {
        return share;
    }

    synchronized long taken() {
        return taken;
    }

    synchronized int addresses() {
        return byAddress.size();
    }

    /** The taker that an address is: itself, or of IPv6 its /64; null where it is no IP address, as of a Unix socket. */
    static ByteBuffer taker(String remote) {
        if (remote == null || remote.indexOf(':') < 0 && !IPV4.matcher(remote).matches()) {
            return null;
        }
        try {
            // A literal is not looked up.
            InetAddress address = InetAddress.getByName(remote.replaceFirst("%[^]]*", ""));
            byte[] bytes = address.getAddress();
            return ByteBuffer.wrap(address instanceof Inet6Address ? Arrays.copyOf(bytes, 8) : bytes);
        } catch (UnknownHostException none) {
            return null;
        }
    }

    /** Takes bytes, or none and false.
     *
     * @param taker null for nobody's share */
    synchronized boolean take(ByteBuffer taker, long bytes) {
        long own = taker == null ? 0 : byAddress.getOrDefault(taker, 0L);
        if (bytes > max - taken || taker != null && bytes > share - own) {
            return false;
        }
        taken += bytes;
        if (taker != null && bytes > 0) {
            byAddress.put(taker, own + bytes);
        }
        return true;
    }

    synchronized void giveBack(ByteBuffer taker, long bytes) {
        taken -= bytes;
        if (taker != null && bytes > 0) {
            byAddress.computeIfPresent(taker, (same, own) -> own == bytes ? null : own - bytes);
        }
    }
}
