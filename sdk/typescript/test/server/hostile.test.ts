/** Attacks of a peer, or of a man in the middle, on the middleware; no authority is needed. */
import { createServer, request as httpRequest, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import express from "express";
import fastify from "fastify";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { nodeProvider as provider } from "../../src/crypto/node.js";
import { handlerHeaders } from "../../src/server/headers.js";
import {
  MemoryStore,
  type ServerOptions,
  sealedExpress,
  sealedFastify,
  sealedFetch,
} from "../../src/server/index.js";
import type { Seal } from "../../src/session/native/call.js";
import { beginRequest, openAnswer } from "../../src/session/native/client-call.js";
import { encodeInner } from "../../src/session/native/inner.js";
import { SessionKeys } from "../../src/session/native/keys.js";
import { toBase64 } from "../../src/wire/base64.js";

const ID = `S-${"0".repeat(32)}`;
const key = Uint8Array.from(provider.random(32));
const store = new MemoryStore();
const closing: (() => unknown)[] = [];
let session: Seal;
const urls: Record<string, string> = {};

const options: ServerOptions = {
  store,
  routes: [
    { path: "/open/*", mode: "optional" },
    { path: "/orders", mode: "required" },
    { path: "/stream", mode: "required" },
    { path: "/broken", mode: "required" },
    { path: "/named", mode: "required" },
    { path: "/beside", mode: "required" },
  ],
};

/** Sends a target as it is. */
function plainly(url: string, path: string, headers = {}): Promise<{ status: number; text: string }> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ hostname, port, path, method: "POST", headers }, (answer) => {
      let text = "";
      answer.on("data", (data) => {
        text += data;
      });
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text }));
    });
    sent.on("error", reject);
    sent.end();
  });
}

/** The header of a name that every object knows. */
function named(headers: object): string {
  const [name, value] = Object.entries(headers).find(([each]) => each in {}) ?? [];
  return `${name}: ${value}`;
}

async function begin(method: string, target: string, type: string | undefined) {
  return beginRequest(provider, session, { method, target }, type, Date.now(), provider.random(16));
}

beforeAll(async () => {
  const keys = await SessionKeys.of(provider, key);
  session = { wire: 3, id: ID, keys };
  store.put({
    id: ID,
    wire: 3,
    clientId: "tester",
    subject: undefined,
    tenant: undefined,
    auth: "none",
    expiresMs: Date.now() + 600_000,
    key,
  });
  const app = express();
  app.use((_, response, next) => {
    response.set("Access-Control-Allow-Origin", "https://page.test");
    next();
  });
  app.use(sealedExpress(options));
  app.all("/orders", (request, response) => void response.send(`bought ${request.rawHeaders.join()}`));
  app.all(["/named", "/open/named"], ({ headers }, response) => void response.send(named(headers)));
  app.all("/open/raw", (request, response) => void response.json(request.rawHeaders));
  app.all("/stream", (_, response) => {
    response.write("one ");
    setTimeout(() => {
      response.write("two ");
      setTimeout(() => response.end("three"), 50);
    }, 50);
  });
  app.all("/beside", (_, response) => {
    response.writeEarlyHints({ link: "</secret>; rel=preload" }, () => {
      response.set("Trailer", "X-Balance").write("one ");
      response.addTrailers({ "X-Balance": "42" });
      response.end("two");
    });
  });
  app.all("/broken", (_, response) => {
    response.write("a part");
    throw new Error("the handler fails");
  });
  app.use(((_error, _request, response, next) => {
    if (response.headersSent) next(_error);
    else response.status(500).end("failed");
  }) as express.ErrorRequestHandler);
  const server = createServer(app);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => server.close());
  urls["express"] = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const other = fastify();
  other.addHook("onRequest", async (_, reply) => {
    reply.header("Access-Control-Allow-Origin", "https://page.test");
  });
  other.register(sealedFastify, options);
  other.all("/orders", async () => "bought");
  other.all("/beside", (_, reply) => {
    reply.raw.writeEarlyHints({ link: "</secret>; rel=preload" }, () => {
      reply.raw.addTrailers({ "X-Balance": "42" });
      reply.trailer("x-total", async () => "43").send(Readable.from(["one ", "two"], { objectMode: false }));
    });
  });
  for (const path of ["/named", "/open/named"]) other.all(path, async ({ headers }) => named(headers));
  closing.push(() => other.close());
  urls["fastify"] = await other.listen({ port: 0, host: "127.0.0.1" });
});
afterAll(async () => {
  for (const close of closing) await close();
});

describe.each(["express", "fastify"])("with %s", (kind) => {
  it.each([
    "/orders",
    "/ORDERS",
    "/orders/",
    "/%6frders",
    "/orders#x",
    "http://elsewhere.test/orders",
    "/open/../orders",
    "//orders",
  ])("%s is not served in plain", async (path) => {
    const { text } = await plainly(urls[kind] ?? "", path);
    expect(text).not.toContain("bought");
  });

  it("a rejection keeps the CORS headers", async () => {
    const answer = await fetch(`${urls[kind]}/orders`, { method: "POST", headers: { "X-Seal": "3" } });
    expect(answer.headers.get("content-type")).toBe("application/problem+json");
    expect(answer.headers.get("access-control-allow-origin")).toBe("https://page.test");
  });
});

