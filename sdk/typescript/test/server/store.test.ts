/** The store that asks an authority, with one that lies and stalls; and the gate when it cannot tell. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AuthorityStore, Gate, MemoryStore, type SessionStore } from "../../src/server/index.js";
import { toBase64 } from "../../src/wire/base64.js";

const SECRET = "a-secret-that-nobody-may-see";
const ID = `S-${"ab".repeat(16)}`;
const KEY = new Uint8Array(32).fill(7);
const SESSION = {
  id: ID,
  wire: 3,
  client_id: "tester",
  subject: null,
  created_ms: 1,
  expires_ms: 4_000_000_000_000,
  key: toBase64(KEY),
};

let server: Server;
let url = "";
let asked = 0;
let answer: { status: number; body: unknown; type?: string } | undefined;

beforeAll(async () => {
  server = createServer((_, response) => {
    asked += 1;
    if (answer === undefined) return;
    const text = typeof answer.body === "string" ? answer.body : JSON.stringify(answer.body);
    response.writeHead(answer.status, { "Content-Type": answer.type ?? "application/json" }).end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server?.closeAllConnections();
  server?.close();
});

const store = (timeoutMs = 5000): SessionStore => new AuthorityStore({ url, secret: SECRET, timeoutMs });
const claim = { key: new Uint8Array(16), sealed: true, stampMs: 1 };
const key = "00".repeat(16);

describe("the store of an authority", () => {
  it("reads a session, requests it once within a second, and prints no key", async () => {
    answer = { status: 200, body: SESSION };
    asked = 0;
    const made = store();
    const [session] = await Promise.all([made.get(ID), made.get(ID)]);
    await made.get(ID);
    expect(asked).toBe(1);
    expect(session?.key).toEqual(KEY);
    expect(session).toMatchObject({ clientId: "tester", subject: undefined, auth: "none" });
    expect(inspect(session) + JSON.stringify(session)).not.toMatch(/7, 7|BwcH/);
    expect(inspect(made, { depth: 9, showHidden: true })).not.toContain(SECRET);
  });

  it("counts only a 404 with the session's id as its end", async () => {
    answer = { status: 404, body: { error: "SESSION_NOT_FOUND", id: ID } };
    expect(await store().get(ID)).toBeUndefined();
  });

  it.each([
    ["another id", 200, { ...SESSION, id: `S-${"cd".repeat(16)}` }, undefined],
    ["404 of another service", 404, { error: "NOT_FOUND" }, undefined],
    ["no JSON", 200, "<html>", "text/html"],
    ["a short key", 200, { ...SESSION, key: "AAAA" }, undefined],
    ["too much", 200, { ...SESSION, more: "x".repeat(70_000) }, undefined],
    ["a refused secret", 401, { error: "UNAUTHORIZED" }, undefined],
    ["a failure", 503, { error: "SERVICE_UNAVAILABLE" }, undefined],
  ])("rejects the answer %s", async (_, status, body, type) => {
    answer = { status, body, ...(type && { type }) };
    const error = await store()
      .get(ID)
      .then(
        () => undefined,
        (caught) => caught,
      );
    expect(error).toMatchObject({ code: "store_unavailable" });
    expect(inspect(error, { depth: 9 })).not.toContain(SECRET);
  });

  it("waits no longer than its timeout, and requests a claim once", async () => {
    answer = undefined;
    asked = 0;
    await expect(store(500).claim(claim)).rejects.toMatchObject({ code: "store_unavailable" });
    expect(asked).toBe(1);
  });

  it.each([
    [201, { key }, "fresh"],
    [409, { error: "REPLAYED", key }, "replayed"],
    [409, { error: "TIMESTAMP_OUTSIDE_WINDOW", key }, "outside_window"],
    [507, { error: "NONCES_FULL" }, "full"],
  ])("reads the outcome %s of a claim", async (status, body, outcome) => {
    answer = { status, body };
    expect(await store().claim(claim)).toBe(outcome);
  });

  it("rejects the answer to another claim", async () => {
    answer = { status: 201, body: { key: "11".repeat(16) } };
    await expect(store().claim(claim)).rejects.toMatchObject({ code: "store_unavailable" });
  });

  it("rejects an authority without TLS on another machine, and a short secret", () => {
    expect(() => new AuthorityStore({ url: "http://example.test", secret: SECRET })).toThrow("https");
    expect(() => new AuthorityStore({ url, secret: "short" })).toThrow("secret");
  });
});

describe("the gate", () => {
  const headers: [string, string][] = [
    ["X-Seal", "3"],
    ["X-Kid", `session:${ID}`],
    ["X-Idempotency-Key", `${Date.now()}.0123456789abcdef`],
  ];
  const routes = [{ path: "/", mode: "required" as const }];
  const status = async (gate: Gate, more: Partial<Parameters<Gate["open"]>[0]> = {}) => {
    const opened = await gate.open({ method: "POST", target: "/", headers, body: undefined, ...more });
    return opened.kind === "refused" ? [opened.answer.status, inspect(opened.answer.headers)] : opened.kind;
  };

  it("serves nothing while the authority is unavailable, with Retry-After", async () => {
    answer = { status: 503, body: {} };
    const [code, told] = await status(new Gate({ store: store(), routes }));
    expect(code).toBe(503);
    expect(told).toContain("Retry-After");
  });

  it("rejects an unknown session, a wire that is switched off, and a method that is not sealed", async () => {
    const made = new MemoryStore();
    const refused: string[] = [];
    const gate = new Gate({
      store: made,
      routes,
      wires: [2, 3],
      onRefusal: ({ code }) => refused.push(code),
    });
    expect((await status(gate))[0]).toBe(401);
    expect((await status(gate, { method: "TRACE" }))[0]).toBe(405);
    const wire1: [string, string][] = [
      ["X-Kid", `session:${ID}`],
      ["X-Nonce", "n"],
    ];
    expect((await status(gate, { headers: wire1 }))[0]).toBe(403);
    const twice = [...headers, headers[1] as [string, string]];
    expect((await status(gate, { headers: twice }))[0]).toBe(400);
    expect(refused).toEqual(["session_unknown", "method_not_allowed", "wire_disabled", "header_invalid"]);
    expect(await status(gate, { method: "OPTIONS" })).toEqual([
      204,
      expect.stringContaining("POST, OPTIONS"),
    ]);
  });

  it("rejects a wire that is switched off before it checks anything else", async () => {
    const gate = new Gate({ store: new MemoryStore(), wires: [1] });
    expect((await status(gate, { method: "TRACE" }))[0]).toBe(403);
    const wire2: [string, string][] = [["X-Kid", `session:${ID}`]];
    expect((await status(gate, { method: "GET", headers: wire2 }))[0]).toBe(403);
  });

  it("seals every path that no route names, however it is spelt", async () => {
    const plain = ["/health", "/public/*"].map((path) => ({ path, mode: "off" as const }));
    const gate = new Gate({ store: new MemoryStore(), routes: plain });
    const of = async (target: string) => {
      const opened = await gate.open({ method: "POST", target, headers: [], body: undefined });
      return opened.kind;
    };
    for (const target of ["/health", "/health?a=b", "/public/", "/public/a/b"]) {
      expect(await of(target), target).toBe("plain");
    }
    const sealed = [
      "/",
      "/other",
      "/healthy",
      "/publi",
      "/public/../other",
      "/public/%2e%2e/other",
      "/public/..;/x",
    ];
    for (const target of sealed) expect(await of(target), target).toBe("refused");
    expect(
      (
        await new Gate({ store: new MemoryStore() }).open({
          method: "GET",
          target: "/",
          headers: [],
          body: undefined,
        })
      ).kind,
    ).toBe("refused");
  });

  it("grants a claim in memory once, and none when it is full", async () => {
    const made = new MemoryStore(1000, 1, () => claim.stampMs);
    expect(await made.claim(claim)).toBe("fresh");
    expect(await made.claim(claim)).toBe("replayed");
    expect(await made.claim({ ...claim, key: new Uint8Array(16).fill(1) })).toBe("full");
  });
});
