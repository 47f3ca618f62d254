// Drives the admin page in a real browser, as a person would: by what is written on it. Its one argument is JSON:
// { "url", "token", "browser", "listener": a listener to stop and start, "address": where that one is,
//   "shots": a folder for pictures, or null }.
// Exits with 0 when everything was as it must be; else the first thing that was not is the last line of its output.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** Phones, small and larger, a tablet, a desktop: CSS pixels. */
const WIDTHS = [360, 390, 768, 1440];
/** The shortest side of what a finger meets, in CSS pixels. */
const TOUCH_MIN = 44;

const { url, token, browser: executablePath, listener, address, shots } = JSON.parse(process.argv[2]);

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const complaints = [];

/** A page that notes whatever the browser complains about. */
async function opened(options = {}) {
  const page = await (await browser.newContext(options)).newPage();
  page.setDefaultTimeout(20000);
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => {
    if (!request.url().startsWith(url) && !/^(data|blob):/.test(request.url())) complaints.push(`asked ${request.url()}`);
  });
  const answer = await page.goto(url);
  assert.equal(answer.status(), 200);
  return page;
}

async function enter(page, secret) {
  await page.getByLabel("Admin token").fill(secret);
  await page.keyboard.press("Enter");
}

/** The text under a tile's heading, once it is a figure. */
async function figure(page, id) {
  await page.waitForFunction((id) => /\d/.test(document.getElementById(id).textContent), id);
  return page.locator(`#${id}`).textContent();
}

const reachable = () => fetch(`http://${address}/health`).then((answer) => answer.status, () => "refused");

async function wrongToken() {
  const page = await opened();
  await enter(page, "not-the-token");
  await page.getByRole("alert").filter({ hasText: "Wrong token" }).waitFor();
  assert.equal(await page.locator("#house").isVisible(), false);
  // The browser itself says that an answer was 401.
  const own = complaints.splice(0).filter((text) => !text.includes("401"));
  assert.deepEqual(own, []);
  await page.context().close();
}

async function liveNumbers(page) {
  await page.getByText("connected", { exact: true }).waitFor();
  await page.getByText("ready", { exact: true }).waitFor();
  assert.match(await figure(page, "memory"), /^\d+ MiB$/);
  await figure(page, "cpu");
  const before = await page.locator("#classes").textContent();
  for (let count = 0; count < 5; count += 1) assert.equal(await reachable(), 200);
  // The page shows them without being asked.
  await page.waitForFunction((before) => document.getElementById("classes").textContent !== before, before);
  assert.match(await page.locator("#log").textContent(), /serving/);
  assert.match(await page.getByRole("region", { name: "Keys without sessions" }).textContent(), /ehbp\s*x25519/);
  assert.match(await page.getByRole("region", { name: "Openings without sessions" }).textContent(), /None since the start/);
}

async function confirm(page, yes) {
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  // The safe answer has the focus: a stray Enter does nothing.
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Cancel");
  if (yes) await dialog.getByRole("button").last().click();
  else await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
}

async function stopAndStart(page) {
  const stop = page.getByRole("button", { name: `Stop the listener ${listener}` });
  const start = page.getByRole("button", { name: `Start the listener ${listener}` });
  await stop.click();
  await confirm(page, false);
  assert.equal(await reachable(), 200, "what was not confirmed must not be done");
  await stop.click();
  await confirm(page, true);
  await page.getByText(`${listener} is stopped.`).waitFor();
  await start.waitFor();
  assert.equal(await reachable(), "refused");
  await start.focus();
  await page.keyboard.press("Enter");
  await confirm(page, true);
  await page.getByText(`${listener} serves again.`).waitFor();
  await stop.waitFor();
  assert.equal(await reachable(), 200);
}

