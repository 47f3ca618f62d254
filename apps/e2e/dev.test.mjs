// The development servers: they serve a page that works, on the ports that a service's CORS settings know.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createServer } from "node:net";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { launch, openPage } from "./browser.mjs";
import { sealway } from "./sealway.mjs";

const START_MS = 60_000;
let browser;

before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** A port that was free a moment ago: the real one may be in use by somebody at work. */
function freePort() {
  const server = createServer();
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Runs a program of node_modules until `work` is done. */
async function serving(folder, program, args, work) {
  const cwd = fileURLToPath(new URL(`../${folder}/`, import.meta.url));
  const file = fileURLToPath(new URL(`../node_modules/${program}`, import.meta.url));
  const child = spawn(process.execPath, [file, ...args], {
    cwd,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, CI: "1", NO_COLOR: "1" },
  });
  let log = "";
  try {
    await new Promise((resolve, reject) => {
      const failed = () => reject(new Error(`the server does not start:\n${log}`));
      const timer = setTimeout(failed, START_MS);
      child.once("exit", failed);
      const read = (chunk) => {
        log += chunk;
        if (!log.includes("http://localhost:")) return;
        clearTimeout(timer);
        child.off("exit", failed);
        resolve();
      };
      child.stdout.on("data", read);
      child.stderr.on("data", read);
    });
    await work();
  } finally {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
  }
}

async function works(port) {
  const url = `http://localhost:${port}`;
  const service = await sealway({ origins: [url] });
  try {
    const { page, complaints, close } = await openPage(browser, "about:blank");
    await page.route("**/config.json", (route) => route.fulfill({ json: { session_url: service.url } }));
    await page.goto(url);
    await page.getByRole("button", { name: "Purchase", exact: true }).click({ timeout: 30_000 });
    await page.getByText("Status 200", { exact: true }).waitFor();
    assert.deepEqual(complaints, []);
    await close();
  } finally {
    await service.close();
  }
}

const read = (path) => readFile(new URL(path, import.meta.url), "utf8");

test("React: the development server is on 4201 and its page works", { timeout: 120_000 }, async () => {
  assert.match(await read("../react-spa/vite.config.ts"), /port: 4201, strictPort: true/);
  const port = await freePort();
  await serving("react-spa", "vite/bin/vite.js", ["--port", String(port)], () => works(port));
});

test("Angular: the development server is on 4200 and its page works", { timeout: 120_000 }, async () => {
  assert.equal(JSON.parse(await read("../angular-spa/angular.json")).projects.shop.architect.serve.options.port, 4200);
  const port = await freePort();
  await serving("angular-spa", "@angular/cli/bin/ng.js", ["serve", "--port", String(port)], () => works(port));
});