describe.each(["express", "fastify"])("outside a sealed answer, with %s", (kind) => {
  it("there is no trailer and no early hint of its handler", async () => {
    const { headers, sealer, pending } = await begin("POST", "/beside", "application/octet-stream");
    const body = await sealer.seal(encodeInner([]), true);
    const early: unknown[] = [];
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const own = { method: "POST", headers: Object.fromEntries(headers) };
      const sent = httpRequest(`${urls[kind]}/beside`, own, resolve);
      sent.on("information", (info) => early.push(info.headers)).on("error", reject);
      sent.end(body);
    });
    const bytes = new Uint8Array(await buffer(answer));
    const outer = Object.entries(answer.headers).map(([name, value]): [string, string] => [name, `${value}`]);
    const opened = await openAnswer(provider, pending, answer.statusCode ?? 0, outer, bytes);
    expect(new TextDecoder().decode(opened.body)).toBe("one two");
    expect([early, answer.rawTrailers, answer.headers.trailer]).toEqual([[], [], undefined]);
  });
});

describe.each(["express", "fastify"])(
  "a header with the name of a member of every object, with %s",
  (kind) => {
    it.each(["constructor", "__proto__"])("is a header like others: %s", async (name) => {
      const { headers, sealer, pending } = await begin("POST", "/named", "application/octet-stream");
      const body = await sealer.seal(encodeInner([[name, "sealed"]]), true);
      const answer = await fetch(`${urls[kind]}/named`, { method: "POST", headers, body });
      const bytes = new Uint8Array(await answer.arrayBuffer());
      const opened = await openAnswer(provider, pending, answer.status, [...answer.headers], bytes);
      expect(new TextDecoder().decode(opened.body)).toBe(`${name}: sealed`);
    });

    it("reaches a plain route too", async () => {
      const { status, text } = await plainly(urls[kind] ?? "", "/open/named", { constructor: "plain" });
      expect([status, text]).toEqual([200, "constructor: plain"]);
    });
  },
);

describe("with express", () => {
  it("bytes that a handler writes later are sealed too", async () => {
    const { headers, sealer, pending } = await begin("POST", "/stream", "application/octet-stream");
    const body = await sealer.seal(encodeInner([]), true);
    const answer = await fetch(`${urls["express"]}/stream`, { method: "POST", headers, body });
    const bytes = new Uint8Array(await answer.arrayBuffer());
    expect(Buffer.from(bytes).includes("two ")).toBe(false);
    const opened = await openAnswer(provider, pending, answer.status, [...answer.headers], bytes);
    expect(new TextDecoder().decode(opened.body)).toBe("one two three");
  });

  it("an answer that breaks is not complete", async () => {
    const { headers, sealer, pending } = await begin("POST", "/broken", "application/octet-stream");
    const body = await sealer.seal(encodeInner([]), true);
    const opening = fetch(`${urls["express"]}/broken`, { method: "POST", headers, body }).then(
      async (answer) =>
        openAnswer(
          provider,
          pending,
          answer.status,
          [...answer.headers],
          new Uint8Array(await answer.arrayBuffer()),
        ),
    );
    await expect(opening).rejects.toThrow();
  });

  it("identity headers from outside are removed in every spelling", async () => {
    const headers = { "X-Sealway-Subject": "root", X_Sealway_Subject: "root" };
    const { text } = await plainly(urls["express"] ?? "", "/open/raw", headers);
    expect(text).toContain("Host");
    expect(text).not.toContain("root");
  });
});

it("the first part of a stream, moved into a header, is rejected", async () => {
  const { headers, sealer } = await begin("POST", "/orders", "application/octet-stream");
  const cut = await sealer.seal(encodeInner([]), false);
  let served = 0;
  const handle = sealedFetch(options, () => {
    served += 1;
    return new Response("bought");
  });
  const sealed: [string, string][] = [...headers, ["X-Sealed", toBase64(cut)]];
  const answer = await handle(new Request("http://api.test/orders", { method: "POST", headers: sealed }));
  expect([answer.status, served]).toEqual([400, 0]);
  expect(await answer.json()).toMatchObject({ code: "unsealable" });
});

it("a handler on wires 1 and 2 receives no Range and no Accept-Encoding", () => {
  const caller = {
    sessionId: ID,
    wire: 2,
    clientId: "c",
    auth: "none",
    subject: undefined,
    tenant: undefined,
  };
  const sent = [
    ["Accept-Encoding", "gzip"],
    ["Range", "bytes=0-1"],
    ["Cookie", "a=b"],
  ] as const;
  const names = handlerHeaders(undefined, sent, caller, false).map(([name]) => name);
  expect(names).toEqual(["cookie", "content-type", "x-sealway-auth", "x-sealway-client-id"]);
});
