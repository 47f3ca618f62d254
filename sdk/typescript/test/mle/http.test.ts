/** Middleware and client over HTTP on this machine. */
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { gzipSync } from "node:zlib";
import express from "express";
import fastify from "fastify";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type MleClientOptions,
  MleCodec,
  type MleReport,
  type MleServerOptions,
  mleExpress,
  mleFastify,
  mleFetch,
  mleHandler,
  OpeningKey,
  SealingKey,
} from "../../src/mle/index.js";
import { MemoryStore, sealedExpress } from "../../src/server/index.js";
import { forge, makePair } from "./forge.js";

const [shop, client] = [makePair("/CN=shop"), makePair("/CN=client")];
const kidFrom = "spki_sha256_hex";
const shopKey = new OpeningKey({ privateKey: shop.privateKey, kidFrom });
const toShop = new SealingKey({ publicKey: shop.certificate, kidFrom });
const toClient = new SealingKey({ publicKey: client.certificate, kidFrom });
const clientKey = new OpeningKey({ privateKey: client.privateKey, kidFrom });
const reports: MleReport[] = [];
const closing: (() => unknown)[] = [];
afterAll(async () => {
  for (const close of closing) await close();
});

const server = (more: Partial<MleServerOptions> = {}): MleServerOptions => ({
  profile: "mastercard-jwe",
  open: [shopKey],
  seal: toClient,
  store: new MemoryStore(),
  bodyMaxBytes: 100_000,
  bodyTimeoutMs: 500,
  onRefusal: (report) => reports.push(report),
  ...more,
});

const caller = (more: Partial<MleClientOptions> = {}) =>
  mleFetch({ profile: "mastercard-jwe", seal: toShop, open: [clientKey], ...more });

async function listen(listener: RequestListener): Promise<string> {
  const made = createServer(listener);
  await new Promise<void>((resolve) => made.listen(0, "127.0.0.1", resolve));
  closing.push(() => made.close());
  return `http://127.0.0.1:${(made.address() as AddressInfo).port}`;
}

/** A server that echoes what its handler got, in each of the idioms. */
const KINDS: Record<string, (options: MleServerOptions) => Promise<string>> = {
  express: async (options) => {
    const app = express();
    app.use("/pay", mleExpress(options));
    app.all(["/pay", "/open"], (request, response) => {
      response.set({ ETag: '"1"', "X-Own": "yes" }).status(Number(request.query["status"] ?? 200));
      if (request.query["bare"] !== undefined) response.end();
      else
        response.json({
          body: request.body,
          wire: request.get("x-sealway-wire") ?? null,
          of: request.method,
        });
    });
    return listen(app);
  },
  fastify: async (options) => {
    const app = fastify();
    app.register(mleFastify, { ...options, routes: options.routes ?? [{ path: "/open", mode: "off" }] });
    for (const url of ["/pay", "/open"])
      app.route({
        url,
        method: ["GET", "POST", "DELETE"],
        handler: async (request, reply) => {
          const { status = "200", bare } = request.query as Record<string, string>;
          reply.headers({ ETag: '"1"', "X-Own": "yes" }).code(Number(status));
          const { "x-sealway-wire": wire = null } = request.headers;
          return bare !== undefined ? "" : { body: request.body, wire, of: request.method };
        },
      });
    closing.push(() => app.close());
    return app.listen({ port: 0, host: "127.0.0.1" });
  },
  fetch: async (options) => {
    const routes = options.routes ?? [{ path: "/open", mode: "off" as const }];
    const handle = mleHandler({ ...options, routes }, async (request) => {
      const { searchParams } = new URL(request.url);
      const text = await request.text();
      const wire = request.headers.get("x-sealway-wire");
      const answer = { body: text === "" ? undefined : JSON.parse(text), wire, of: request.method };
      const init = {
        status: Number(searchParams.get("status") ?? 200),
        headers: { ETag: '"1"', "X-Own": "yes" },
      };
      return searchParams.has("bare") ? new Response(null, init) : Response.json(answer, init);
    });
    return listen(async (request, response) => {
      const { method = "GET", headers, url } = request;
      const init: RequestInit = { method, headers: headers as Record<string, string> };
      if (method !== "GET") Object.assign(init, { body: request, duplex: "half" });
      const answer = await handle(new Request(`http://shop.test${url}`, init));
      response.writeHead(answer.status, Object.fromEntries(answer.headers));
      response.end(Buffer.from(await answer.arrayBuffer()));
    });
  },
};

