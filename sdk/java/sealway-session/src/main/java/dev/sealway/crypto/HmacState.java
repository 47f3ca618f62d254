package dev.sealway.crypto;

import java.security.MessageDigest;
import java.util.Arrays;

/** HMAC-SHA256 (RFC 2104) under one key, whose two padded blocks are hashed once. Safe for use by any number of threads. */
final class HmacState {
    static final int LEN = 32;
    private static final int BLOCK = 64;
    private final MessageDigest inner = Hashes.newSha256();
    private final MessageDigest outer = Hashes.newSha256();
    private volatile boolean isWiped;

    HmacState(byte[] key) {
        byte[] pad = Arrays.copyOf(key.length > BLOCK ? Hashes.sha256(key) : key, BLOCK);
        for (int at = 0; at < BLOCK; at++) {
            pad[at] ^= 0x36;
        }
        inner.update(pad);
        for (int at = 0; at < BLOCK; at++) {
            pad[at] ^= 0x36 ^ 0x5c;
        }
        outer.update(pad);
        Arrays.fill(pad, (byte) 0);
    }

    byte[] mac(byte[]... parts) {
        try {
            MessageDigest first = (MessageDigest) inner.clone();
            MessageDigest second = (MessageDigest) outer.clone();
            // After both were cloned: what was wiped before would be a hash without a key, which anybody can compute.
            if (isWiped) {
                throw new IllegalStateException("the key was wiped");
            }
            for (byte[] part : parts) {
                first.update(part);
            }
            second.update(first.digest());
            return second.digest();
        } catch (CloneNotSupportedException impossible) {
            throw new IllegalStateException("the platform's SHA-256 cannot be cloned", impossible);
        }
    }

    void wipe() {
        isWiped = true;
        inner.reset();
        outer.reset();
    }

    @Override
    public String toString() {
        return "HmacState(redacted)";
    }
}
