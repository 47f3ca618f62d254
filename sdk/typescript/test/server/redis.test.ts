/** The store over an authority's Redis, with a real server of each. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import express from "express";
import { Redis } from "ioredis";
import { createClient as createRedis } from "redis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Client, createClient } from "../../src/index.js";
import { sealedExpress } from "../../src/server/index.js";
import { ioRedis, nodeRedis, type RedisOptions, RedisStore } from "../../src/server/redis/index.js";
import { scriptOf } from "../../src/server/redis/script.js";
import { Keks, openValue } from "../../src/server/redis/value.js";
import { freePort } from "../channel/relay.js";
import { type Running, startSealway, stopped } from "../sealway.js";

const REDIS = process.env["REDIS_SERVER_BIN"] || "/usr/bin/redis-server";
const KEK = randomBytes(32).toString("base64");
let folder = "";
let port = 0;
let server: ChildProcess | undefined;
let redis: ReturnType<typeof createRedis>;
let sealway: Running;
let service: Server;
let serviceUrl = "";

async function startRedis(): Promise<void> {
  if (!existsSync(REDIS))
    throw new Error(`${REDIS} is not there: install redis-server, or set REDIS_SERVER_BIN`);
  const args = [
    "--port",
    String(port),
    "--bind",
    "127.0.0.1",
    "--save",
    "",
    "--appendonly",
    "no",
    "--dir",
    folder,
  ];
  server = spawn(REDIS, args, { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise<void>((resolve, reject) => {
    server?.stdout?.on("data", (part) => String(part).includes("Ready to accept") && resolve());
    server?.on("exit", (code) => reject(new Error(`redis-server ended with ${code}`)));
  });
}

const store = (more: Partial<RedisOptions> = {}) =>
  new RedisStore({ redis: nodeRedis(redis), kekFile: join(folder, "keks"), ...more });

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "sealway-redis-"));
  port = await freePort();
  await startRedis();
  writeFileSync(join(folder, "keks"), `first ${KEK}\n`, { mode: 0o600 });
  redis = createRedis({ url: `redis://127.0.0.1:${port}` });
  redis.on("error", () => undefined);
  await redis.connect();
  sealway = await startSealway(undefined, [
    `store: "redis://127.0.0.1:${port}/0"`,
    `kek_file: "${folder}/keks"`,
  ]);
  const app = express();
  app.use(sealedExpress({ store: store() }));
  app.post("/transaction/purchase", (request, response) => {
    response.json({ by: request.get("x-sealway-client-id"), body: request.body });
  });
  service = createServer(app);
  await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
  serviceUrl = `http://127.0.0.1:${(service.address() as AddressInfo).port}`;
});
afterAll(async () => {
  service?.close();
  redis?.destroy();
  await sealway?.stop();
  if (server !== undefined) await stopped(server);
  if (folder !== "") rmSync(folder, { recursive: true, force: true });
});

/** A message as it was sent. */
type Sent = Pick<RequestInit, "method" | "headers" | "body">;

function client(url: string): { made: Client; sent: Sent[] } {
  const sent: Sent[] = [];
  const spy: typeof fetch = (input, init = {}) => {
    if (String(input).includes("/transaction/")) {
      const { method = "", headers = {}, body = null } = init;
      sent.push({ method, headers, body });
    }
    return fetch(input, init);
  };
  const trust = { pins: [sealway.pin] };
  const made = createClient({
    url,
    authorityUrl: sealway.url,
    trust,
    clientId: "tester",
    suites: ["P256"],
    fetch: spy,
  });
  return { made, sent };
}

const PURCHASE = {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ schemeCode: "AEF", amount: 5000 }),
};
const buy = (made: Client) => made.fetch("/transaction/purchase", PURCHASE);

async function again(url: string, sent: Sent | undefined): Promise<[number, string]> {
  const answer = await fetch(`${url}/transaction/purchase`, sent);
  return [answer.status, (await answer.json()).code];
}