const post = (body: unknown): RequestInit => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
});
const CRYPTO_ERROR = '{"error":"CRYPTO_ERROR"}';

describe.each(Object.keys(KINDS))("with %s", (kind) => {
  let url = "";
  beforeAll(async () => {
    url = (await KINDS[kind]?.(server())) ?? "";
  });

  it("the handler gets the plaintext, and its answer is sealed", async () => {
    const seen: [string, string][] = [];
    const spy: typeof fetch = async (input, init) => {
      const answer = await fetch(input, init);
      const text = await answer.clone().text();
      seen.push([Buffer.from(init?.body as Uint8Array).toString(), text]);
      expect(answer.headers.get("etag")).toBe(null);
      return answer;
    };
    const call = caller({ fetch: spy });
    const answer = await call(`${url}/pay?status=201`, post({ pan: "4111", amount: 12.5 }));
    expect([answer.status, answer.headers.get("x-own"), answer.url]).toEqual([
      201,
      "yes",
      `${url}/pay?status=201`,
    ]);
    expect(await answer.json()).toEqual({
      body: { pan: "4111", amount: 12.5 },
      wire: "mle:mastercard-jwe",
      of: "POST",
    });
    for (const [sent, received] of seen) {
      expect(sent).toMatch(/^\{"encryptedData":"[\w.-]+"\}$/);
      expect(received).toMatch(/^\{"encryptedData":"[\w.-]+"\}$/);
    }
    expect(seen.length).toBe(1);
  });

  it("a request without a body gets a sealed answer, and an empty answer stays empty", async () => {
    const call = caller();
    const answer = await call(`${url}/pay`);
    expect(await answer.json()).toEqual({ wire: null, of: "GET" });
    const bare = await call(`${url}/pay?bare&status=204`, post({}));
    expect([bare.status, await bare.text()]).toEqual([204, ""]);
  });

  it("errors are sealed too", async () => {
    const answer = await caller()(`${url}/pay?status=422`, post({ a: 1 }));
    expect([answer.status, (await answer.json()).body]).toEqual([422, { a: 1 }]);
  });

  it("every wrong token gets one answer, byte for byte, and the hook its class", async () => {
    const token = forge(shop.publicKey, toShop.kid);
    const good = JSON.stringify({ encryptedData: token });
    expect((await fetch(`${url}/pay`, { ...post({}), body: good })).status).toBe(200);
    const wrong: [string, string, Record<string, string>?][] = [
      ["replayed", good],
      ["json", '{"pan":"4111"}'],
      ["json", `{"encryptedData":"${token}","pan":"4111"}`],
      ["json", ""],
      ["shape", '{"encryptedData":"a.b.c"}'],
      ["kid", JSON.stringify({ encryptedData: forge(shop.publicKey, "stranger") })],
      ["kid", JSON.stringify({ encryptedData: forge(shop.publicKey, toShop.kid) }), { keyId: "other" }],
      ["unwrap", JSON.stringify({ encryptedData: forge(client.publicKey, toShop.kid) })],
      ["tag", JSON.stringify({ encryptedData: forge(shop.publicKey, toShop.kid, { aad: "x" }) })],
      ["json", gzipSync(good).toString("latin1"), { "Content-Encoding": "gzip" }],
      [
        "json",
        JSON.stringify({ encryptedData: forge(shop.publicKey, toShop.kid) }),
        { "Content-Encoding": "br" },
      ],
    ];
    const answers = new Set<string>();
    for (const [wanted, body, headers] of wrong) {
      reports.length = 0;
      const init = { ...post({}), body: Buffer.from(body, "latin1") };
      const answer = await fetch(`${url}/pay`, { ...init, headers: { ...init.headers, ...headers } });
      const fixed = [...answer.headers].filter(
        ([name]) => !["date", "keep-alive", "connection"].includes(name),
      );
      answers.add(JSON.stringify([answer.status, await answer.text(), fixed.sort()]));
      expect(reports).toEqual([{ code: wanted, detail: expect.any(String), status: 400, path: "/pay" }]);
    }
    expect([...answers].length, [...answers].join("\n")).toBe(1);
    expect([...answers][0]).toContain(JSON.stringify(CRYPTO_ERROR));
  });

  it("a body over its bound gets 413 as it arrives", async () => {
    reports.length = 0;
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(10_000)),
    });
    const answer = await fetch(`${url}/pay`, { method: "POST", body, duplex: "half" } as RequestInit).catch(
      () => undefined,
    );
    // A client that still sends may see the end of the connection before the answer.
    if (answer !== undefined) expect(answer.status).toBe(413);
    expect(reports[0]).toMatchObject({ code: "body_too_large", status: 413 });
  });

  it("a path with the mode off passes in clear, without a header that only the middleware writes", async () => {
    const init = post({ a: 1 });
    const headers = { ...init.headers, "X-Sealway-Wire": "mle:visa" };
    const answer = await fetch(`${url}/open`, { ...init, headers });
    const passes = kind === "express" ? { wire: "mle:visa" } : { body: { a: 1 }, wire: null };
    expect(await answer.json()).toMatchObject(passes);
  });
});

