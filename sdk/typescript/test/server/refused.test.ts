/** Sealed requests that are incomplete, slow or too long, and what of forwarding a handler sees: over sockets. */
import { createServer, request as httpRequest } from "node:http";
import { type AddressInfo, connect } from "node:net";
import express from "express";
import fastify from "fastify";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { nodeProvider as provider } from "../../src/crypto/node.js";
import { MemoryStore, type ServerOptions, sealedExpress, sealedFastify } from "../../src/server/index.js";
import {
  type CompatClientSession,
  openCompatAnswer,
  sealCompatRequest,
} from "../../src/session/compat/client.js";
import type { Seal } from "../../src/session/native/call.js";
import { beginRequest, openAnswer, type PendingCall } from "../../src/session/native/client-call.js";
import { encodeInner } from "../../src/session/native/inner.js";
import { SessionKeys } from "../../src/session/native/keys.js";
import { type Bytes, concat, utf8 } from "../../src/wire/bytes.js";

const ID = `S-${"1".repeat(32)}`;
const key = Uint8Array.from(provider.random(32));
// As wide as the server's: else it refuses what that would serve.
const store = new MemoryStore(3_600_000);
const closing: (() => unknown)[] = [];
const urls: Record<string, string> = {};
let session: Seal;
let served = 0;
const BODY_MAX = 200_000;

const options = (trustForwarded: boolean): ServerOptions => ({
  // Wider than wire 3 takes it.
  windowMs: 3_600_000,
  store,
  routes: [{ path: "/*", mode: "required", bodyMaxBytes: BODY_MAX }],
  bodyTimeoutMs: 300,
  trustForwarded,
});

async function listen(name: string, app: express.Express): Promise<void> {
  const server = createServer(app);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => server.close());
  urls[name] = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

beforeAll(async () => {
  const keys = await SessionKeys.of(provider, key);
  session = { wire: 3, id: ID, keys };
  const more = { clientId: "tester", subject: undefined, tenant: undefined, auth: "none" };
  store.put({ ...more, id: ID, wire: 3, expiresMs: Date.now() + 600_000, key });
  for (const [name, trusted] of [
    ["express", false],
    ["trusting", true],
  ] as const) {
    const app = express();
    app.use(sealedExpress(options(trusted)));
    app.all("/{*path}", (request, response) => {
      served += 1;
      response.json(request.headers);
    });
    await listen(name, app);
  }
  const other = fastify();
  other.register(sealedFastify, options(false));
  other.addContentTypeParser("*", { parseAs: "buffer" }, (_, body, done) => done(null, body));
  other.all("/*", async (request) => {
    served += 1;
    return request.headers;
  });
  closing.push(() => other.close());
  urls["fastify"] = await other.listen({ port: 0, host: "127.0.0.1" });
});
afterAll(async () => {
  for (const close of closing) await close();
});

type Headers = [string, string][];

async function sealed(
  parts: Uint8Array[],
  inner: Headers = [["content-type", "application/octet-stream"]],
  stampMs = Date.now(),
): Promise<{ headers: Headers; stream: Bytes; pending: PendingCall; ends: number[] }> {
  const line = { method: "POST", target: "/order" };
  const type = "application/octet-stream";
  const begun = await beginRequest(provider, session, line, type, stampMs, provider.random(16));
  const frames: Bytes[] = [];
  for (const [at, part] of parts.entries()) {
    const plaintext = at === 0 ? concat(encodeInner(inner), part) : part;
    frames.push(await begun.sealer.seal(plaintext, at === parts.length - 1));
  }
  const ends: number[] = [];
  for (const frame of frames) ends.push((ends.at(-1) ?? 0) + frame.length);
  return { headers: begun.headers, stream: concat(...frames), pending: begun.pending, ends };
}

async function post(kind: string, headers: Headers, body: Uint8Array) {
  const answer = await fetch(`${urls[kind]}/order`, { method: "POST", headers, body: Uint8Array.from(body) });
  return {
    status: answer.status,
    headers: [...answer.headers] as Headers,
    bytes: new Uint8Array(await answer.arrayBuffer()),
  };
}

const codeOf = (bytes: Uint8Array) => JSON.parse(new TextDecoder().decode(bytes)).code;

describe.each(["express", "fastify"])("with %s", (kind) => {
  it.each(["X-Kid", "X-Idempotency-Key", "X-Seal"])("a request without %s is not served", async (name) => {
    const { headers, stream } = await sealed([utf8("{}")]);
    const before = served;
    const { status } = await post(
      kind,
      headers.filter(([each]) => each !== name),
      stream,
    );
    expect([status, served]).toEqual([400, before]);
    const twice: Headers = [...headers, [name, headers.find(([each]) => each === name)?.[1] ?? ""]];
    const repeated = await plainly(kind, twice, stream);
    expect([repeated, served]).toEqual([400, before]);
  });

  it("a body over its bound is 413, also one whose first frame never ends", async () => {
    const before = served;
    const { headers, stream } = await sealed(Array.from({ length: 5 }, () => new Uint8Array(60_000)));
    const { status, bytes } = await post(kind, headers, stream);
    expect([status, codeOf(bytes)]).toEqual([413, "too_large"]);
    expect(served).toBe(before);
  });

  it.each([0, 1, 2])("a stream that breaks off after its first frame is not complete: cut %s", async (at) => {
    const before = served;
    const { headers, stream, ends } = await sealed([utf8("one"), utf8("two"), utf8("three")]);
    const { status, bytes } = await post(
      kind,
      headers,
      stream.subarray(0, [ends[0], ends[1], (ends[1] ?? 0) + 10][at]),
    );
    expect([status, codeOf(bytes)]).toEqual([400, "unsealable"]);
    expect(served).toBe(before);
  });

  it("a body that comes too slowly is rejected in time", async () => {
    const { headers, stream } = await sealed([utf8("one"), utf8("two")]);
    const before = served;
    const begin = performance.now();
    const said = await slowly(kind, headers, stream.subarray(0, 30), stream.length);
    expect(said).toMatch(/^HTTP\/1.1 400 /);
    expect(said).toContain("unsealable");
    expect(performance.now() - begin).toBeLessThan(3000);
    expect(served).toBe(before);
  });
});

