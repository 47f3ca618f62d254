/** The middleware with the real authority and the client of this package. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import fastify from "fastify";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createClient, type Wire } from "../../src/index.js";
import {
  AuthorityStore,
  type SealedMessage,
  type ServerOptions,
  sealedCaller,
  sealedExpress,
  sealedFastify,
  sealedFetch,
} from "../../src/server/index.js";
import { type Running, startSealway } from "../sealway.js";

let sealway: Running;
const refusals: string[] = [];
const urls: Record<string, string> = {};
const closing: (() => unknown)[] = [];

function options(): ServerOptions {
  return {
    store: new AuthorityStore({ url: sealway.url, secret: sealway.secret }),
    routes: [
      { path: "/echo", mode: "required", bodyMaxBytes: 200_000 },
      { path: "/both", mode: "optional" },
      { path: "/status/*", mode: "required" },
    ],
    onRefusal: ({ code }) => refusals.push(code),
  };
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function withExpress() {
  const app = express();
  app.use(sealedExpress(options()));
  app.use(express.json({ limit: "1mb" }));
  app.all(["/echo", "/both"], (request, response) => {
    const sealed = (request as unknown as SealedMessage).sealway;
    response.set("X-Own", "yes").json({
      method: request.method,
      body: request.body ?? null,
      wire: sealed?.wire ?? null,
      client: request.get("x-sealway-client-id") ?? null,
      seal: request.get("x-kid") ?? null,
      token: request.get("authorization") ?? null,
    });
  });
  app.all(
    "/status/:code",
    (request, response) => void response.status(Number(request.params.code)).send("text"),
  );
  return createServer(app);
}

async function withFastify(): Promise<string> {
  const app = fastify();
  app.register(sealedFastify, options());
  app.route({
    method: ["GET", "POST", "DELETE"],
    url: "/:path",
    handler: async (request, reply) => {
      reply.header("X-Own", "yes");
      return {
        method: request.method,
        body: request.body ?? null,
        wire: sealedCaller(request)?.wire ?? null,
        client: request.headers["x-sealway-client-id"] ?? null,
        seal: request.headers["x-kid"] ?? null,
        token: request.headers.authorization ?? null,
      };
    },
  });
  app.all("/status/:code", async (request, reply) =>
    reply.code(Number((request.params as { code: string }).code)).send("text"),
  );
  closing.push(() => app.close());
  return app.listen({ port: 0, host: "127.0.0.1" });
}

const handler = sealedFetchLater();
function sealedFetchLater() {
  let made: ((request: Request) => Promise<Response>) | undefined;
  return (request: Request) => {
    made ??= sealedFetch(options(), async (asked, caller) => {
      const code = /^\/status\/(\d+)$/.exec(new URL(asked.url).pathname)?.[1];
      if (code !== undefined)
        return new Response(["204", "304"].includes(code) ? null : "text", { status: Number(code) });
      const text = await asked.text();
      return Response.json(
        {
          method: asked.method,
          body: text === "" ? null : JSON.parse(text),
          wire: caller?.wire ?? null,
          client: asked.headers.get("x-sealway-client-id"),
          seal: asked.headers.get("x-kid"),
          token: asked.headers.get("authorization"),
        },
        { headers: { "X-Own": "yes" } },
      );
    });
    return made(request);
  };
}

/** Requests to this host go to the handler in the style of `fetch`, all others out. */
const routed: typeof fetch = async (input, init) => {
  const request = new Request(input as Request, init);
  return new URL(request.url).hostname === "handler.test" ? handler(request) : fetch(request);
};

beforeAll(async () => {
  sealway = await startSealway();
  urls["express"] = await listen(withExpress());
  urls["fastify"] = await withFastify();
  urls["fetch"] = "http://handler.test";
});
afterAll(async () => {
  for (const close of closing) await close();
  await sealway?.stop();
});

function client(serviceUrl = "", wire: Wire = 3, send: typeof fetch = routed) {
  const trust = { pins: wire === 3 ? [sealway.pin] : [] };
  const { url } = sealway;
  return createClient({
    url: serviceUrl,
    authorityUrl: url,
    trust,
    wire,
    clientId: "tester",
    fetch: send,
    suites: ["P256"],
  });
}

