/** The store over Redis, where a Redis and its driver do what they rarely do. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Cluster } from "ioredis";
import { describe, expect, it } from "vitest";
import { ioRedis, type RedisConnection, RedisStore } from "../../src/server/redis/index.js";
import { Keks, openValue } from "../../src/server/redis/value.js";

const KEK = Buffer.alloc(32, 1).toString("base64");

/** A Redis in which an epoch is in force, and whose script gives the answers of the test. */
function redisThat(answers: (isClaim: boolean) => [string, number, number]) {
  const reconnects: (() => void)[] = [];
  let calls = 0;
  const redis: RedisConnection = {
    async command(name, ...args) {
      if (name === "HMGET")
        return ["a".repeat(32), "0", "1", "b".repeat(40)].map((text) => Buffer.from(text));
      if (name === "INFO")
        return Buffer.from(`redis_mode:standalone\r\nrole:master\r\nmaster_replid:${"b".repeat(40)}\r\n`);
      calls += 1;
      const [state, nowMs, floorMs] = answers(args[5]?.length !== 0);
      return [Buffer.from(state), nowMs, floorMs];
    },
    onConnect: (run) => void reconnects.push(run),
  };
  const reconnect = () => {
    for (const run of reconnects) run();
  };
  return { store: new RedisStore({ redis, kek: `k ${KEK}` }), reconnect, calls: () => calls };
}

const claim = (stampMs: number) => ({ key: Buffer.alloc(16), sealed: true, stampMs });

describe("a claim in Redis", () => {
  it("with a stamp ahead is not granted before Redis's own clock reaches it", async () => {
    // The first look finds that the clock was set back by 100 ms.
    const clocks = [10_000, 9_900, 10_050];
    const { store, calls } = redisThat((isClaim) => [isClaim ? "AHEAD" : "OK", clocks.shift() ?? 0, 0]);
    expect(await store.claim(claim(10_540))).toBe("fresh");
    expect(calls()).toBe(3);
    const stopped = redisThat((isClaim) => [isClaim ? "AHEAD" : "OK", 10_000, 0]);
    await expect(stopped.store.claim(claim(11_300))).rejects.toMatchObject({ code: "store_unavailable" });
  });

  it("is not granted over a connection made after the epoch was read", async () => {
    const ahead = redisThat((isClaim) => [isClaim ? "AHEAD" : "OK", isClaim ? 10_000 : 10_100, 0]);
    const waiting = ahead.store.claim(claim(10_600));
    setTimeout(ahead.reconnect, 20);
    await expect(waiting).rejects.toMatchObject({ code: "store_unavailable" });
    // The driver made a new connection, and sent it over that one.
    let isMoved = false;
    const moved = redisThat(() => {
      if (!isMoved) moved.reconnect();
      isMoved = true;
      return ["FRESH", 10_000, 0];
    });
    await expect(moved.store.claim(claim(10_000))).rejects.toMatchObject({ code: "store_unavailable" });
    expect(await moved.store.claim(claim(10_000))).toBe("fresh");
  });

  it("is not made in a cluster, where the gateways would not find it", () => {
    const cluster = new Cluster([{ host: "127.0.0.1", port: 1 }], { lazyConnect: true });
    expect(() => ioRedis(cluster)).toThrow(expect.objectContaining({ code: "usage" }));
    cluster.disconnect();
  });
});

describe("key-encryption keys", () => {
  it("are well-formed, or rejected without being printed", () => {
    const folder = mkdtempSync(join(tmpdir(), "sealway-keks-"));
    const file = join(folder, "keks");
    try {
      for (const line of ["k SECRET!", `k ${KEK} more`, `k|k ${KEK}`, `k\t${KEK}`, `good ${KEK}`, KEK]) {
        writeFileSync(file, `# keys\ngood ${KEK}\n\n${line}\n`);
        const thrown = (() => {
          try {
            return new Keks({ kekFile: file });
          } catch (error) {
            return error as Error;
          }
        })();
        expect(thrown).toMatchObject({ code: "usage" });
        expect(String(thrown)).toContain(`${file}:4:`);
        expect(String(thrown)).not.toMatch(/SECRET|AQEB/);
      }
      expect(() => new Keks({ kekFile: join(folder, "none") })).toThrow(/none cannot be read: ENOENT/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("that are new are available to concurrent callers", () => {
    const folder = mkdtempSync(join(tmpdir(), "sealway-keks-"));
    const file = join(folder, "keks");
    try {
      writeFileSync(file, `first ${KEK}\n`);
      const keks = new Keks({ kekFile: file });
      writeFileSync(file, `first ${KEK}\nsecond ${KEK}\n`);
      for (let n = 0; n < 3; n++) expect(keks.get("second")).toHaveLength(32);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe("a stored session", () => {
  it("without the client's id, or with one of another form, is a fault on wires 2 and 3", async () => {
    const value = (wire: number, client: Buffer) =>
      Buffer.concat([
        Buffer.alloc(8),
        Buffer.of(3, wire),
        Buffer.alloc(8),
        client,
        Buffer.of(0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0, 1, 0x6b),
        Buffer.alloc(60),
      ]);
    const id = `S-${"0".repeat(32)}`;
    const keks = new Keks({ kek: `k ${KEK}` });
    const none = Buffer.of(0xff, 0xff);
    for (const wrong of [
      value(3, none),
      value(2, none),
      value(3, Buffer.of(0, 0)),
      value(1, Buffer.of(0, 1, 0x7c)),
    ])
      await expect(openValue(id, wrong, keks)).rejects.toThrow("not of its form");
    await expect(openValue(id, value(1, none), keks)).rejects.toThrow("does not unwrap");
  });
});
