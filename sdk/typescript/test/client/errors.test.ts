/** Stage, code, host and retryable of a client's errors, and the timeouts that lead to them. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ClientOptions, createClient } from "../../src/index.js";
import { utf8 } from "../../src/wire/bytes.js";
import { problem, Service } from "./service.js";

let service: Service;
let host = "";
beforeEach(async () => {
  service = await Service.start();
  host = new URL(service.url).host;
});
afterEach(() => service.stop());

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const never = () => new Promise<never>(() => undefined);
const POST = { method: "POST", body: "{}" };

function client(more: Partial<ClientOptions> = {}) {
  const { url, identity } = service;
  return createClient({ url, trust: { pins: [identity.id] }, suites: ["P256"], ...more });
}

/** Answers with a part every 40 ms, without an end. */
function endless() {
  service.serve = () => ({
    status: 200,
    body: (async function* () {
      for (;;) {
        yield utf8("x");
        await sleep(40);
      }
    })(),
  });
}

describe("the whole call", () => {
  it("ends at its total timeout in the middle of a stream", async () => {
    endless();
    const made = client({ totalTimeoutMs: 1500 });
    await made.connect();
    const begin = performance.now();
    const answer = await made.fetch("/stream");
    const expected = { stage: "call", code: "timeout", host, retryable: false };
    await expect(answer.text()).rejects.toMatchObject(expected);
    const took = performance.now() - begin;
    expect(took).toBeGreaterThan(1400);
    expect(took).toBeLessThan(5000);
  });

  it("is not bounded if its timeout is switched off", async () => {
    endless();
    const made = client({ totalTimeoutMs: 0, headTimeoutMs: 300, idleTimeoutMs: 300 });
    const reader = (await made.fetch("/stream")).body?.getReader();
    const begin = performance.now();
    while (performance.now() - begin < 1000) expect((await reader?.read())?.done).toBe(false);
    await reader?.cancel();
  });

  it("includes the agreement, in which nothing was sent", async () => {
    service.before = (request) => (request.url === "/v3/sessions" ? never() : undefined);
    const made = client({ totalTimeoutMs: 300 });
    const expected = { stage: "agreement", code: "timeout", host, retryable: true };
    await expect(made.fetch("/order", POST)).rejects.toMatchObject(expected);
    await expect(made.connect()).rejects.toMatchObject(expected);
    expect(service.count(/order/)).toBe(0);
  });

  it("includes a source of its body that makes the service wait", async () => {
    service.serve = async (call) => {
      for await (const _ of call.body ?? []);
      return { status: 200, body: undefined };
    };
    const body = new ReadableStream<Uint8Array>({ pull: never });
    const call = client({ totalTimeoutMs: 300 }).fetch("/order", { method: "POST", body });
    await expect(call).rejects.toMatchObject({ stage: "call", code: "timeout", retryable: false });
  });
});

it("a response that stops between two parts is a timeout", async () => {
  service.serve = () => ({
    status: 200,
    body: (async function* () {
      yield utf8("one");
      await never();
    })(),
  });
  const answer = await client({ idleTimeoutMs: 300 }).fetch("/stream");
  const begin = performance.now();
  await expect(answer.text()).rejects.toMatchObject({ code: "timeout" });
  expect(performance.now() - begin).toBeLessThan(3000);
});

describe("an error of a call", () => {
  it("is not retryable if the outcome is unknown: no answer in time, or a broken connection", async () => {
    const made = client({ headTimeoutMs: 300 });
    await made.connect();
    service.serve = never;
    const late = { stage: "call", code: "timeout", host, retryable: false };
    await expect(made.fetch("/order", POST)).rejects.toMatchObject(late);
    service.serve = (_, request) => {
      request.socket.destroy();
      return never();
    };
    const broken = { stage: "call", code: "network", host, retryable: false };
    await expect(made.fetch("/order", POST)).rejects.toMatchObject(broken);
  });

  it("is retryable without a connection", async () => {
    const closed = createServer();
    await new Promise<void>((resolve) => closed.listen(0, "127.0.0.1", resolve));
    const { port } = closed.address() as AddressInfo;
    await new Promise((resolve) => closed.close(resolve));
    const away = client({ url: `http://127.0.0.1:${port}`, authorityUrl: service.url });
    await expect(away.fetch("/order", POST)).rejects.toMatchObject({
      ...{ stage: "call", code: "unreachable", host: `127.0.0.1:${port}`, retryable: true },
    });
  });

  it("is not retryable for a purchase that an unsealed answer rejected, which anyone on the path can send", async () => {
    const made = client();
    await made.connect();
    for (const code of ["session_expired", "store_unavailable", "rate_limited"]) {
      service.before = (request, response) => {
        if (request.url === "/order") problem(response, 503, { code });
      };
      const expected = { stage: "call", code, host, retryable: false };
      await expect(made.fetch("/order", POST)).rejects.toMatchObject(expected);
    }
  });

  it("is of the configuration if it cannot be sealed, and nothing is sent", async () => {
    const made = client();
    await made.connect();
    const long = { headers: { "x-long": "x".repeat(20_000) }, ...POST };
    for (const [call, code] of [
      [made.fetch("/order", long), "inner_headers_invalid"],
      [made.fetch("/order", { method: "OPTIONS" }), "policy"],
      [made.fetch("/order", { method: "not a method" }), "usage"],
      [made.fetch("https://elsewhere.test/"), "usage"],
    ] as const) {
      const expected = { stage: "configuration", code, host: "", retryable: false };
      await expect(call).rejects.toMatchObject(expected);
    }
    expect(service.count(/order/)).toBe(0);
  });
});

it.each([
  ["store_unavailable", true],
  ["rate_limited", true],
  ["policy", false],
  ["unauthenticated", false],
])("an agreement that is rejected with %s has retryable %s", async (code, retryable) => {
  service.before = (_, response) => problem(response, 503, { code });
  const expected = { stage: "agreement", code, host, retryable };
  await expect(client().fetch("/order", POST)).rejects.toMatchObject(expected);
});

it.each([
  ["/session/init/anon", 1],
  ["/v1/session/init", 2],
] as const)("inits are sent to the path %s", async (initPath, wire) => {
  await expect(client({ wire, initPath }).connect()).rejects.toMatchObject({ stage: "agreement" });
  expect(service.seen).toEqual([`POST ${initPath}`]);
});
