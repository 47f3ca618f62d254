// How a page looks, in every state: what axe finds, what sticks out, what is too small for a finger.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** The shortest side of what a finger meets, and of what a mouse meets, in CSS pixels. */
const TOUCH_MIN = 44;
const MOUSE_MIN = 24;

/** Adds the tests. `onPage` makes one; the rest are steps of the suite. */
export function looks(onPage, { button, card, fault, ready, purchase }) {
  /** Sends the bytes of the last purchase again in both ways. */
  async function resend(page) {
    for (const label of ["Replay", "Tamper"]) {
      await button(page, label).click();
      await page.getByRole("region", { name: `Outcome of ${label}` }).waitFor();
    }
  }

  /** Fails on what axe finds. The page's policy forbids scripts from elsewhere; the debugger's door is not the page's. */
  async function inspect(page, state) {
    const { violations } = await page.evaluate(`${AXE}; axe.run(document, { resultTypes: ["violations"] })`);
    const found = violations.map(
      ({ id, impact, nodes }) => `${state}: ${impact} ${id} at ${nodes.map(({ target }) => target).join(", ")}`,
    );
    assert.deepEqual(found, []);
  }

  for (const colorScheme of ["light", "dark"]) {
    onPage(
      `has no fault that axe finds, ${colorScheme}, from empty to full`,
      async (page) => {
        const look = (state) => inspect(page, state);
        await ready(page);
        const ground = await page.evaluate(() => getComputedStyle(document.querySelector(".shop")).backgroundColor);
        const [red] = ground.match(/\d+/).map(Number);
        assert.equal(red < 60, colorScheme === "dark", `the ground is ${ground}`);
        await look("empty");
        await purchase(page);
        await page.getByLabel("Calls", { exact: true }).fill("5");
        await button(page, "Run benchmark").click();
        await card(page, "Benchmark").getByText("p99", { exact: true }).waitFor();
        await page.getByText("Every step of these calls").click();
        await page.getByText("Body as opened").click();
        await resend(page);
        await page.getByLabel("Amount").fill("");
        await button(page, "Purchase").click();
        await look("full");
        await page.getByLabel("Amount").fill("1");
        await page.route("**/transaction/purchase", (route) => route.abort("connectionrefused"));
        await button(page, "Purchase").click();
        await fault(page).waitFor();
        await look("with a fault");
      },
      { options: { colorScheme }, expected: /ERR_CONNECTION_REFUSED|40[09]/ },
    );
  }

  for (const width of [360, 390, 768, 1440]) {
    const isTouch = width < 1024;
    onPage(
      `nothing sticks out at ${width} pixels, in any state, and axe finds nothing`,
      async (page) => {
        const fits = async (state) => {
          const over = await page.evaluate((width) => {
            const cards = [...document.querySelectorAll(".card, .card > *, .answer > *, button")];
            const wide = cards.filter(
              (each) => each.scrollWidth > each.clientWidth + 1 && !each.matches("pre, .unseen, .journal, table, dl, p.left"),
            );
            return [document.documentElement.scrollWidth - width, ...wide.map((each) => each.outerHTML.slice(0, 80))];
          }, width);
          assert.deepEqual(
            over.filter((each) => typeof each === "string" || each > 0),
            [],
            state,
          );
        };
        await ready(page);
        await fits("empty");
        await purchase(page);
        await page.getByLabel("Calls", { exact: true }).fill("5");
        await button(page, "Run benchmark").click();
        await card(page, "Benchmark").getByText("p99", { exact: true }).waitFor();
        await page.getByText("Every step of these calls").click();
        await page.getByText("Body as opened").click();
        await page.getByLabel("Scheme code").fill("W".repeat(64));
        await purchase(page);
        await resend(page);
        await page.getByText("Headers of the seal: request").click();
        await fits("full");
        await inspect(page, "full");
        await page.route("**/transaction/purchase", (route) => route.abort("connectionrefused"));
        await button(page, "Purchase").click();
        await fault(page).waitFor();
        await fits("with a fault");
        const small = await page.evaluate(
          (least) =>
            [...document.querySelectorAll("button, input, summary")]
              .filter((each) => Math.min(each.getBoundingClientRect().height, each.getBoundingClientRect().width) < least)
              .map((each) => each.textContent),
          isTouch ? TOUCH_MIN : MOUSE_MIN,
        );
        assert.deepEqual(small, [], "too small for a finger");
      },
      {
        options: { viewport: { width, height: 740 }, isMobile: isTouch, hasTouch: isTouch },
        expected: /ERR_CONNECTION_REFUSED|40[09]/,
      },
    );
  }
}
