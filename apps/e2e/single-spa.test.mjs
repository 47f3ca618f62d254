// Both pages as applications of single-spa: mounted into a host page of somebody else's, taken away without a trace.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { launch, openPage } from "./browser.mjs";
import { servePage } from "./page-server.mjs";
import { sealway } from "./sealway.mjs";

const APPS = fileURLToPath(new URL("..", import.meta.url));
const HOST_PAGE = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Host</title><link rel="icon" href="/react-spa/public/icon.svg">
<script type="module" src="/host.js"></script><h1>Host page</h1><button>Host button</button>`;
const host = (config) => `
import { registerApplication, start } from "/single-spa.js";
const customProps = { config: ${JSON.stringify(config)} };
const at = (hash) => (location) => location.hash === hash;
registerApplication({ name: "react", app: () => import("/react-spa/dist-single-spa/sealway-react.js"), activeWhen: at("#react"), customProps });
registerApplication({ name: "angular", app: () => import("/angular-spa/dist-single-spa/browser/main.js"), activeWhen: at("#angular"), customProps });
start();`;

const extra = {};
let browser;
let server;
let service;

before(async () => {
  const folder = path.dirname(createRequire(import.meta.url).resolve("single-spa/package.json"));
  browser = await launch();
  server = await servePage(APPS, { extra, connect: () => [service.url] });
  service = await sealway({ origins: [server.url] });
  extra["/index.html"] = HOST_PAGE;
  extra["/single-spa.js"] = await readFile(path.join(folder, "lib/es2015/esm/single-spa.min.js"), "utf8");
  extra["/host.js"] = host({ sessionUrl: service.url, serverUrl: service.url, pins: await service.pins() });
});
after(async () => {
  await browser?.close();
  await service?.close();
  await server?.close();
});

test("single-spa: both pages mount, work, and leave nothing behind", { timeout: 60_000 }, async () => {
  const { page, complaints, close } = await openPage(browser, server.url);
  const look = () =>
    page.evaluate(() => {
      const style = (selector) => {
        const { font, color, padding, background } = getComputedStyle(document.querySelector(selector));
        return { font, color, padding, background };
      };
      return JSON.stringify([style("body"), style("h1"), style("button")]);
    });
  const go = (hash) =>
    page.evaluate((hash) => {
      location.hash = hash;
    }, hash);
  const bare = await look();
  for (const name of ["react", "angular", "react"]) {
    await go(name);
    const place = page.locator(`#single-spa-application\\:${name}`);
    await place.getByText("Trusts 1 pinned key").first().waitFor();
    assert.equal(await page.locator(".shop").count(), 1, "one page at a time");
    assert.equal(await look(), bare, "the host page looks as it did");
    await place.getByRole("button", { name: "Purchase", exact: true }).click();
    await place.getByText("Status 200", { exact: true }).waitFor();
  }
  await go("none");
  await page.waitForFunction(() => document.querySelector(".shop") === null);
  assert.equal(await page.locator("link[rel=stylesheet]").count(), 0);
  assert.equal(await look(), bare);
  assert.deepEqual(complaints, []);
  await close();
});
