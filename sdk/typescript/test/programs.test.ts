/** The programs that come with the package, as they are built: the examples and the conformance driver. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { listening, type Running, startSealway, stopped } from "./sealway.js";

const DIST = fileURLToPath(new URL("../dist/", import.meta.url));
type Line = Record<string, any>;

describe("the examples", () => {
  let sealway: Running;
  let service: ChildProcess;
  let serverUrl = "";
  /** What the program `server` printed. */
  let serverSaid = "";

  beforeAll(async () => {
    sealway = await startSealway();
    const env = {
      ...process.env,
      PORT: "0",
      AUTHORITY_URL: sealway.url,
      AUTHORITY_SECRET_FILE: sealway.secretFile,
    };
    service = spawn(process.execPath, [`${DIST}examples/server.js`], {
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [service.stdout, service.stderr]) {
      stream?.on("data", (part) => {
        serverSaid += part;
      });
    }
    serverUrl = await listening(service, /^listening (http:\S+)/m, "stdout");
  });
  afterAll(async () => {
    if (service !== undefined) await stopped(service);
    await sealway?.stop();
  });

  function run(program: string, args: string[], more: Record<string, string>) {
    const env = { ...process.env, SESSION_URL: sealway.url, SEALWAY_PINS: sealway.pin, ...more };
    const done = spawnSync(process.execPath, [`${DIST}examples/${program}.js`, ...args], {
      env,
      encoding: "utf8",
    });
    return { code: done.status, out: done.stdout, err: done.stderr };
  }

  it.each(["3", "2", "1"])(
    "single makes its call on wire %s, at the gateway and at the service of this package",
    (wire) => {
      for (const SERVER_URL of [sealway.url, serverUrl]) {
        const { code, out, err } = run("single", ["--json"], { SEALWAY_WIRE: wire, SERVER_URL });
        expect(code, err).toBe(0);
        const told = JSON.parse(out) as Line;
        expect(out.trim().split("\n")).toHaveLength(1);
        expect(told).toMatchObject({
          program: "single",
          language: "typescript",
          wire: Number(wire),
          status: 200,
        });
        expect(told["body"]).toMatchObject({ status: "SUCCESS", schemeCode: "AEF", amount: 5000 });
        expect(told["suite"]).toBe(wire === "3" ? "X25519MLKEM768" : null);
      }
    },
  );

  it("single prints its steps, and benchmark its figures", () => {
    expect(run("single", [], {}).out).toContain("Performance Metrics Summary");
    const { code, out, err } = run("benchmark", ["20", "--json"], { BENCHMARK_CONCURRENCY: "4" });
    expect(code, err).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ program: "benchmark", n: 20, concurrency: 4, failed: 0 });
    expect(Object.keys((JSON.parse(out) as Line)["latency_ms"])).toEqual([
      "min",
      "mean",
      "p50",
      "p90",
      "p95",
      "p99",
      "max",
    ]);
  });

  it.each(["3", "2", "1"])("print no key of a session, and no secret, on wire %s", async (wire) => {
    const more = { SEALWAY_WIRE: wire, SERVER_URL: serverUrl };
    const runs = [
      run("single", [], more),
      run("single", ["--json"], more),
      run("benchmark", ["5"], more),
      run("benchmark", ["5", "--json"], more),
      // What fails tells why, and no more.
      run("single", [], { ...more, SERVER_URL: "http://127.0.0.1:9" }),
    ];
    const said = runs.map(({ out, err }) => out + err).join("\n") + serverSaid;
    const ids = [...new Set(said.match(/S-[0-9a-f]{32}/g))];
    expect(ids.length).toBeGreaterThan(1);
    const forbidden = [sealway.secret];
    for (const id of ids) {
      const headers = { Authorization: `Bearer ${sealway.secret}` };
      const { key } = await (await fetch(`${sealway.url}/v1/authority/sessions/${id}`, { headers })).json();
      // Those that a program ended are not known: what has the form of a key is looked for as well.
      if (typeof key === "string") forbidden.push(key, Buffer.from(key, "base64").toString("hex"));
    }
    expect(forbidden.length).toBeGreaterThan(1);
    for (const each of forbidden) expect(said.includes(each)).toBe(false);
    expect(said).not.toMatch(/(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])/i);
    expect(said).not.toMatch(/(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{43}=?(?![A-Za-z0-9+/_=-])/);
  });

  it("name a wrong argument or variable, with exit code 2", () => {
    expect(run("benchmark", ["none"], {})).toMatchObject({ code: 2, err: expect.stringContaining("N is") });
    for (const [name, value] of [
      ["SEALWAY_WIRE", "4"],
      ["SESSION_URL", "nowhere"],
      ["SEALWAY_PINS", "no pin"],
    ] as const) {
      expect(run("single", [], { [name]: value })).toMatchObject({
        code: 2,
        err: expect.stringContaining(name),
      });
    }
    const missing = run("server", [], { AUTHORITY_SECRET_FILE: "" });
    expect(missing).toMatchObject({ code: 2, err: expect.stringContaining("AUTHORITY_SECRET_FILE") });
  });

  it("fail with exit code 1 if the service is unreachable", () => {
    const { code, err } = run("single", [], { SESSION_URL: "http://127.0.0.1:9" });
    expect(code).toBe(1);
    expect(err).toContain("network");
  });
});

