package dev.sealway.redis;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.HexFormat;

/** The script that makes a claim. It is never loaded nor sent: that Redis has the one of this generation is the proof that it still has
 * the memory that earlier claims were written to. {@code spec/redis-store.md#the-script}. */
final class Script {
    static final String TEXT = """
            -- generation GENERATION
            local t = redis.call('TIME')
            local now = t[1] * 1000 + math.floor(t[2] / 1000)
            local e = redis.call('HMGET', KEYS[1], 'gen', 'floor', 'hw')
            if e[1] ~= 'GENERATION' then return {'EPOCH', now, 0} end
            local floor, hw = tonumber(e[2]), tonumber(e[3])
            if now < hw - 5000 then return {'CLOCK', now, floor} end
            if redis.call('EXISTS', KEYS[2]) == 0 and now < hw + 10000 then return {'CLOCK', now, floor} end
            if now > hw + 1000 then
              local noted = redis.pcall('SET', KEYS[2], '1', 'PX', 10000 + 1000)
              if not noted.err then redis.call('HSET', KEYS[1], 'hw', string.format('%.0f', now)) end
            end
            if now > hw then hw = now end
            if ARGV[1] == '' then return {'OK', now, floor} end
            local stamp, gone = tonumber(ARGV[3]), tonumber(ARGV[4])
            if stamp <= floor then return {'FLOOR', now, floor} end
            if gone <= hw then return {'FORGOTTEN', now, floor} end
            local keep = math.max(tonumber(ARGV[2]), gone - now) + 12000
            if not redis.call('SET', KEYS[3], ARGV[1], 'NX', 'PX', string.format('%.0f', keep)) then
              if redis.call('GET', KEYS[3]) ~= ARGV[1] then return {'REPLAYED', now, floor} end
            end
            if stamp > now + 500 then return {'AHEAD', now, floor} end
            return {'FRESH', now, floor}
            """;

    private Script() {
    }

    /** Returns the name of the script for EVALSHA. */
    static String sha1(String generation) {
        try {
            byte[] text = TEXT.replace("GENERATION", generation).getBytes(StandardCharsets.US_ASCII);
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-1").digest(text));
        } catch (GeneralSecurityException missing) {
            throw new IllegalStateException("the platform has no SHA-1, by which Redis names scripts", missing);
        }
    }
}
