/** Errors for missing options, and for answers of foreign services: a sentence, and no raw stack. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { createClient, type Wire } from "../src/index.js";
import { AuthorityStore, Gate } from "../src/server/index.js";
import { RedisStore } from "../src/server/redis/index.js";

const none = undefined as any;
const store = { store: { claim: () => none } };

it.each([
  ["a client without options", () => createClient(none), "url"],
  ["a client without a url", () => createClient({ trust: { pins: [] } } as never), "url"],
  ["a client without trust", () => createClient({ url: "https://shop.test" } as never), "trust"],
  ["a server without options", () => new Gate(none), "store"],
  ["a server without a store", () => new Gate({} as never), "store"],
  ["a route without a path", () => new Gate({ store: { claim: () => none }, routes: [{}] } as never), "path"],
  [
    "a server with a former option",
    () => new Gate({ ...store, bufferedBytesMax: 1 } as never),
    "bufferedMaxBytes",
  ],
  [
    "a route with its former option",
    () => new Gate({ ...store, routes: [{ path: "/", sealed: "off" }] } as never),
    "mode",
  ],
  ["an authority without a secret", () => new AuthorityStore({ url: "https://a.test" } as never), "secret"],
  ["a store over Redis without a client", () => new RedisStore({ kek: "k" } as never), "redis"],
])("%s names the missing option", (_, make, named) => {
  const error = (() => {
    try {
      return make();
    } catch (caught) {
      return caught as Error;
    }
  })();
  expect(error).toMatchObject({ name: "SealwayError", code: "usage", stage: "configuration" });
  expect((error as Error).message).toContain(named);
});

it.each([3, 2] as Wire[])(
  "a captive portal's page is recognised, with the host, on wire %s",
  async (wire) => {
    const portal = createServer((_, response) => {
      response.writeHead(200, { "Content-Type": "text/html" }).end("<html>Welcome to the hotel");
    });
    await new Promise<void>((resolve) => portal.listen(0, "127.0.0.1", resolve));
    const { port } = portal.address() as AddressInfo;
    const made = createClient({ url: `http://127.0.0.1:${port}`, trust: { pins: ["00".repeat(16)] }, wire });
    const error = await made.connect().catch((caught) => caught);
    portal.close();
    expect(error).toMatchObject({ code: "unsealed", status: 200 });
    expect(error.message).toContain(`127.0.0.1:${port} answered 200, text/html`);
    expect(error.message).toContain("captive portal");
  },
);

it("an unreachable service is named", async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  await new Promise((resolve) => server.close(resolve));
  const made = createClient({ url: `http://${host}`, trust: { pins: ["00".repeat(16)] } });
  await expect(made.connect()).rejects.toMatchObject({
    ...{ stage: "agreement", code: "unreachable", retryable: true, host },
    message: `${host} is unreachable: ECONNREFUSED`,
  });
});
