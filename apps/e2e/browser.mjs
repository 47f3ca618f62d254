// Debian's Chromium, started quietly, and pages that note whatever the browser complains about.

import { access, constants } from "node:fs/promises";
import { chromium } from "playwright-core";

const ARGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-dev-shm-usage",
];

export async function launch() {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  await access(executablePath, constants.X_OK).catch(() => {
    throw new Error(`${executablePath} is no program: apt-get install chromium, or set CHROMIUM`);
  });
  return chromium.launch({ executablePath, args: ARGS });
}

/** A page in a context of its own. `complaints` holds warnings and errors of the console, and exceptions. */
export async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const complaints = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error.stack ?? error)));
  await page.goto(url);
  return { page, complaints, close: () => context.close() };
}