/** A request of wire 2, whose session the store has. */
async function sealedOn2(kind: string, stampMs: number) {
  const id = `S-${"2".repeat(32)}`;
  const more = { clientId: "tester", subject: undefined, tenant: undefined, auth: "none" };
  const expiresMs = Date.now() + 600_000;
  store.put({ ...more, id, wire: 2, expiresMs, key });
  const aead = await provider.aeadKey(key);
  const own: CompatClientSession = {
    wire: 2,
    id,
    clientId: "tester",
    expiresInSec: 600,
    expiresMs,
    key: aead,
  };
  const nonce = `${kind}-${Buffer.from(provider.random(12)).toString("hex")}`;
  const call = await sealCompatRequest(
    own,
    "/order",
    utf8("{}"),
    String(stampMs),
    nonce,
    provider.random(12),
  );
  const headers: Headers = [...call.headers, ["Content-Type", call.contentType]];
  return { own, headers, body: call.body };
}

/** Sends headers that may be repeated, which \`fetch\` would join. */
function plainly(kind: string, headers: Headers, body: Uint8Array): Promise<number> {
  const { hostname, port } = new URL(urls[kind] ?? "");
  return new Promise((resolve, reject) => {
    const all = ["Host", hostname, ...headers.flat()];
    const sent = httpRequest({ hostname, port, path: "/order", method: "POST", headers: all }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

/** Sends a part of a body, and reads what is said before the rest. */
function slowly(kind: string, headers: Headers, part: Uint8Array, length: number): Promise<string> {
  const { hostname, port } = new URL(urls[kind] ?? "");
  const head = [...headers, ["Host", hostname], ["Content-Length", String(length)]];
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => {
      socket.write(`POST /order HTTP/1.1\r\n${head.map((each) => each.join(": ")).join("\r\n")}\r\n\r\n`);
      socket.write(part);
    });
    let said = "";
    socket.on("data", (data) => {
      said += data;
    });
    socket.on("close", () => resolve(said));
    socket.on("error", reject);
  });
}

it("a wider configured window is five minutes on wire 3, and unchanged on wire 2", async () => {
  const told = async (ageMs: number) => {
    const { headers, stream } = await sealed([utf8("{}")], undefined, Date.now() - ageMs);
    const { status, bytes } = await post("express", headers, stream);
    return status === 400 ? codeOf(bytes) : status;
  };
  expect(await told(290_000)).toBe(200);
  expect(await told(301_000)).toBe("clock_skew");
  expect(await told(-301_000)).toBe("clock_skew");
  const { headers, body } = await sealedOn2("express", Date.now() - 301_000);
  expect((await post("express", headers, body)).status).toBe(200);
});

describe("the origin of a request", () => {
  const OF_ORIGIN: Headers = [
    ["Forwarded", "for=192.0.2.1"],
    ["X-Forwarded-For", "192.0.2.1"],
    ["X-Forwarded-Host", "elsewhere.test"],
    ["X-Real-IP", "192.0.2.1"],
    ["Client-Cert", ":AAAA:"],
    ["Client-Cert-Chain", ":AAAA:"],
    ["X-Client-Cert", ":AAAA:"],
  ];
  const names = OF_ORIGIN.map(([name]) => name.toLowerCase()).sort();
  const inner = OF_ORIGIN.map(([name, value]): [string, string] => [name.toLowerCase(), `inside ${value}`]);

  async function seenOn3(kind: string): Promise<Record<string, string>> {
    const { headers, stream, pending } = await sealed(
      [utf8("{}")],
      [...inner, ["x-own", "yes"], ["content-type", "application/octet-stream"]],
    );
    const answer = await post(kind, [...headers, ...OF_ORIGIN, ["Via", "1.1 proxy"]], stream);
    const opened = await openAnswer(provider, pending, answer.status, answer.headers, answer.bytes);
    return JSON.parse(new TextDecoder().decode(opened.body));
  }

  it.each(["express", "fastify"])("is removed, with %s, unless the proxy is trusted", async (kind) => {
    const seen = await seenOn3(kind);
    expect(Object.keys(seen).filter((name) => names.includes(name))).toEqual([]);
    expect(seen).toMatchObject({ "x-own": "yes", via: "1.1 proxy" });
  });

  it("is that of a trusted proxy, and never the sealed one", async () => {
    const seen = await seenOn3("trusting");
    for (const [name, value] of OF_ORIGIN) expect(seen[name.toLowerCase()]).toBe(value);
  });

  it.each([
    ["express", []],
    ["trusting", names],
  ])("is treated alike on wire 2, with %s", async (kind, wanted) => {
    const { own, headers, body } = await sealedOn2(kind, Date.now());
    const answer = await post(kind, [...headers, ...OF_ORIGIN, ["X_Forwarded_For", "192.0.2.1"]], body);
    expect(answer.status).toBe(200);
    const opened = await openCompatAnswer(
      own,
      "/order",
      200,
      answer.headers,
      answer.bytes,
      Date.now(),
      300_000,
    );
    const seen = Object.keys(JSON.parse(new TextDecoder().decode(opened)));
    expect(seen.filter((name) => names.includes(name)).sort()).toEqual(wanted);
    // The one in front does not know this spelling, and would pass on whatever a client says there.
    expect(seen).not.toContain("x_forwarded_for");
  });
});
