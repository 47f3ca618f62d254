/** Errors of a client name the origin and a remedy. */
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

/** Returns the line of a call that fails, after checking that it names the origin and nothing behind it. */
async function told(url: string, more: Partial<ClientOptions> = {}): Promise<string> {
  const client = createClient({ url, trust: { pins: [PIN] }, authorization: () => "Bearer hidden", ...more });
  const error = await client.fetch("/echo?token=hidden").catch((caught) => caught);
  expect(error).toBeInstanceOf(SealwayError);
  expect(error.origin).toBe(url);
  const text = explain(error);
  expect(text).toContain(new URL(url).host);
  expect(text).not.toContain("hidden");
  return text;
}

it("nobody listens", async () => {
  const server = createServer();
  const url = await listen(server);
  await new Promise((resolve) => server.close(resolve));
  expect(await told(url)).toContain("nothing listens there: see whether the service runs");
});

it("a service says nothing", async () => {
  const server = createServer((socket) => closing.push(() => socket.destroy()));
  const text = await told(await listen(server), { timeoutMs: 300 });
  expect(text).toMatch(/no answer from .* in 300 ms; .*see `timeoutMs`/);
});

it("TLS fails", async () => {
  const url = await listen(createHttp((_, response) => response.end()));
  expect(await told(url.replace("http:", "https:"))).toContain("TLS failed: see whether the certificate");
});

it("a name is nobody's", async () => {
  expect(await told("http://shop.invalid")).toContain("the host's name is not known");
});

it("a captive portal answers", async () => {
  const url = await listen(
    createHttp((_, response) => response.writeHead(200, { "Content-Type": "text/html" }).end("<html>")),
  );
  expect(await told(url)).toContain("sign in to the network");
});

it("a key is not the pinned one: another service, or an impostor", async () => {
  const sealway = await startSealway();
  closing.push(() => sealway.stop());
  expect(await told(sealway.url)).toContain("another service, or an impostor");
});

it.each([
  [400, "clock_skew", "set both by NTP"],
  [401, "unauthenticated", "give a valid token"],
  [403, "policy", "or ask its operator"],
  [403, "wire_disabled", "see `wire`"],
  [503, "store_unavailable", "try again later"],
])("a session is refused: %s %s", async (status, code, remedy) => {
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

it("what is not ours has no remedy, and is told as it is", () => {
  expect(remedyOf(new Error("x"))).toBeUndefined();
  expect(remedyOf(new SealwayError("constructor", "x"))).toBeUndefined();
  expect([explain(new Error("x")), explain("y")]).toEqual(["x", "y"]);
});