describe.each(["express", "fastify", "fetch"])("middleware for %s", (kind) => {
  const at = (path: string) => `${urls[kind]}${path}`;

  it.each([3, 2, 1] as Wire[])("opens and seals around a handler on wire %s", async (wire) => {
    const response = await client(urls[kind], wire).fetch(at("/echo"), {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: "Bearer inside" },
      body: JSON.stringify({ a: 1 }),
    });
    expect(response.status).toBe(200);
    const token = wire === 3 ? "Bearer inside" : null;
    const caller = wire === 1 ? null : "tester";
    expect(await response.json()).toEqual({
      method: "POST",
      body: { a: 1 },
      wire,
      client: caller,
      seal: null,
      token,
    });
    if (wire === 3) expect(response.headers.get("x-own")).toBe("yes");
  });

  it("serves a request without a body, and one of many frames", async () => {
    const { fetch: sealed } = client(urls[kind]);
    const read = await sealed(at("/echo?x=1"));
    expect(await read.json()).toMatchObject({ method: "GET", body: null, wire: 3 });
    const long = "x".repeat(150_000);
    const written = await sealed(at("/echo"), {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ long }),
    });
    expect((await written.json()).body.long.length).toBe(150_000);
  });

  it.each([201, 204, 404, 422, 503])("keeps a handler's status %s on wire 3", async (status) => {
    const response = await client(urls[kind]).fetch(at(`/status/${status}`), { method: "POST" });
    expect(response.status).toBe(status);
    expect(await response.text()).toBe(status === 204 ? "" : "text");
  });

  it("answers wires 1 and 2 with the statuses that they have", async () => {
    const { fetch: sealed } = client(urls[kind], 2);
    expect((await sealed(at("/status/201"), { method: "POST" })).status).toBe(200);
    expect((await sealed(at("/status/404"), { method: "POST" })).status).toBe(404);
    await expect(sealed(at("/status/422"), { method: "POST" })).rejects.toMatchObject({ status: 400 });
  });

  it("passes a plain request on an optional route without identity headers, and rejects it elsewhere", async () => {
    const claimed = { "X-Sealway-Client-Id": "impostor", "Content-Type": "application/json" };
    const plain = await routed(at("/both"), { method: "POST", headers: claimed, body: "{}" });
    expect(await plain.json()).toMatchObject({ wire: null, client: null });
    const refused = await routed(at("/echo"), { method: "POST", headers: claimed, body: "{}" });
    expect([refused.status, await refused.json()]).toEqual([400, { error: "CRYPTO_ERROR" }]);
    const other = await routed(at("/echo"));
    expect([other.status, await other.json()]).toEqual([405, { error: "METHOD_NOT_ALLOWED" }]);
    const asked = await routed(at("/echo"), { method: "OPTIONS" });
    expect([asked.status, asked.headers.get("allow"), await asked.text()]).toEqual([
      204,
      "POST, OPTIONS",
      "",
    ]);
  });

  it("serves no request twice, and no changed one", async () => {
    const sent: [string, RequestInit][] = [];
    const spy: typeof fetch = (input, init) => {
      if (!String(input).startsWith(sealway.url)) sent.push([String(input), init ?? {}]);
      return routed(input, init);
    };
    const { fetch: sealed } = client(urls[kind], 3, spy);
    const init = { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" };
    await (await sealed(at("/echo"), init)).text();
    const [url, message] = sent[0] ?? ["", {}];
    const { signal: _, ...again } = message;
    const replayed = await routed(url, again);
    expect([replayed.status, (await replayed.json()).code]).toEqual([409, "replayed"]);
    const moved = await routed(at("/status/200"), again);
    expect([moved.status, (await moved.json()).code]).toEqual([400, "unsealable"]);
    const body = Uint8Array.from(again.body as Uint8Array);
    body[body.length - 1] = (body.at(-1) ?? 0) ^ 1;
    const changed = await routed(url, { ...again, body });
    expect([changed.status, (await changed.json()).code]).toEqual([400, "unsealable"]);
    const cut = await routed(url, { ...again, body: body.slice(0, -20) });
    expect([cut.status, (await cut.json()).code]).toEqual([400, "unsealable"]);
    const large = await routed(url, { ...again, body: new Uint8Array(300_000) });
    expect([413, 400]).toContain(large.status);
    expect(refusals).toEqual(expect.arrayContaining(["replayed", "unsealable", "stream_truncated"]));
  });
});
