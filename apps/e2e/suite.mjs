// What every page must do, in a real browser against a real sealway. Run by react.test.mjs and angular.test.mjs.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { launch, openPage } from "./browser.mjs";
import { looks } from "./looks.mjs";
import { servePage } from "./page-server.mjs";
import { sealway } from "./sealway.mjs";

const TXN = /TXN-[0-9A-F]{16}/;

/** Runs all of it on the page built into `folder`, a path from here. */
export function suite(name, folder) {
  const extra = {};
  let browser;
  let host;
  let service;
  let shortLived;
  let oneShot;
  let kids;

  before(async () => {
    browser = await launch();
    const path = fileURLToPath(new URL(folder, import.meta.url));
    host = await servePage(path, { extra, connect: () => [service.url, elsewhere(), shortLived.url, oneShot.url] });
    service = await sealway({ origins: [host.url] });
    shortLived = await sealway({ origins: [host.url], ttlSec: 3 });
    oneShot = await sealway({ origins: [host.url], oneShot: true });
    kids = await oneShot.kids();
  });
  after(async () => {
    await browser?.close();
    await service?.close();
    await shortLived?.close();
    await oneShot?.close();
    await host?.close();
  });

  /** The same service under another origin. */
  const elsewhere = () => service.url.replace("127.0.0.1", "localhost");

  /** A page against `config`; at its end the browser must have had nothing to say beyond `expected`. */
  function onPage(title, work, { config = () => ({ session_url: service.url }), options = {}, expected = null } = {}) {
    test(`${name}: ${title}`, { timeout: 60_000 }, async () => {
      extra["/config.json"] = config();
      const { page, complaints, close } = await openPage(browser, host.url, options);
      try {
        await work(page);
        const unexpected = complaints.filter((text) => !expected?.test(text));
        assert.deepEqual(unexpected, [], "the browser complained");
      } finally {
        await close();
      }
    });
  }

  const button = (page, label) => page.getByRole("button", { name: label, exact: true });
  const card = (page, label) => page.getByRole("region", { name: label, exact: true });
  const pill = (page, text) => card(page, "Session").getByText(text, { exact: true });
  const timer = (page) => page.getByRole("timer", { name: "Time left" });
  const fault = (page) => page.getByRole("alert").getByRole("heading");
  const log = (page) => page.getByRole("log").textContent();
  const ready = (page) => card(page, "Console").getByText("Service http").waitFor();

  async function purchase(page) {
    await button(page, "Purchase").click();
    await card(page, "Purchase").getByText("Status 200", { exact: true }).waitFor();
  }

  onPage("starts a session, counts down, purchases and measures", async (page) => {
    await ready(page);
    await pill(page, "No session").waitFor();
    await button(page, "Start session").click();
    await pill(page, "Active").waitFor();
    assert.match(await timer(page).textContent(), /^(30:00|29:5\d)$/);
    const session = await card(page, "Session").textContent();
    assert.match(session, /Wire 3, X25519MLKEM768/);
    const [pin] = await service.pins();
    assert.ok(session.includes(pin), "the page names the key that signed");
    const before = await timer(page).textContent();
    await page.waitForFunction((before) => document.querySelector("[role=timer]").textContent !== before, before);

    await page.getByLabel("Scheme code").fill("XYZ");
    await page.getByLabel("Amount").fill("12.5");
    await purchase(page);
    assert.equal(await button(page, "Purchase without session").count(), 0, "no key is pinned for it");
    const answer = await card(page, "Purchase").textContent();
    assert.match(answer, TXN);
    assert.match(answer, /XYZ/);
    assert.match(answer, /12\.5/);
    await page.getByText("Body as opened").click();
    assert.equal(JSON.parse(await page.getByRole("region", { name: "Body as opened" }).textContent()).amount, 12.5);
    assert.match(await page.getByRole("status").textContent(), TXN);
  });

  onPage(
    "shows the bytes that the browser sends and receives, and the service refuses them once more or changed",
    async (page) => {
      await ready(page);
      const network = card(page, "On the network");
      for (const label of ["Replay", "Tamper"]) {
        assert.equal(await button(page, label).getAttribute("aria-disabled"), "true");
      }
      const sent = [];
      page.on("request", (request) => {
        if (request.url().endsWith("/transaction/purchase") && request.method() === "POST") sent.push(request);
      });
      await page.getByLabel("Amount").fill("12.5");
      await purchase(page);
      const region = (name) => network.getByRole("region", { name, exact: true });
      const shown = async (name) => Buffer.from((await region(name).textContent()).replaceAll(" ", ""), "hex");
      const body = sent[0].postDataBuffer();
      assert.deepEqual(await shown("Request on the network"), body);
      assert.deepEqual(await shown("Answer on the network"), await (await sent[0].response()).body());
      assert.deepEqual(JSON.parse(await region("Request as plain text").textContent()), { schemeCode: "AEF", amount: 12.5 });
      assert.match(await region("Answer as plain text").textContent(), TXN);
      assert.ok(!body.includes("AEF") && !body.includes("12.5"));
      assert.ok((await network.textContent()).includes(`On the network: ${body.length} B, sealed`));
      assert.ok((await network.textContent()).includes(sent[0].headers()["x-idempotency-key"]));

      const seal = (request) => ["x-kid", "x-idempotency-key", "x-seal", "content-type"].map((name) => request.headers()[name]);
      const outcome = (label) => network.getByRole("region", { name: `Outcome of ${label}` });
      await button(page, "Replay").click();
      await outcome("Replay").getByText("Refused: status 409", { exact: true }).waitFor();
      assert.match(await outcome("Replay").textContent(), /replayed/);
      assert.deepEqual([sent.length, sent[1].postDataBuffer(), seal(sent[1])], [2, body, seal(sent[0])]);
      assert.equal((await sent[1].response()).status(), 409);
      assert.match(await page.getByRole("status").textContent(), /Replay refused with status 409/);

      await button(page, "Tamper").click();
      await outcome("Tamper").getByText("Refused: status 400", { exact: true }).waitFor();
      assert.match(await outcome("Tamper").textContent(), /unsealable/);
      assert.deepEqual(seal(sent[2]), seal(sent[0]));
      const changed = [...sent[2].postDataBuffer()].flatMap((byte, at) => (byte === body[at] ? [] : [[at, byte ^ body[at]]]));
      assert.deepEqual([sent[2].postDataBuffer().length, changed], [body.length, [[body.length >> 1, 1]]]);
      assert.ok(await outcome("Replay").isVisible(), "the outcome of the replay stays");

      await purchase(page);
      // The outcomes go with their bytes.
      await outcome("Replay").waitFor({ state: "detached" });
      await button(page, "Clear everything").click();
      await page.getByText("No bytes yet. Make a purchase.").waitFor();
    },
    { expected: /40[09]/ },
  );

  onPage(
    "makes a purchase without a session, sealed to a pinned key, beside one in a session",
    async (page) => {
      await ready(page);
      const sent = [];
      page.on("request", (request) => {
        if (request.url().endsWith("/transaction/purchase") && request.method() === "POST") sent.push(request);
      });
      await button(page, "Purchase without session").click();
      await card(page, "Purchase").getByText("Status 200", { exact: true }).waitFor();
      assert.match(await card(page, "Purchase").textContent(), TXN);
      await pill(page, "No session").waitFor();
      const [first] = sent;
      assert.deepEqual([first.headers()["x-seal"], first.headers()["x-kid"]], ["4", kids[0]]);
      assert.ok(!first.postDataBuffer().includes("AEF"));
      assert.ok((await card(page, "Metrics").textContent()).includes("Sealed call"));

      const outcome = (label) => card(page, "On the network").getByRole("region", { name: `Outcome of ${label}` });
      await button(page, "Replay").click();
      await outcome("Replay").getByText("Refused: status 409", { exact: true }).waitFor();
      await button(page, "Tamper").click();
      await outcome("Tamper").getByText("Refused: status 400", { exact: true }).waitFor();
      assert.match(await outcome("Tamper").textContent(), /unsealable/);

      await purchase(page);
      await pill(page, "Active").waitFor();
      assert.equal(sent.at(-1).headers()["x-seal"], "3");
    },
    { config: () => ({ session_url: oneShot.url, one_shot_pins: kids }), expected: /40[09]/ },
  );

  onPage("shows round trip, HTTP, crypto and server for each kind of call, as a chart and as tables", async (page) => {
    await ready(page);
    await purchase(page);
    await button(page, "End session").click();
    await pill(page, "No session").waitFor();
    const metrics = card(page, "Metrics");
    const description = await metrics.getByRole("img").getAttribute("aria-label");
    for (const label of ["Start session", "Sealed call", "End session"]) {
      assert.match(
        description,
        new RegExp(`${label}: [0-9.,]+ ms, of it client crypto [0-9.]+, network [0-9.]+, server [0-9.]+`),
      );
      const row = metrics.getByRole("table").first().getByRole("row", { name: label });
      const figures = await row.getByRole("cell").allTextContents();
      assert.equal(figures.length, 4);
      for (const figure of figures) assert.ok(Number(figure.replace(",", "")) > 0, `${label}: ${figures}`);
    }
    await metrics.getByText("Every step of these calls").click();
    const steps = await metrics.getByRole("table").nth(1).textContent();
    for (const step of [/aes-gcm-decrypt\s*Server/, /upstream\s*Server/, /Browser\s*[0-9.]+/]) assert.match(steps, step);
    assert.match(await log(page), /Session ended at the service/);
  });

  onPage("clear wipes session, metrics, answer, forms and console, and what comes back late is dropped", async (page) => {
    await ready(page);
    await page.getByLabel("Scheme code").fill("SECRET-SCHEME");
    await purchase(page);
    const sessionId = await card(page, "Session").locator("code[title]").getAttribute("title");
    await button(page, "Clear everything").click();
    await pill(page, "No session").waitFor();
    await page.getByText("No answer yet.").waitFor();
    await page.getByText("Nothing measured yet.").waitFor();
    assert.equal(await log(page), "");
    assert.equal(await page.getByLabel("Scheme code").inputValue(), "AEF");
    const whole = await page.content();
    for (const trace of ["SECRET-SCHEME", sessionId, sessionId.slice(0, 10), "TXN-"]) assert.ok(!whole.includes(trace), trace);
    const kept = await page.evaluate(async () => [
      localStorage.length,
      sessionStorage.length,
      (await indexedDB.databases()).length,
      document.cookie,
    ]);
    assert.deepEqual(kept, [0, 0, 0, ""]);
    assert.match(await page.getByRole("status").textContent(), /Cleared/);

    await page.route("**/transaction/purchase", async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 700));
      await route.continue().catch(() => {});
    });
    await button(page, "Purchase").click();
    await pill(page, "Active").waitFor();
    await button(page, "Clear everything").click();
    await page.waitForTimeout(1200);
    assert.equal(await log(page), "");
    await page.getByText("No answer yet.").waitFor();
    await page.getByText("Nothing measured yet.").waitFor();
    await page.unroute("**/transaction/purchase");
    await purchase(page);
  });

  onPage(
    "tells what to do while the service is away, and goes on when it is back",
    async (page) => {
      await ready(page);
      await service.stop();
      try {
        await button(page, "Purchase").click();
        await fault(page).waitFor();
        assert.equal(await fault(page).textContent(), "The service cannot be reached");
        assert.match(await page.getByRole("alert").textContent(), /network/);
      } finally {
        await service.start();
      }
      await purchase(page);
      assert.equal(await fault(page).count(), 0, "the card goes with the next try");
    },
    { expected: /ERR_CONNECTION_REFUSED/ },
  );

  onPage(
    "a service that forgot the session and has another key is refused until the page is cleared",
    async (page) => {
      await ready(page);
      await purchase(page);
      await service.stop();
      await service.start();
      await button(page, "Purchase").click();
      await fault(page).waitFor();
      assert.match(await fault(page).textContent(), /does not know this session|another key/);
      assert.match(await page.getByRole("alert").textContent(), /session_expired|key_untrusted/);
      await button(page, "Dismiss").click();
      await button(page, "Start anew").click();
      await page.getByRole("heading", { name: /^The trusted key is not in use|^The service shows another key/ }).waitFor();
      await button(page, "Clear everything").click();
      await purchase(page);
    },
    { expected: /40[19]/ },
  );

  onPage(
    "a session that is over says so, and the next purchase starts another",
    async (page) => {
      await ready(page);
      await button(page, "Start session").click();
      await pill(page, "Expired").waitFor({ timeout: 8000 });
      assert.equal(await timer(page).textContent(), "0:00");
      assert.match(await page.getByRole("status").textContent(), /session is over/);
      const first = await card(page, "Session").locator("code[title]").getAttribute("title");
      await purchase(page);
      await page.waitForFunction((first) => document.querySelector("code[title]").title !== first, first);
      assert.ok((await log(page)).match(/Session S-/g).length >= 2);
    },
    { config: () => ({ session_url: shortLived.url }) },
  );

  test(`${name}: a pinned key is trusted alone`, { timeout: 60_000 }, async () => {
    extra["/config.json"] = { session_url: service.url, pins: await service.pins() };
    const right = await openPage(browser, host.url);
    await right.page.getByText("Trusts 1 pinned key").first().waitFor();
    assert.equal(await right.page.getByText("Trust at first use").count(), 0);
    await purchase(right.page);
    assert.deepEqual(right.complaints, []);
    await right.close();
    extra["/config.json"] = { session_url: service.url, pins: ["00112233445566778899aabbccddeeff"] };
    const wrong = await openPage(browser, host.url);
    await wrong.page.getByText("Trusts 1 pinned key").first().waitFor();
    await button(wrong.page, "Purchase").click();
    await fault(wrong.page).waitFor();
    assert.match(await wrong.page.getByRole("alert").textContent(), /key_retired|key_untrusted/);
    await pill(wrong.page, "No session").waitFor();
    await wrong.close();
  });

  test(`${name}: where page and service are one origin, nothing is to be configured`, { timeout: 60_000 }, async () => {
    const path = fileURLToPath(new URL(folder, import.meta.url));
    const one = await servePage(path, { behind: () => service.url });
    const { page, complaints, close } = await openPage(browser, one.url);
    try {
      await ready(page);
      assert.ok((await page.getByRole("banner").textContent()).includes(one.url));
      await purchase(page);
      assert.deepEqual(complaints, []);
    } finally {
      await close();
      await one.close();
    }
  });

  onPage(
    "a wrong config.json is told, and nothing can be pressed",
    async (page) => {
      await fault(page).waitFor();
      assert.match(await page.getByRole("alert").textContent(), /pins is empty/);
      for (const label of ["Start session", "Purchase", "Run benchmark"]) {
        assert.equal(await button(page, label).getAttribute("aria-disabled"), "true");
      }
    },
    { config: () => ({ session_url: service.url, pins: [] }) },
  );

  onPage(
    "sessions are agreed at one origin and calls go to another, if it is told so",
    async (page) => {
      const asked = [];
      page.on("request", (request) => request.method() === "POST" && asked.push(request.url()));
      await ready(page);
      await purchase(page);
      assert.deepEqual(asked, [`${service.url}/v3/sessions`, `${elsewhere()}/transaction/purchase`]);
    },
    { config: () => ({ session_url: service.url, server_url: elsewhere() }) },
  );

  onPage("runs a benchmark with live progress and percentiles", async (page) => {
    await ready(page);
    await page.getByLabel("Calls", { exact: true }).fill("150");
    await page.getByLabel("At a time").fill("4");
    await button(page, "Run benchmark").click();
    await button(page, "Cancel benchmark").waitFor();
    const card_ = card(page, "Benchmark");
    const progress = card_.getByRole("progressbar", { name: "Calls made" });
    await page.waitForFunction(() => {
      const { value, max } = document.querySelector('progress[aria-label="Calls made"]');
      return value > 0 && value < max;
    });
    await card_.getByText("p99", { exact: true }).waitFor({ timeout: 30_000 });
    assert.equal(await progress.getAttribute("value"), "150");
    assert.match(await card_.textContent(), /150 of 150 calls, 0 failed/);
    for (const figure of ["Throughput", "Median", "p99", "min", "mean", "p90", "p95", "max"]) {
      const value = await card_
        .locator("dl > div", { has: page.locator("dt", { hasText: new RegExp(`^${figure}$`) }) })
        .locator("dd")
        .textContent();
      assert.ok(Number.parseFloat(value) > 0, `${figure} ${value}`);
    }
    assert.match(await page.getByRole("status").textContent(), /Benchmark done: 150 of 150 calls/);
  });

  onPage("a benchmark can be cancelled, and keeps what it measured", async (page) => {
    await ready(page);
    await page.getByLabel("Calls", { exact: true }).fill("10000");
    await button(page, "Run benchmark").click();
    await page.waitForFunction(() => document.querySelector('progress[aria-label="Calls made"]')?.value > 5);
    await button(page, "Cancel benchmark").click();
    await button(page, "Run benchmark").waitFor();
    assert.match(await card(page, "Benchmark").textContent(), /\d+ of 10000 calls, 0 failed.*cancelled/);
    assert.equal(await fault(page).count(), 0);
    await purchase(page);
  });

  onPage(
    "a session that ends during a benchmark is renewed, and that is measured too",
    async (page) => {
      await ready(page);
      await page.getByLabel("Calls", { exact: true }).fill("10000");
      await button(page, "Run benchmark").click();
      await button(page, "Cancel benchmark").waitFor();
      await page.waitForFunction(() => document.querySelector("[role=log]").textContent.match(/Session S-/g)?.length >= 2);
      await button(page, "Cancel benchmark").click();
      await card(page, "Metrics").getByRole("row", { name: "Renew session" }).waitFor();
      assert.match(await card(page, "Benchmark").textContent(), /, 0 failed/);
      await pill(page, "Active").waitFor();
    },
    { config: () => ({ session_url: shortLived.url }) },
  );

  onPage("a form that is wrong says where, and sends nothing", async (page) => {
    await ready(page);
    const sent = [];
    page.on("request", (request) => sent.push(request.url()));
    await page.getByLabel("Amount").fill("much");
    await button(page, "Purchase").click();
    await page.getByText("Enter an amount as a number.").waitFor();
    const amount = page.getByLabel("Amount");
    assert.equal(await amount.getAttribute("aria-invalid"), "true");
    assert.equal(await amount.evaluate((input) => document.activeElement === input), true);
    assert.deepEqual(sent, []);
  });

  onPage("everything is done with the keyboard alone, and the focus is never lost", async (page) => {
    await ready(page);
    const focused = () =>
      page.evaluate(() => {
        const { activeElement: at } = document;
        if (at === document.body) return "nothing";
        const style = getComputedStyle(at);
        const label = at.getAttribute("aria-label") ?? at.labels?.[0]?.textContent ?? at.textContent;
        return `${label.trim()}|${style.outlineStyle !== "none" && style.outlineWidth !== "0px"}`;
      });
    const order = [];
    for (let count = 0; count < 11; count += 1) {
      await page.keyboard.press("Tab");
      order.push(await focused());
    }
    const expected = [
      "Start session",
      "End session",
      "Clear everything",
      "Scheme code",
      "Amount",
      "Purchase",
      "Calls",
      "At a time",
      "Run benchmark",
      "Replay",
      "Tamper",
    ];
    assert.deepEqual(
      order,
      expected.map((label) => `${label}|true`),
    );
    await page.keyboard.press("Tab");
    assert.match(await focused(), /^What happened\|true/);

    const focus = (label) => button(page, label).focus();
    await focus("Start session");
    await page.keyboard.press("Enter");
    await pill(page, "Active").waitFor();
    assert.match(await focused(), /Start anew/);
    await page.getByLabel("Amount").focus();
    await page.keyboard.press("ControlOrMeta+A");
    await page.keyboard.type("77");
    await page.keyboard.press("Enter");
    await card(page, "Purchase").getByText("Status 200", { exact: true }).waitFor();
    assert.match(await focused(), /Amount/);
    await focus("End session");
    await page.keyboard.press("Space");
    await pill(page, "No session").waitFor();
    assert.match(await focused(), /End session/);
    await page.getByLabel("Calls", { exact: true }).focus();
    await page.keyboard.press("ControlOrMeta+A");
    await page.keyboard.type("5000");
    await focus("Run benchmark");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector('progress[aria-label="Calls made"]')?.value > 2);
    assert.match(await focused(), /Cancel benchmark/);
    await page.keyboard.press("Enter");
    await button(page, "Run benchmark").waitFor();
    await focus("Clear everything");
    await page.keyboard.press("Enter");
    await page.getByText("No answer yet.").waitFor();
    assert.match(await focused(), /Clear everything/);
  });

  looks(onPage, { button, card, fault, ready, purchase });

  onPage("no key material is in the console, the page or the browser's log", async (page) => {
    const spoken = [];
    page.on("console", (message) => spoken.push(message.text()));
    await ready(page);
    await purchase(page);
    const whole = `${await page.content()}${spoken.join()}`.replaceAll(/(src|href)="[^"]*"/g, "");
    const long = whole.match(/[A-Za-z0-9+/]{40,}={0,2}/g) ?? [];
    assert.deepEqual(long, [], "nothing on the page is as long as a key");
    assert.deepEqual(spoken, []);
  });
}