describe("the store over Redis", () => {
  it("serves sessions of the gateway, and no nonce twice between both", async () => {
    const { made, sent } = client(serviceUrl);
    const answer = await buy(made);
    expect([answer.status, await answer.json()]).toEqual([
      200,
      { by: "tester", body: { schemeCode: "AEF", amount: 5000 } },
    ]);
    expect(await again(serviceUrl, sent[0])).toEqual([409, "replayed"]);
    expect(await again(sealway.url, sent[0])).toEqual([409, "replayed"]);
    const other = client(sealway.url);
    expect((await buy(other.made)).status).toBe(200);
    expect(await again(serviceUrl, other.sent[0])).toEqual([409, "replayed"]);
  });

  it("serves wires 1 and 2 too", async () => {
    for (const wire of [1, 2] as const) {
      const made = createClient({ url: serviceUrl, authorityUrl: sealway.url, trust: { pins: [] }, wire });
      expect((await buy(made)).status).toBe(200);
    }
  });

  it("works with the packages ioredis and redis, and with neither without a connection", async () => {
    const other = new Redis(port, "127.0.0.1", { lazyConnect: true });
    other.on("error", () => undefined);
    const made = store({ redis: ioRedis(other) });
    const claim = { key: randomBytes(16), sealed: true, stampMs: Date.now() };
    await expect(made.claim(claim)).rejects.toMatchObject({ code: "store_unavailable" });
    await other.connect();
    try {
      expect(await made.claim(claim)).toBe("fresh");
      expect(await store().claim(claim)).toBe("replayed");
      const { id } = await client(serviceUrl).made.connect();
      expect(await made.get(id)).toMatchObject({ id, wire: 3, clientId: "tester" });
    } finally {
      other.disconnect();
    }
    await expect(made.claim(claim)).rejects.toMatchObject({ code: "store_unavailable" });
  });

  it("sees within a second that a session was deleted", async () => {
    const { made } = client(serviceUrl);
    expect((await buy(made)).status).toBe(200);
    const id = made.session?.id;
    const headers = { Authorization: `Bearer ${sealway.secret}` };
    const path = `/v1/authority/sessions/${id}`;
    expect((await fetch(sealway.url + path, { method: "DELETE", headers })).status).toBe(200);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    await expect(buy(made)).rejects.toMatchObject({ code: "session_expired" });
  });

  it("grants a claim stamped ahead once Redis cannot forget it, and none from far ahead", async () => {
    const made = store();
    const claim = (aheadMs: number) =>
      made.claim({ key: randomBytes(16), sealed: true, stampMs: Date.now() + aheadMs });
    const begin = performance.now();
    expect(await claim(0)).toBe("fresh");
    expect(performance.now() - begin).toBeLessThan(400);
    expect(await claim(1000)).toBe("fresh");
    expect(performance.now() - begin).toBeGreaterThan(400);
    await expect(claim(60_000)).rejects.toMatchObject({ code: "store_unavailable" });
    const key = randomBytes(16);
    const same = { key, sealed: true, stampMs: Date.now() };
    const all = await Promise.all(Array.from({ length: 20 }, () => made.claim(same)));
    expect(all.filter((outcome) => outcome === "fresh")).toHaveLength(1);
    expect(all.filter((outcome) => outcome === "replayed")).toHaveLength(19);
  });

  it("reports an unreadable value as a fault, and never as the end of a session", async () => {
    const { made } = client(serviceUrl);
    const { id } = await made.connect();
    const name = `sealway:s:${id}`;
    const value = await redis.sendCommand<Buffer>(["GET", name], { typeMapping: { 36: Buffer } });
    const keks = new Keks({ kek: `first ${KEK}` });
    const session = (await openValue(id, value, keks))?.session;
    if (session === undefined) throw new Error("the row is of an earlier release");
    expect(session).toMatchObject({ id, wire: 3, clientId: "tester", auth: "none" });
    expect(session.key).toHaveLength(32);
    expect(JSON.stringify(session)).not.toContain(Buffer.from(session.key).toString("base64"));
    const flipped = Buffer.from(value);
    flipped[flipped.length - 1] = (flipped.at(-1) ?? 0) ^ 1;
    const version = Buffer.from(value);
    version[8] = 9;
    for (const wrong of [
      value.subarray(0, -1),
      Buffer.concat([value, Buffer.of(0)]),
      flipped,
      version,
      Buffer.of(1),
    ]) {
      await expect(openValue(id, wrong, keks)).rejects.toMatchObject({ code: "store_unavailable" });
    }
    const others = new Keks({ kek: `second ${KEK}` });
    await expect(openValue(id, value, others)).rejects.toMatchObject({ code: "store_unavailable" });
    await expect(openValue(`S-${"0".repeat(32)}`, value, keks)).rejects.toMatchObject({
      code: "store_unavailable",
    });
    await redis.set(name, "y");
    await expect(store().get(id)).rejects.toMatchObject({ code: "store_unavailable" });
    await redis.set(name, "x");
    expect(await store().get(id)).toBeUndefined();
  });

  it("rejects wrong options", () => {
    const wrong = [
      { prefix: "" },
      { windowMs: 0 },
      { timeoutMs: 1.5 },
      { kek: "a AAAA", kekFile: undefined },
    ] as never[];
    for (const more of wrong) expect(() => store(more)).toThrow(expect.objectContaining({ code: "usage" }));
  });

  it("runs the script of the spec", () => {
    const page = readFileSync(
      fileURLToPath(new URL("../../../../spec/redis-store.md", import.meta.url)),
      "utf8",
    );
    const [, text] = /```lua\n([\s\S]*?)```/.exec(page) ?? [];
    expect(scriptOf("ab".repeat(16))).toBe(text?.replaceAll("GENERATION", "ab".repeat(16)));
  });

  it("serves nothing after Redis lost its memory, and no replay when it is back", async () => {
    const { made, sent } = client(serviceUrl);
    expect((await buy(made)).status).toBe(200);
    const now = () => ({ key: randomBytes(16), sealed: true, stampMs: Date.now() });
    const [alone, backed] = [store(), store({ postgresBehind: true })];
    for (const each of [alone, backed]) expect(await each.claim(now())).toBe("fresh");
    await redis.flushAll();
    const [status] = await again(serviceUrl, sent[0]);
    expect(status).toBe(503);
    await expect(buy(made)).rejects.toMatchObject({ status: 503 });
    await expect(alone.claim(now())).rejects.toMatchObject({
      code: "store_unavailable",
      message: /another one/,
    });
    // The gateway begins another epoch; a store that knew the one before takes no stamp that this one may not know of.
    const fresh = client(sealway.url);
    const until = performance.now() + 20_000;
    while ((await redis.hGet("{sealway:0}:epoch", "gen")) === null) {
      if (performance.now() > until) throw new Error("the gateway does not begin a new epoch");
      await buy(fresh.made).catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    expect((await again(serviceUrl, sent[0]))[0]).toBeGreaterThanOrEqual(400);
    const { made: next } = client(serviceUrl);
    await expect(buy(next)).rejects.toMatchObject({ status: 503 });
    await expect(alone.claim(now())).rejects.toThrow("before the epoch");
    await expect(backed.claim(now())).rejects.toThrow("another one");
    // Where PostgreSQL knows what was lost, and for one that begins now, the floor of the epoch is enough.
    for (const each of [backed, store()])
      await expect(each.claim(now())).rejects.toThrow("the floor lies ahead");
  });

  it("serves nothing while Redis is unavailable, and reports it in time", async () => {
    const { made } = client(serviceUrl);
    await made.connect();
    const running = server;
    if (running !== undefined) running.kill("SIGSTOP");
    try {
      const begin = performance.now();
      await expect(buy(made)).rejects.toMatchObject({ status: 503, code: "store_unavailable" });
      expect(performance.now() - begin).toBeLessThan(1500);
    } finally {
      running?.kill("SIGCONT");
    }
    if (running !== undefined) await stopped(running);
    const begin = performance.now();
    await expect(buy(made)).rejects.toMatchObject({ status: 503 });
    expect(performance.now() - begin).toBeLessThan(1500);
  });
});
