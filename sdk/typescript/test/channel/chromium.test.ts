import { existsSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { type Browser, chromium } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { attach } from "../../src/channel/index.js";
import { Rpc } from "../../src/rpc/index.js";
import { RelayFixture } from "./relay.js";

const executablePath = process.env.CHROMIUM_BIN ?? "/usr/bin/chromium";
const source = (path: string) => fileURLToPath(new URL(`../../src/${path}`, import.meta.url));
const fixture = new RelayFixture();
vi.setConfig({ testTimeout: 60_000 });
let browser: Browser;
let server: Server;
let origin = "";

beforeAll(async () => {
  if (!existsSync(executablePath))
    throw new Error(`no Chromium at ${executablePath}: install it or set CHROMIUM_BIN`);
  const contents = `export * from ${JSON.stringify(source("channel/index.ts"))}; export * from ${JSON.stringify(source("rpc/index.ts"))};`;
  const bundle = await build({
    stdin: { contents, resolveDir: source("."), loader: "ts" },
    ...{
      bundle: true,
      write: false,
      format: "iife",
      globalName: "sealway",
      platform: "browser",
      minify: true,
    },
  });
  const script = bundle.outputFiles[0]!.text;
  console.log(`channel and rpc in one file for a browser: ${Math.round(script.length / 1024)} KiB`);
  server = createServer((request, response) => {
    const isScript = request.url === "/sealway.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? script : '<!doctype html><script src="/sealway.js"></script>');
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
  await fixture.start("--allow-origin", origin);
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
}, 60_000);
afterAll(async () => {
  await browser?.close();
  server?.close();
  fixture.stop();
});

/** In the page, where nothing of this file is. */
async function inPage([grant, large]: [string, number]): Promise<unknown> {
  const api = (
    globalThis as unknown as { sealway: typeof import("../../src/channel/index.js") & { Rpc: typeof Rpc } }
  ).sealway;
  const channel = await api.attach(api.parseGrant(grant));
  const stream = await channel.open({ kind: "cat", v: 1 });
  const sent = new Uint8Array(large).map((_, i) => i % 251);
  const writing = stream.write(sent).then(() => stream.end());
  const got = await stream.readExactly(large);
  await writing;
  const rpc = await api.Rpc.open(channel);
  const answer = await rpc.call(1, { from: "the page" });
  const isAlike = got?.every((byte, i) => byte === i % 251);
  await channel.close(0, "done");
  return [isAlike, answer];
}

describe("a page in Chromium", () => {
  it.each([
    ["flowersec-v1 over X25519", ["--profile", "flowersec-v1", "--suite", "1"]],
    ["flowersec-v1 over P-256", ["--profile", "flowersec-v1", "--suite", "2"]],
    ["NNpsk0 with ML-KEM", ["--suite", "260"]],
    ["NNpsk0 on P-256, ChaChaPoly", ["--suite", "259"]],
  ])("exchanges bytes with a peer over the relay: %s", async (_, flags) => {
    const pair = JSON.parse(await fixture.mintText(...flags)) as {
      grant_client: object;
      grant_server: object;
    };
    const { parseGrant } = await import("../../src/channel/index.js");
    const serving = (async () => {
      const channel = await attach(parseGrant(pair.grant_server));
      for await (const { hello, stream } of channel.incoming()) {
        if (hello.kind === "rpc") Rpc.over(stream, { handlers: { 1: (payload) => ({ heard: payload }) } });
        else void stream.readable.pipeTo(stream.writable).catch(() => undefined);
      }
      return (await channel.over()).code;
    })();
    const page = await browser.newPage();
    const complaints: string[] = [];
    page.on("pageerror", (error) => complaints.push(error.message));
    await page.goto(origin);
    const result = await page.evaluate(inPage, [JSON.stringify(pair.grant_client), 1_000_000] as [
      string,
      number,
    ]);
    expect(result).toEqual([true, { heard: { from: "the page" } }]);
    expect(await serving).toMatch(/ended|peer_closed/);
    expect(complaints).toEqual([]);
    await page.close();
  });
});