describe("the middleware", () => {
  it.each(Object.keys(KINDS))(
    "passes requests in clear on an optional route of %s, and opens tokens",
    async (kind) => {
      const url = await KINDS[kind]?.(server({ routes: [{ path: "/pay", mode: "optional" }] }));
      const plain = await (await fetch(`${url}/pay`, { ...post({ a: 1 }) })).json();
      expect(plain).toEqual({ body: { a: 1 }, wire: null, of: "POST" });
      const opened = await (await caller()(`${url}/pay`, post({ a: 1 }))).json();
      expect(opened.wire).toBe("mle:mastercard-jwe");
    },
  );

  it("leaves errors in clear by its option, and the client passes them where that is allowed", async () => {
    const url = await KINDS["express"]?.(server({ plainAnswers: "errors" }));
    const strict = caller()(`${url}/pay?status=409`, post({ a: 1 }));
    await expect(strict).rejects.toMatchObject({ class: "json", status: 409, host: new URL(url ?? "").host });
    const loose = caller({ plainAnswers: "errors" });
    expect((await (await loose(`${url}/pay?status=409`, post({ a: 1 }))).json()).body).toEqual({ a: 1 });
    expect((await loose(`${url}/pay`, post({ a: 1 }))).status).toBe(200);
  });

  it("serves nothing while its store is away, and refuses what a full one refuses", async () => {
    const away = { claim: async () => Promise.reject(new Error("away")) };
    const answers: unknown[] = [];
    for (const store of [
      away,
      { claim: async () => "full" as const },
      { claim: async () => "outside_window" as const },
    ]) {
      const url = await KINDS["express"]?.(server({ store }));
      const token = forge(shop.publicKey, toShop.kid);
      const answer = await fetch(`${url}/pay`, {
        ...post({}),
        body: JSON.stringify({ encryptedData: token }),
      });
      answers.push([answer.status, await answer.text(), reports.at(-1)?.code]);
    }
    expect(answers).toEqual([
      [503, '{"error":"SERVICE_UNAVAILABLE"}', "store_unavailable"],
      [400, CRYPTO_ERROR, "nonces_full"],
      [400, CRYPTO_ERROR, "iat"],
    ]);
  });

  it("seals no answer over its bound, and none that is compressed", async () => {
    const app = express();
    app.use(mleExpress(server({ answerMaxBytes: 1000 })));
    app.post("/long", (_, response) => void response.send("x".repeat(1001)));
    app.post("/coded", (_, response) => void response.set("Content-Encoding", "gzip").end(gzipSync("{}")));
    const url = await listen(app);
    for (const path of ["/long", "/coded"]) {
      reports.length = 0;
      const token = forge(shop.publicKey, toShop.kid);
      const answer = await fetch(url + path, { ...post({}), body: JSON.stringify({ encryptedData: token }) });
      expect([answer.status, await answer.text()]).toEqual([502, '{"error":"SERVICE_UNAVAILABLE"}']);
      expect(reports[0]).toMatchObject({ code: "upstream_unreachable", status: 502 });
    }
  });

  it("ends a body that does not come", async () => {
    reports.length = 0;
    const url = new URL((await KINDS["express"]?.(server())) ?? "");
    const socket = connect(Number(url.port), url.hostname);
    socket.write("POST /pay HTTP/1.1\r\nHost: shop\r\nContent-Length: 100\r\n\r\n{");
    const said = await new Promise<string>((resolve) =>
      socket.once("data", (data) => resolve(data.toString())),
    );
    socket.destroy();
    expect(said).toMatch(/^HTTP\/1\.1 400 /);
    expect(reports[0]?.code).toBe("stream_truncated");
  });

  it("another spelling of its path leads nowhere", async () => {
    const url = await KINDS["fastify"]?.(
      server({
        routes: [
          { path: "/pay", mode: "required" },
          { path: "/*", mode: "off" },
        ],
      }),
    );
    for (const path of ["/Pay", "/%70ay", "/open/..;/pay"]) {
      const answer = await fetch(url + path, post({ a: 1 }));
      expect([answer.status, await answer.text()], path).toEqual([400, CRYPTO_ERROR]);
    }
    expect((await fetch(`${url}/open`, post({ a: 1 }))).status).toBe(200);
  });

  it("stands in one application beside sealed sessions", async () => {
    const app = express();
    app.use(
      mleExpress(
        server({
          routes: [
            { path: "/pay", mode: "required" },
            { path: "/*", mode: "off" },
          ],
        }),
      ),
    );
    app.use(sealedExpress({ store: new MemoryStore(), routes: [{ path: "/pay", mode: "off" }] }));
    app.post("/pay", (request, response) => void response.json({ wire: request.get("x-sealway-wire") }));
    const url = await listen(app);
    expect(await (await caller()(`${url}/pay`, post({}))).json()).toEqual({ wire: "mle:mastercard-jwe" });
    expect((await fetch(`${url}/other`, post({}))).status).toBe(400);
  });

  it.each([
    [{ seal: undefined }, "seal"],
    [{ open: [] }, "open"],
    [{ plainAnswers: "all" }, "plainAnswers"],
    [
      { profile: "visa", seal: new SealingKey({ publicKey: client.publicKey, kid: "k", enc: "A192GCM" }) },
      "A192GCM",
    ],
    [{ routes: [{ path: "pay", mode: "required" }] }, "path"],
    [{ bodyMaxBytes: -1 }, "bodyMaxBytes"],
  ] as const)("names a wrong option: %#", (more, named) => {
    expect(() => mleExpress({ ...server(), ...more } as MleServerOptions)).toThrow(named);
  });
});

