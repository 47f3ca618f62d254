// Takes pictures of a page in every state, to be looked at: node shots.mjs react|angular [folder]

import { mkdir } from "node:fs/promises";
import path from "node:path";
import { launch, openPage } from "./browser.mjs";
import { servePage } from "./page-server.mjs";
import { sealway } from "./sealway.mjs";

const FOLDERS = { react: "../react-spa/dist", angular: "../angular-spa/dist/browser" };
const which = process.argv[2] ?? "react";
const folder = process.argv[3] ?? new URL(`shots/${which}/`, import.meta.url).pathname;
await mkdir(folder, { recursive: true });

const extra = {};
let service = null;
const host = await servePage(new URL(FOLDERS[which], import.meta.url).pathname, {
  extra,
  connect: () => (service ? [service.url] : []),
});
service = await sealway({ origins: [host.url] });
extra["/config.json"] = { session_url: service.url };
const browser = await launch();

async function shoot(name, options) {
  const { page, complaints, close } = await openPage(browser, host.url, options);
  const take = (state) => page.screenshot({ path: path.join(folder, `${name}-${state}.png`), fullPage: true });
  await page.getByText("Trust at first use").waitFor();
  await take("1-start");
  await page.getByRole("button", { name: "Purchase" }).click();
  await page.getByText("Status 200", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Run benchmark" }).click();
  await page.getByText("p99", { exact: true }).waitFor({ timeout: 60_000 });
  await take("2-used");
  await page.getByText("Body as opened").click();
  await page.getByText("Every step of these calls").click();
  for (const label of ["Replay", "Tamper"]) {
    await page.getByRole("button", { name: label }).click();
    await page.getByRole("region", { name: `Outcome of ${label}` }).waitFor();
  }
  await page.getByLabel("Amount").fill("none");
  await page.getByRole("button", { name: "Purchase" }).click();
  await take("3-open");
  await page.getByLabel("Amount").fill("1");
  await service.stop();
  await page.getByRole("button", { name: "Purchase" }).click();
  await page.getByRole("alert").getByRole("heading").waitFor({ timeout: 20_000 });
  await take("4-fault");
  await service.start();
  console.log(name, complaints);
  await close();
}

try {
  for (const colorScheme of ["light", "dark"]) {
    await shoot(`desktop-${colorScheme}`, { colorScheme });
    await shoot(`phone-${colorScheme}`, { colorScheme, viewport: { width: 360, height: 780 } });
  }
} finally {
  await browser.close();
  await service.close();
  await host.close();
}
