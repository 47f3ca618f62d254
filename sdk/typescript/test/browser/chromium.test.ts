/** The core and the client in a real browser: `CHROMIUM_BIN`, else Debian's. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Running, startSealway } from "../sealway.js";

const CHROMIUM = process.env["CHROMIUM_BIN"] || "/usr/bin/chromium";
const HERE = fileURLToPath(new URL(".", import.meta.url));
const VECTORS = fileURLToPath(new URL("../../../../vectors/", import.meta.url));

let server: Server;
let browser: Browser;
let page: Page;
let sealway: Running;
const files = new Map<string, string>();

/** All scenarios of a folder as one list. */
function scenarios(folder: string): string {
  const names = readdirSync(join(VECTORS, folder)).sort();
  return `[${names.map((name) => readFileSync(join(VECTORS, folder, name), "utf8")).join(",")}]`;
}

function answer(path: string): { type: string; body: string } | undefined {
  const type = path.endsWith(".js") ? "text/javascript" : "application/json";
  const built = files.get(path);
  if (built !== undefined) return { type, body: built };
  if (path === "/")
    return { type: "text/html", body: '<!doctype html><script type="module" src="/entry.js"></script>' };
  if (/^\/vectors\/(?:session3?|one-shot)$/.test(path))
    return { type, body: scenarios(path.slice("/vectors/".length)) };
  if (/^\/wycheproof\/\w+\.json$/.test(path))
    return { type, body: readFileSync(join(HERE, "..", path), "utf8") };
  return undefined;
}

beforeAll(async () => {
  if (!existsSync(CHROMIUM))
    throw new Error(`${CHROMIUM} is not there: install chromium, or set CHROMIUM_BIN`);
  const made = await build({
    entryPoints: [join(HERE, "entry.ts")],
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "browser",
    outdir: "/",
    write: false,
    logLevel: "error",
  });
  for (const { path, text } of made.outputFiles) files.set(path, text);
  server = createServer((request, response) => {
    const found = answer(request.url ?? "/");
    response
      .writeHead(found === undefined ? 404 : 200, { "Content-Type": found?.type ?? "text/plain" })
      .end(found?.body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  sealway = await startSealway(origin);
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--headless", "--no-sandbox"] });
  page = await browser.newPage();
  await page.goto(origin);
  await page.waitForFunction("globalThis.sealwayTest !== undefined");
}, 60_000);

afterAll(async () => {
  await browser?.close();
  server?.close();
  await sealway?.stop();
});

type Ran = { ran: Record<string, number>; faults: string[] };

describe("in Chromium", () => {
  it.each(["session", "session3", "one-shot"])(
    "all vectors of %s pass through WebCrypto",
    { timeout: 120_000 },
    async (folder) => {
      const { ran, faults } = (await page.evaluate(`sealwayTest.vectors("${folder}")`)) as Ran;
      expect(faults).toEqual([]);
      const count = Object.values(ran).reduce((sum, each) => sum + each, 0);
      expect(count).toBe(readdirSync(join(VECTORS, folder)).length);
      console.log(`${folder} in ${browser.version()}: ${JSON.stringify(ran)}`);
    },
  );

  it.each(["p256", "p384", "x25519"])("Wycheproof's agreements on %s have their results", async (curve) => {
    const { faults } = (await page.evaluate(`sealwayTest.agreements("${curve}")`)) as Ran;
    expect(faults).toEqual([]);
  });

  it("a page makes a sealed call, with pinned keys and at first use", async () => {
    for (const pin of [sealway.pin, ""]) {
      const told = await page.evaluate(`sealwayTest.purchase("${sealway.url}", "${pin}")`);
      expect(told).toMatchObject({ status: 200, suite: "X25519MLKEM768", body: { status: "SUCCESS" } });
    }
  });
});
