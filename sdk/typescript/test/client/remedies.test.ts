/** Errors of a client name the host and a remedy. */
import { createServer as createHttp } from "node:http";
import { type AddressInfo, createServer, type Server } from "node:net";
import { afterEach, expect, it } from "vitest";
import { explain, remedyOf } from "../../src/errors/index.js";
import { type ClientOptions, createClient, SealwayError } from "../../src/index.js";
import { startSealway } from "../sealway.js";

const PIN = "00".repeat(16);
let closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.reverse()) await close();
  closing = [];
});

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Returns the line of a call that fails, after checking that it names the host and nothing behind it. */
async function told(url: string, more: Partial<ClientOptions> = {}): Promise<string> {
  const client = createClient({ url, trust: { pins: [PIN] }, authorization: () => "Bearer hidden", ...more });
  const error = await client.fetch("/echo?token=hidden").catch((caught) => caught);
  expect(error).toBeInstanceOf(SealwayError);
  expect(error).toMatchObject({ stage: "agreement", host: new URL(url).host });
  const text = explain(error);
  expect(text).toContain(new URL(url).host);
  expect(text).not.toContain("hidden");
  return text;
}

it("nothing listens", async () => {
  const server = createServer();
  const url = await listen(server);
  await new Promise((resolve) => server.close(resolve));
  expect(await told(url)).toContain("unreachable: ECONNREFUSED; Check the URL");
});

it("a service is silent", async () => {
  const server = createServer((socket) => closing.push(() => socket.destroy()));
  const text = await told(await listen(server), { headTimeoutMs: 300 });
  expect(text).toMatch(/no answer from .* in time; .*\(option `headTimeoutMs, /);
});

it("TLS fails", async () => {
  const url = await listen(createHttp((_, response) => response.end()));
  expect(await told(url.replace("http:", "https:"))).toMatch(/unreachable: ERR_SSL.*TLS certificate/);
});

it("a host name is unknown", async () => {
  expect(await told("http://shop.invalid")).toContain("unreachable: ENOTFOUND");
});

it("a captive portal answers", async () => {
  const url = await listen(
    createHttp((_, response) => response.writeHead(200, { "Content-Type": "text/html" }).end("<html>")),
  );
  expect(await told(url)).toContain("captive portal, or another service?; Look at status and body");
});

it("a key is not the pinned one", async () => {
  const sealway = await startSealway();
  closing.push(() => sealway.stop());
  expect(await told(sealway.url)).toContain("no pinned identity key is live");
});

it.each([
  [400, "clock_skew", "Synchronise the clocks"],
  [401, "unauthenticated", "(option `authorization`)"],
  [403, "policy", "Ask the operator"],
  [403, "wire_disabled", "(option `wire`)"],
  [503, "store_unavailable", "Wait as long as Retry-After says"],
])("a session is rejected: %s %s", async (status, code, remedy) => {
  const body = JSON.stringify({ type: `urn:sealway:problem:${code}`, status, code });
  const url = await listen(
    createHttp((_, response) =>
      response.writeHead(status, { "Content-Type": "application/problem+json" }).end(body),
    ),
  );
  const text = await told(url);
  expect(text).toContain(`refused: ${status} ${code}`);
  expect(text).toContain(remedy);
});

it("a foreign error has no remedy, and its message stays", () => {
  expect(remedyOf(new Error("x"))).toBe("");
  expect(remedyOf(new SealwayError("constructor", "x"))).toBe("");
  expect([explain(new Error("x")), explain("y")]).toEqual(["x", "y"]);
});
