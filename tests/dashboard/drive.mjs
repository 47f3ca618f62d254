// Drives the admin page in a real browser, as a person would: by what is written on it. Its one argument is JSON:
// { "url", "token", "browser", "listener": a listener to stop and start, "address": where that one is,
//   "shots": a folder for pictures, or null }.
// Exits with 0 when everything was as it must be; else the first thing that was not is the last line of its output.

import assert from "node:assert/strict";
import { chromium } from "playwright-core";

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
  await page.getByRole("alert").filter({ hasText: "not the one" }).waitFor();
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
  await page.getByLabel("Lines with").fill("no line has this");
  await page.waitForFunction(() => document.getElementById("log").childElementCount === 0);
  await page.getByLabel("Lines with").fill("");
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
  assert.equal(file.suggestedFilename(), "sealway.log");
  // A token outlives a reload of the page, and not being forgotten.
  await page.reload();
  await page.getByText("connected", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Forget token" }).click();
  await page.getByLabel("Admin token").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
}

async function narrow() {
  const page = await opened({ viewport: { width: 360, height: 740 } });
  await enter(page, token);
  await page.getByText("connected", { exact: true }).waitFor();
  const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(over <= 0, `the page is ${over} pixels wider than a small phone`);
  await page.context().close();
}

async function pictures() {
  const sizes = { desktop: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } };
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
    await theRest(page);
    await narrow();
    assert.deepEqual(complaints, [], "the browser complained");
  }
} catch (error) {
  console.log(complaints.join("\n"));
  console.log(error.stack);
  process.exitCode = 1;
} finally {
  await browser.close();
}
