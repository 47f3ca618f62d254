// Checks the docs site in a real browser. Its one argument is JSON:
// { "folder": the site, "all": check each page for accessibility and not a few alone, "shots": a folder for pictures, or absent }.
// Exits with 0 if everything holds; otherwise each fault is a line of its output. It fetches nothing from elsewhere: links to
// other sites are counted and written to external-links.txt beside the site.

import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { chromium } from "playwright-core";

const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** The site is published below a path of some host, so it must work below one. */
const BASE = "/some/path/";
/** Pages that every run checks for accessibility, in both colour schemes and on a phone. */
const SAMPLE = [
  "index.html",
  "docs/guides/reverse-proxy.html",
  "docs/reference/errors.html",
  "errors/session_expired.html",
  "docs/explanation/which-part.html",
  "docs/explanation/comparison.html",
];
/** Words that a reader may look for, with a page that must be among the results. */
const SEARCHES = [
  ["unsealable", "errors/unsealable.html"],
  ["embedded journal", "docs/adr/0005-memory-serves-redb-journals.html"],
  ["relay node-cert", "docs/guides/relay.html"],
];
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css", svg: "image/svg+xml", png: "image/png" };

const { folder, all, shots } = JSON.parse(process.argv[2]);
const faults = [];

const files = new Set(
  (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name))),
);
/** Files that a generator of API documents wrote, and mdBook did not. */
const isForeign = (file) => /^api\/(rust|typescript|java|python)\//.test(file);
const pages = [...files].filter((file) => file.endsWith(".html") && !isForeign(file)).sort();

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url, "http://localhost");
  const file = pathname.startsWith(BASE) ? pathname.slice(BASE.length) : null;
  if (!files.has(file)) {
    if (!isForeign(file ?? "")) faults.push(`${request.headers.referer ?? "the browser"} asked for ${pathname}, which is not on the site`);
    return response.writeHead(404).end();
  }
  response.writeHead(200, { "Content-Type": TYPES[file.split(".").pop()] ?? "application/octet-stream" });
  response.end(await readFile(path.join(folder, file)));
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const origin = `http://127.0.0.1:${server.address().port}`;
const at = (page) => origin + BASE + page;

const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });

/** A page that notes all requests to another host and, unless `foreign`, all complaints of the browser. */
async function opened({ foreign = false, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  await context.route(
    (url) => url.origin !== origin,
    (route) => {
      faults.push(`${route.request().frame().url()} fetches ${route.request().url()} from elsewhere`);
      return route.abort();
    },
  );
  const page = await context.newPage();
  page.setDefaultTimeout(20000);
  if (foreign) return page;
  page.on("pageerror", (error) => faults.push(`${page.url()}: ${error.message}`));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) faults.push(`${page.url()}: ${message.text()}`);
  });
  return page;
}

