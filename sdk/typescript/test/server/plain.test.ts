/** Headers of plain requests, as handlers see them. */
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import express from "express";
import fastify from "fastify";
import { afterEach, describe, expect, it } from "vitest";
import {
  MemoryStore,
  type ServerOptions,
  sealedExpress,
  sealedFastify,
  sealedFetch,
} from "../../src/server/index.js";

/** One of each kind of `stripped_headers`, in its own spelling. */
const ORIGIN = [
  "Forwarded",
  "X-Forwarded-For",
  "X-Real-IP",
  "X-Client-IP",
  "X-Cluster-Client-IP",
  "True-Client-IP",
  "CF-Connecting-IP",
  "Fastly-Client-IP",
  "Client-Cert",
  "Client-Cert-Chain",
  "X-Client-Cert",
  "X-Client-Cert-Subject",
  "X-SSL-Client-Verify",
  "SSL-Client-Cert",
  "X-Amzn-Mtls-Clientcert",
  "X-ARR-ClientCert",
];
/** Spellings that a reader of variables takes for the same, and no proxy in front removes. */
const DISGUISED = ["X_Forwarded_For", "X-Real_IP"];
const CLAIMED = ["X-Sealway-Client-Id", "X_Sealway_Subject"];
const KEPT = ["Via", "X-Own", "Authorization"];
const SENT = [...ORIGIN, ...DISGUISED, ...CLAIMED, ...KEPT];

let closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing) await close();
  closing = [];
});

const lower = (names: string[]) => names.map((name) => name.toLowerCase()).sort();
const own = (names: Iterable<string>) => {
  const sent = new Set(lower(SENT));
  return lower([...names].filter((name) => sent.has(name.toLowerCase())));
};

/** The names that a handler sees on a path, by `headers` and by `rawHeaders` where there are any. */
type Ask = (path: string) => Promise<string[][]>;

async function overSocket(port: number, path: string): Promise<string[][]> {
  const head = SENT.map((name) => `${name}: 203.0.113.9`).join("\r\n");
  const text = await new Promise<string>((resolve, reject) => {
    let answer = "";
    const socket = connect(port, "127.0.0.1", () => {
      socket.write(`GET ${path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n${head}\r\n\r\n`);
    });
    socket.on("data", (data) => {
      answer += data.toString("latin1");
    });
    socket.on("close", () => resolve(answer));
    socket.on("error", reject);
  });
  return JSON.parse(/^\[.*\]$/m.exec(text)?.[0] ?? "null");
}

async function asking(kind: string, options: ServerOptions): Promise<Ask> {
  if (kind === "express") {
    const app = express();
    app.use(sealedExpress(options));
    app.all("/{*path}", ({ headers, rawHeaders, headersDistinct }, response) => {
      const raw = rawHeaders.filter((_, at) => at % 2 === 0);
      response.json([own(Object.keys(headers)), own(raw), own(Object.keys(headersDistinct))]);
    });
    const server = createServer(app);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closing.push(() => server.close());
    return (path) => overSocket((server.address() as AddressInfo).port, path);
  }
  if (kind === "fastify") {
    const app = fastify();
    app.register(sealedFastify, options);
    app.all("/*", async ({ headers, raw }) => {
      return [own(Object.keys(headers)), own(raw.rawHeaders.filter((_, at) => at % 2 === 0))];
    });
    closing.push(() => app.close());
    const port = Number(new URL(await app.listen({ port: 0, host: "127.0.0.1" })).port);
    return (path) => overSocket(port, path);
  }
  const handle = sealedFetch(options, ({ headers }) => Response.json([own(headers.keys())]));
  const headers = SENT.map((name): [string, string] => [name, "203.0.113.9"]);
  return async (path) => (await handle(new Request(`http://a.test${path}`, { headers }))).json();
}

describe.each(["express", "fastify", "fetch"])("on plain routes, %s", (kind) => {
  const routes = [
    { path: "/off", mode: "off" },
    { path: "/both", mode: "optional" },
  ] as const;

  it.each(["/off", "/both"])("removes the origin header %s", async (path) => {
    const ask = await asking(kind, { store: new MemoryStore(), routes });
    for (const seen of await ask(path)) expect(seen).toEqual(lower(KEPT));
  });

  it.each(["/off", "/both"])("passes it in its own spelling from a trusted proxy: %s", async (path) => {
    const ask = await asking(kind, { store: new MemoryStore(), routes, trustForwarded: true });
    for (const seen of await ask(path)) expect(seen).toEqual(lower([...ORIGIN, ...KEPT]));
  });
});
