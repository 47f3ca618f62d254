/** The caller and the body of a sealed request, as its handler receives them. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import fastify from "fastify";
import { afterAll, describe, expect, it } from "vitest";
import { handlerHeaders } from "../../src/server/headers.js";
import { Gate, MemoryStore, sealedExpress, sealedFastify, sealedFetch } from "../../src/server/index.js";
import { ID, incoming, sealing1, sealingNative, stored } from "./sealing.js";

const closing: (() => unknown)[] = [];
afterAll(async () => {
  for (const close of closing) await close();
});

it.each([
  ["alice", "alice"],
  ["Zoë", "Zo%C3%AB"],
  ["Zo%C3%AB", "Zo%25C3%25AB"],
  ["a b", "a b"],
  [" a b ", "%20a b%20"],
  ["  ", "%20%20"],
  [" ", "%20"],
  ["\t~\x7f\n", "%09~%7F%0A"],
  ["日本😀", "%E6%97%A5%E6%9C%AC%F0%9F%98%80"],
])("identity headers never encode two texts alike: %j", (text, wanted) => {
  const session = { ...stored(3, 0), clientId: text, subject: text, tenant: text, auth: "bearer" };
  const { id: sessionId, ...caller } = session;
  expect(handlerHeaders([], [], { ...caller, sessionId }, false)).toEqual([
    ["x-sealway-auth", "bearer"],
    ["x-sealway-client-id", wanted],
    ["x-sealway-subject", wanted],
    ["x-sealway-tenant", wanted],
  ]);
});

it.each([
  ["twice", "application/octet-stream"],
  ["twice, with another value", "text/plain"],
])("a content type outside the seal does not reach the handler %s", async (_, more) => {
  const store = new MemoryStore();
  store.put(stored(3, Date.now() + 600_000));
  const codes: string[] = [];
  const gate = new Gate({ store, onRefusal: ({ code }) => codes.push(code) });
  const { headers, frames } = await sealingNative(Date.now());
  const opened = await gate.open(incoming({ headers: [...headers, ["content-type", more]], frames }));
  expect([opened.kind, ...codes]).toEqual(["refused", "header_invalid"]);
});

describe("an empty message of wire 1", () => {
  const store = new MemoryStore();
  store.put(stored(1, Date.now() + 600_000));
  const seen: unknown[] = [];
  const asked = async (send: (request: Request) => Response | Promise<Response>, url: string) => {
    const { headers, frames } = await sealing1(ID, Date.now(), "/order", 0);
    const body = frames[0] as BodyInit;
    return (await send(new Request(`${url}/order`, { method: "POST", headers, body }))).status;
  };

  it("is JSON to a handler of Express", async () => {
    const app = express();
    app.use(sealedExpress({ store }), express.json());
    app.all("/order", (request, response) => {
      seen.push(request.headers["content-type"], request.body);
      response.send("bought");
    });
    const server = createServer(app);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closing.push(() => server.close());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect([await asked(fetch, url), ...seen.splice(0)]).toEqual([200, "application/json", undefined]);
  });

  it("is JSON to a handler of Fastify, which parses nothing", async () => {
    const app = fastify();
    app.register(sealedFastify, { store });
    app.all("/order", async (request) => {
      seen.push(request.headers["content-type"], request.body);
      return "bought";
    });
    closing.push(() => app.close());
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    expect([await asked(fetch, url), ...seen.splice(0)]).toEqual([200, "application/json", undefined]);
  });

  it("is JSON to a handler of requests and answers", async () => {
    const handle = sealedFetch({ store }, async (request) => {
      seen.push(request.headers.get("content-type"), await request.text());
      return new Response("bought");
    });
    expect([await asked(handle, "http://a"), ...seen.splice(0)]).toEqual([200, "application/json", ""]);
  });
});