describe("the conformance driver", () => {
  let driver: ChildProcess;
  let lines: AsyncIterator<string>;
  const ask = async (line: Line): Promise<Line> => {
    driver.stdin?.write(`${JSON.stringify(line)}\n`);
    return JSON.parse((await lines.next()).value) as Line;
  };
  const ok = async (line: Line): Promise<Line> => {
    const answer = await ask(line);
    expect(answer, line["op"]).toHaveProperty("ok");
    return answer["ok"] as Line;
  };
  beforeAll(() => {
    driver = spawn(process.execPath, [`${DIST}driver/main.js`], { stdio: ["pipe", "pipe", "inherit"] });
    lines = createInterface({ input: driver.stdout! })[Symbol.asyncIterator]();
  });
  afterAll(() => stopped(driver));

  const now_ms = 1_750_000_000_000;
  const identity_hex = "0f".repeat(32);
  const suites = ["X25519MLKEM768", "SecP256r1MLKEM768", "P256", "SecP384r1MLKEM1024", "MLKEM1024"];

  async function identity(): Promise<string> {
    const { nodeProvider } = await import("../src/crypto/node.js");
    const { hex } = await import("../src/wire/bytes.js");
    const { fromHex } = await import("../src/wire/hex.js");
    return hex((await nodeProvider.p256(fromHex(identity_hex)!)).publicKey);
  }

  async function agreed(wire: number, suite: string): Promise<[client: number, server: Line]> {
    const path = wire === 3 ? "/v3/sessions" : "/session/init";
    const more = wire === 3 ? { suite, suites: [suite], trusted_hex: [await identity()] } : {};
    const asked = await ok({
      op: "client.init",
      wire,
      path,
      client_id: "driver",
      ttl_sec: null,
      now_ms,
      ...more,
    });
    const { headers, body_hex } = asked;
    const answer = await ok({ op: "server.init", path, headers, body_hex, now_ms, suites, identity_hex });
    const finished = await ok({ op: "client.finish", handle: asked["handle"], ...answer, now_ms });
    expect(finished["session_id"]).toBe(answer["session"].id);
    return [finished["session"], answer["session"]];
  }

  async function call(client: number, server: Line, method: string, body_hex: string): Promise<void> {
    const target = "/transaction/purchase?a=b";
    const inner = server["wire"] === 3 ? [["x-own", "1"]] : [];
    const sealed = await ok({
      op: "client.seal",
      session: client,
      method,
      target,
      headers: inner,
      body_hex,
      now_ms,
    });
    const { headers, body_hex: sent } = sealed;
    const opened = await ok({
      op: "server.open",
      session: server,
      method,
      target,
      headers,
      body_hex: sent,
      now_ms,
    });
    expect(opened).toMatchObject({ headers: inner, body_hex });
    expect(opened["claim_hex"]).toMatch(/^[0-9a-f]{32}$/);
    const status = 200;
    const answer = await ok({
      op: "server.seal",
      call: opened["call"],
      status,
      headers: inner,
      body_hex: "0a0b",
      now_ms,
    });
    const back = await ok({ op: "client.open", call: sealed["call"], ...answer, now_ms });
    expect(back).toMatchObject({ headers: inner, body_hex: method === "HEAD" ? "" : "0a0b" });
    const again = await ask({ op: "client.open", call: sealed["call"], ...answer, now_ms });
    expect(again).toHaveProperty("fault");
  }

  it("plays both sides on every wire and suite", async () => {
    expect(await ok({ op: "hello" })).toEqual({
      language: "typescript",
      wires: [1, 2, 3, 4],
      suites,
      kems: ["X-Wing", "MLKEM768-P256", "X25519", "P-256"],
      roles: ["client", "server"],
    });
    for (const [wire, suite] of [[1, ""], [2, ""], ...suites.map((each) => [3, each])] as [
      number,
      string,
    ][]) {
      const [client, server] = await agreed(wire, suite);
      for (const method of wire === 3 ? ["POST", "GET", "HEAD", "DELETE"] : ["POST"]) {
        await call(client, server, method, method === "POST" ? "7b7d" : "");
      }
    }
  });

  it("renews a session of wire 3, and rejects a changed message", async () => {
    const [client, server] = await agreed(3, "P256");
    const renewal = await ok({
      op: "client.renew",
      session: client,
      suite: "P256",
      suites: ["P256"],
      now_ms,
    });
    const { handle, body_hex } = renewal;
    const answer = await ok({ op: "server.renew", session: server, body_hex, now_ms, suites, identity_hex });
    const finished = await ok({ op: "client.finish", handle, headers: [], ...answer, now_ms });
    await call(finished["session"], answer["session"], "POST", "7b7d");
    const sealed = await ok({
      op: "client.seal",
      session: client,
      method: "POST",
      target: "/",
      headers: [],
      body_hex: "00",
      now_ms,
    });
    const opening = {
      op: "server.open",
      session: server,
      target: "/",
      headers: sealed["headers"],
      body_hex: sealed["body_hex"],
    };
    expect(await ask({ ...opening, method: "PUT", now_ms })).toEqual({ error: "unsealable" });
    expect(await ask({ ...opening, method: "POST", now_ms: now_ms + 400_000 })).toEqual({
      error: "timestamp_outside_window",
    });
    expect(await ask({ ...opening, session: answer["session"], method: "POST", now_ms })).toEqual({
      error: "session_unknown",
    });
    expect(await ask({ op: "nothing" })).toHaveProperty("fault");
    expect(await ok({ op: "reset" })).toEqual({});
    expect(
      await ask({ op: "client.seal", session: client, target: "/", body_hex: "", now_ms }),
    ).toHaveProperty("fault");
  });
});