async function theRest(page) {
  await page.getByLabel("Session id").fill("S-none");
  await page.getByRole("button", { name: "Revoke" }).click();
  await confirm(page, true);
  await page.locator("#result.bad").waitFor();
  complaints.splice(0, complaints.length, ...complaints.filter((text) => !/40[04]/.test(text)));
  await page.getByRole("button", { name: "Reload configuration" }).click();
  await confirm(page, true);
  await page.getByText("Reloaded.").waitFor();
  await page.getByLabel("Filter").fill("no line has this");
  await page.waitForFunction(() => document.getElementById("log").childElementCount === 0);
  await page.getByLabel("Filter").fill("");
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
  assert.equal(file.suggestedFilename(), "sealway.log");
  // A token outlives a reload of the page, and not being forgotten.
  await page.reload();
  await page.getByText("connected", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Admin token").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
}

/** The cells of the row of a table that has this text, by the table's heading. */
async function row(page, table, text) {
  const found = page.getByRole("region", { name: table, exact: true }).getByRole("row").filter({ hasText: text });
  await found.first().waitFor();
  return found.first().getByRole("cell").allTextContents();
}

async function tables(page) {
  const call = () => fetch(`http://${address}/transaction/purchase`, { method: "POST", body: "{}" });
  assert.equal((await call()).status, 400);
  assert.equal((await call()).status, 400);
  const before = Number((await row(page, "Routes", "/transaction/"))[5]);
  await call();
  await page.waitForFunction(
    (before) => [...document.querySelectorAll("#routes tr")].some((row) => row.textContent.includes("/transaction/")
      && Number(row.cells[5].textContent) > before && Number(row.cells[6].textContent) > before),
    before,
  );
  const shop = await row(page, "Routes", "sh<i>op");
  assert.deepEqual([shop[0], shop[2], shop[3], shop[4]], ["sh<i>op", "forward", "off", "shop"]);
  assert.match(shop[1], /^host shop.example, .*; path_prefix \/shop\/$/);
  await row(page, "Routes", "unmatched requests");
  const services = "Relays and brokers";
  // The sockets that the test has open to it are none of the endpoints' own.
  const [, , kind, state, done, failed, now] = await row(page, services, "channels");
  assert.deepEqual([kind, state, done, failed], ["relay", "up", "0", "0"]);
  assert.match(now, /^0 channels, 0 connections, 0 MiB forwarded, 0 % of the room/);
  const broker = await row(page, services, "audit log");
  assert.deepEqual([broker[0], broker[2], broker[3]], ["broker", "broker", "up"]);
  assert.ok(Number(broker[4]) >= 1 && broker[5] === "0", `${broker}`);
  const away = await row(page, services, "down");
  assert.deepEqual([away[0], away[1], away[2], away[4]], ["relay", "http://127.0.0.1:1", "", ""]);
  const key = await row(page, "Identity keys", "active");
  assert.match(key[0], /^[0-9a-f]{32}$/);
  assert.match(key[2], /^20\d\d-\d\d-\d\d \d\d:\d\d$/);
  const [part, code, count] = await row(page, "Rejections", "call");
  assert.ok(part === "call" && /^[a-z_]+$/.test(code) && Number(count) >= 3, `${part} ${code} ${count}`);
}

/** What a reader at this width cannot see or reach; axe's findings too. */
async function faults(page, width) {
  const { violations } = await page.evaluate(`${AXE}; axe.run(document, { resultTypes: ["violations"] })`);
  const found = violations.map(({ id, nodes }) => `axe: ${id} at ${nodes.map(({ target }) => target).join(", ")}`);
  const seen = await page.evaluate(({ width, TOUCH_MIN }) => {
    const told = (element) => element.outerHTML.slice(0, 90);
    const shown = (selector) => [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility());
    const scrolls = (element) => element.scrollWidth > element.clientWidth + 1;
    const faults = [];
    if (scrolls(document.documentElement)) faults.push("the page is wider than the screen");
    for (const one of shown(".scroll, #log")) {
      const ok = one.tabIndex === 0 && one.getAttribute("role") === "region" && one.getAttribute("aria-label");
      if (!ok) faults.push(`cannot be scrolled by keyboard: ${told(one)}`);
      if (width < 640 && scrolls(one)) faults.push(`scrolls sideways on a phone: ${told(one)}`);
    }
    for (const one of shown("button, input, select")) {
      const box = one.getBoundingClientRect();
      if (width < 640 && (box.left < 0 || box.right > width)) faults.push(`cut off: ${told(one)}`);
      if (width < 1024 && (box.height < TOUCH_MIN || box.width < TOUCH_MIN)) {
        faults.push(`${Math.round(box.width)} × ${Math.round(box.height)} is too small for a finger: ${told(one)}`);
      }
    }
    for (const one of shown(".tile, .tile *, .card > *, nav")) {
      if (scrolls(one) && !one.matches(".scroll, #log, .unseen")) faults.push(`cut off: ${told(one)}`);
    }
    return faults;
  }, { width, TOUCH_MIN });
  return [...found, ...seen].map((fault) => `${width} pixels: ${fault}`);
}

async function everyWidth() {
  for (const width of WIDTHS) {
    const isTouch = width < 1024;
    const page = await opened({ viewport: { width, height: 800 }, hasTouch: isTouch, isMobile: isTouch });
    assert.deepEqual(await faults(page, width), []);
    await enter(page, token);
    await page.getByText("connected", { exact: true }).waitFor();
    await row(page, "Listeners", listener);
    // A connection that a client keeps for its next request.
    assert.equal(await reachable(), 200);
    await row(page, "Connections", "h1");
    assert.deepEqual(await faults(page, width), []);
    await page.getByRole("button", { name: `Stop the listener ${listener}` }).click();
    await page.getByRole("dialog").waitFor();
    assert.deepEqual(await faults(page, width), []);
    await confirm(page, false);
    await page.context().close();
  }
}

async function pictures() {
  const sizes = { desktop: { width: 1440, height: 900 }, tablet: { width: 768, height: 1024 }, phone: { width: 360, height: 780 } };
  for (const [name, viewport] of Object.entries(sizes)) {
    for (const colorScheme of ["light", "dark"]) {
      const page = await opened({ viewport, colorScheme });
      await page.screenshot({ path: `${shots}/${name}-${colorScheme}-door.png` });
      await enter(page, token);
      await page.getByText("connected", { exact: true }).waitFor();
      await page.waitForTimeout(2500);
      await page.screenshot({ path: `${shots}/${name}-${colorScheme}.png` });
      await page.screenshot({ path: `${shots}/${name}-${colorScheme}-whole.png`, fullPage: true });
      await page.context().close();
    }
  }
}

try {
  if (shots) {
    await pictures();
  } else {
    await wrongToken();
    const page = await opened();
    await enter(page, token);
    await liveNumbers(page);
    await stopAndStart(page);
    await tables(page);
    await theRest(page);
    await everyWidth();
    assert.deepEqual(complaints, [], "the browser complained");
  }
} catch (error) {
  console.log(complaints.join("\n"));
  console.log(error.stack);
  process.exitCode = 1;
} finally {
  await browser.close();
}