/** Every link of every page leads to a file of the site, and to an element of that page where it has an anchor. */
async function checkLinks() {
  const page = await opened();
  await page.goto(at("index.html"));
  const found = await page.evaluate(
    (urls) =>
      Promise.all(
        urls.map(async (url) => {
          const parsed = new DOMParser().parseFromString(await (await fetch(url)).text(), "text/html");
          const values = (selector, name) => [...parsed.querySelectorAll(selector)].map((element) => element.getAttribute(name));
          return {
            ids: values("[id]", "id"),
            links: values("a[href], area[href]", "href"),
            resources: [...values("[src]", "src"), ...values("link[href]", "href")],
          };
        }),
      ),
    pages.map(at),
  );
  await page.context().close();

  const ids = new Map(pages.map((name, index) => [name, new Set(found[index].ids)]));
  const external = new Map();
  let count = 0;
  for (const [index, name] of pages.entries()) {
    const { links, resources } = found[index];
    for (const link of [...links, ...resources]) {
      const url = new URL(link, at(name));
      if (url.origin !== origin) {
        if (resources.includes(link) && url.protocol !== "data:") faults.push(`${name}: loads ${link} from elsewhere`);
        external.set(link, (external.get(link) ?? new Set()).add(name));
        continue;
      }
      count += 1;
      const target = decodeURIComponent(url.pathname).replace(BASE, "").replace(/(^|\/)$/, "$1index.html");
      const anchor = decodeURIComponent(url.hash.slice(1));
      if (!files.has(target)) faults.push(`${name}: the link ${link} leads nowhere`);
      else if (anchor && ids.has(target) && !ids.get(target).has(anchor)) faults.push(`${name}: the link ${link} has no such anchor`);
    }
  }
  for (const file of [...files].filter((file) => file.endsWith(".css") && !isForeign(file))) {
    const loaded = (await readFile(path.join(folder, file), "utf8")).match(/(?:url\(|@import)\s*["']?(?:https?:)?\/\/[^"')]*/);
    if (loaded) faults.push(`${file}: ${loaded[0]} is from elsewhere`);
  }
  const list = [...external].sort().map(([link, names]) => `${link}  in ${[...names].join(", ")}\n`);
  await writeFile(path.join(folder, "../site-external-links.txt"), list.join(""));
  console.log(`site: ${count} links and anchors of ${pages.length} pages; ${external.size} to other sites, not fetched, in target/site-external-links.txt`);
}

/** The API documents load, and nothing of them from elsewhere. Their generators check their links. */
async function checkApi() {
  const page = await opened({ foreign: true });
  await page.goto(at("api/index.html"));
  const links = await page.locator("main a[href$='index.html']").evaluateAll((links) => links.map(({ href }) => href));
  for (const link of links.filter((link) => link.startsWith(at("api/")))) await page.goto(link, { waitUntil: "networkidle" });
  await page.context().close();
}

/** A word that is typed gives results, and a result leads to a page with that word. */
async function checkSearch() {
  const page = await opened();
  for (const [words, expected] of SEARCHES) {
    await page.goto(at("docs/index.html"));
    await page.keyboard.press("s");
    await page.getByRole("searchbox", { name: "Search" }).pressSequentially(words);
    const results = page.locator("#mdbook-searchresults a");
    await results.first().waitFor().catch(() => {});
    const links = await results.evaluateAll((links) => links.map((link) => link.href));
    if (words === SEARCHES[0][0]) await checkAxe(page, `results of "${words}"`);
    const index = links.findIndex((link) => link.startsWith(at(expected)));
    if (index < 0) {
      faults.push(`search: "${words}" does not find ${expected}, but ${links.join(", ") || "nothing"}`);
      continue;
    }
    await results.nth(index).click();
    await page.waitForURL((url) => url.href.startsWith(at(expected)));
    assert.match((await page.locator("main").textContent()).toLowerCase(), new RegExp(words.split(" ")[0]));
  }
  await page.context().close();
}

async function checkAxe(page, where) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  for (const { id, nodes } of violations) {
    const found = nodes.slice(0, 3).map(({ target, html }) => `${target.join(" ")} ${html.slice(0, 120)}`);
    faults.push(`${where}: axe: ${id} at ${found.join("; ")}`);
  }
}

/** No finding of axe, no picture that is missing, nothing wider than the screen. */
async function checkLook(names, scheme, viewport) {
  const page = await opened({ colorScheme: scheme, viewport });
  for (const name of names) {
    await page.goto(at(name));
    const seen = await page.evaluate(() => ({
      lost: [...document.images].filter((image) => image.complete && image.naturalWidth === 0).map((image) => image.src),
      wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
      scheme: getComputedStyle(document.documentElement).colorScheme,
    }));
    const where = `${name} (${scheme}, ${viewport.width} px)`;
    await checkAxe(page, where);
    if (seen.scheme !== scheme) faults.push(`${where}: is ${seen.scheme}`);
    for (const source of seen.lost) faults.push(`${where}: the picture ${source} does not load`);
    if (seen.wide) faults.push(`${where}: is wider than the screen`);
    if (shots) await page.screenshot({ path: path.join(shots, `${name.replaceAll("/", "-")}-${scheme}-${viewport.width}.png`), fullPage: true });
  }
  await page.context().close();
}

const desktop = { width: 1280, height: 900 };
const phone = { width: 390, height: 844 };
// toc.html is in a frame for readers without scripts, the pages of files hold code alone, and those of errors are alike.
const looked = all ? pages.filter((name) => !/^toc\.html$|\.\w+\.html$|^errors\/(?!session_expired)/.test(name)) : SAMPLE;
try {
  for (const name of SAMPLE) assert.ok(files.has(name), `${name} is missing from the site`);
  await checkLinks();
  await checkSearch();
  if (all) await checkApi();
  await checkLook(looked, "light", desktop);
  await checkLook(looked, "dark", desktop);
  await checkLook(SAMPLE, "dark", phone);
} catch (error) {
  faults.push(error.message);
} finally {
  await browser.close();
  server.close();
}
for (const fault of new Set(faults)) console.log(fault);
if (faults.length > 0) process.exitCode = 1;
else console.log(`site: search, and axe on ${looked.length} pages in light and dark: no findings`);