describe("the client", () => {
  const answering = (body: string | Buffer, status = 200, headers = {}) =>
    listen((request, response) => {
      request.resume();
      response.writeHead(status, headers).end(body);
    });

  it.each<[string, string, number, string]>([
    ["an answer in clear", '{"ok":true}', 200, "json"],
    ["an error in clear", '{"error":1}', 500, "json"],
    ["a page", "<html>Welcome to the hotel", 200, "json"],
    ["a token to another key", JSON.stringify({ encryptedData: forge(shop.publicKey, "x") }), 200, "kid"],
    [
      "a token that was changed",
      JSON.stringify({ encryptedData: forge(client.publicKey, clientKey.kid, { aad: "x" }) }),
      200,
      "tag",
    ],
  ])("rejects %s", async (_, body, status, wanted) => {
    const url = await answering(body, status);
    const error = await caller()(url, post({})).catch((caught) => caught);
    expect(error).toMatchObject({
      code: "unsealable",
      class: wanted,
      status,
      stage: "call",
      retryable: false,
    });
    expect(error.message).not.toContain("4111");
  });

  it("does not take a success in clear where errors in clear pass", async () => {
    const loose = caller({ plainAnswers: "errors" });
    await expect(loose(await answering('{"ok":true}'), post({}))).rejects.toMatchObject({ class: "json" });
    const token = JSON.stringify({ encryptedData: forge(client.publicKey, clientKey.kid, { aad: "x" }) });
    await expect(loose(await answering(token, 400), post({}))).rejects.toMatchObject({ class: "tag" });
    expect(await (await loose(await answering("down", 503), post({}))).text()).toBe("down");
  });

  it("asks for no compression, sends no digest of the plaintext, and follows no redirect", async () => {
    let seen: unknown[] = [];
    const url = await listen((request, response) => {
      request.resume();
      const { "accept-encoding": coding, digest, etag, range, "x-own": own } = request.headers;
      seen = [coding, digest, etag, range, own];
      response.writeHead(307, { Location: "/other" }).end();
    });
    const headers = { Digest: "sha-256=x", ETag: '"1"', Range: "bytes=0-1", "X-Own": "yes" };
    await expect(caller()(url, { ...post({}), headers })).rejects.toMatchObject({ code: "redirected" });
    expect(seen).toEqual(["identity", undefined, undefined, undefined, "yes"]);
  });

  it("has bounds of length and time, and typed errors for the network", async () => {
    const long = await answering(Buffer.alloc(2000, 97));
    await expect(caller({ answerMaxBytes: 1999 })(long, post({}))).rejects.toMatchObject({
      code: "body_too_large",
    });
    const silent = await listen((request) => void request.resume());
    await expect(caller({ totalTimeoutMs: 50 })(silent, post({}))).rejects.toMatchObject({ code: "timeout" });
    const port = await new Promise<number>((resolve) => {
      const free = createServer().listen(0, "127.0.0.1", () => {
        const { port } = free.address() as AddressInfo;
        free.close(() => resolve(port));
      });
    });
    const gone = await caller()(`http://127.0.0.1:${port}/`, post({})).catch((caught) => caught);
    expect(gone).toMatchObject({ name: "SealwayError", code: "unreachable" });
    const controller = new AbortController();
    controller.abort(new Error("mine"));
    await expect(caller()(silent, { ...post({}), signal: controller.signal })).rejects.toThrow("mine");
  });

  it("opens answers of visa without a time, and rejects one that is old", async () => {
    const seal = new SealingKey({ publicKey: client.publicKey, kidFrom });
    const visa = new MleCodec({ profile: "visa", seal, now: () => Date.now() - 400_000 });
    const old = Buffer.from(await visa.seal("answer", Buffer.from("{}")));
    const timeless = JSON.stringify({ encData: forge(client.publicKey, clientKey.kid) });
    const call = caller({ profile: "visa" });
    await expect(call(await answering(old), post({}))).rejects.toMatchObject({ class: "iat" });
    expect(await (await call(await answering(timeless), post({}))).text()).toBe('{"pan":"4111"}');
  });
});
