import assert from "node:assert/strict";
import test from "node:test";
import {
  ConfigError,
  checkForm,
  countdown,
  defaultService,
  linked,
  loadConfig,
  millis,
  parseConfig,
  shortened,
  spoken,
} from "../dist/index.js";
import { flowingHex, utf8Length } from "../dist/text.js";

const PAGE = "http://localhost:8080/shop/";

test("without a config.json the service is the page's own origin", () => {
  assert.deepEqual(parseConfig("{}", PAGE), {
    sessionUrl: "http://localhost:8080",
    serverUrl: "http://localhost:8080",
    pins: [],
  });
});

test("a page of a development server looks for the service on port 3000", () => {
  assert.equal(defaultService("http://localhost:4200/"), "http://localhost:3000");
  assert.equal(defaultService("http://127.0.0.1:4201/x"), "http://127.0.0.1:3000");
});

test("the service of calls is the service of sessions unless it is named", () => {
  const config = parseConfig('{"session_url":"https://a.example/base/","pins":["00112233445566778899aabbccddeeff"]}', PAGE);
  assert.deepEqual(config, {
    sessionUrl: "https://a.example/base",
    serverUrl: "https://a.example/base",
    pins: ["00112233445566778899aabbccddeeff"],
  });
  assert.equal(parseConfig('{"server_url":"https://b.example"}', PAGE).serverUrl, "https://b.example");
});

test("a config.json of a wrong form is refused and its member named", () => {
  const wrong = [
    ["no json", /not JSON/],
    ["[]", /not an object/],
    ['{"session_url":7}', /session_url/],
    ['{"server_url":"ftp://a"}', /server_url/],
    ['{"session_url":"https://a/?b"}', /session_url/],
    ['{"pins":"a"}', /pins/],
    ['{"pins":[""]}', /pins/],
    ['{"one_shot_pins":"a"}', /one_shot_pins/],
    ['{"one_shot_pins":[]}', /one_shot_pins is empty/],
    [`{"pins":${JSON.stringify(Array(17).fill("a"))}}`, /pins/],
  ];
  for (const [text, name] of wrong) {
    assert.throws(
      () => parseConfig(text, PAGE),
      (error) => error instanceof ConfigError && name.test(error.message),
      text,
    );
  }
});

test("an empty list of pins does not turn pinning off in silence", () => {
  assert.throws(() => parseConfig('{"pins":[]}', PAGE), /first use/);
});

test("a config.json that is missing is none, one that cannot be had is an error", async () => {
  assert.deepEqual((await loadConfig(PAGE, async () => new Response("", { status: 404 }))).pins, []);
  const page = new Response("<!doctype html>", { headers: { "content-type": "text/html" } });
  assert.deepEqual((await loadConfig(PAGE, async () => page)).pins, []);
  await assert.rejects(
    loadConfig(PAGE, async () => new Response("", { status: 500 })),
    /500/,
  );
  await assert.rejects(
    loadConfig(PAGE, async () => Promise.reject(new TypeError("x"))),
    ConfigError,
  );
  await assert.rejects(
    loadConfig(PAGE, async () => new Response(" ".repeat(20_000))),
    /too long/,
  );
});

test("config.json is looked for beside the page", async () => {
  let asked;
  await loadConfig(PAGE, async (url) => {
    asked = String(url);
    return new Response("{}");
  });
  assert.equal(asked, "http://localhost:8080/shop/config.json");
});

test("a countdown ends with 0:00 and not before", () => {
  const cases = [
    [1_800_000, "30:00"],
    [59_001, "1:00"],
    [1, "0:01"],
    [0, "0:00"],
    [-5, "0:00"],
    [3_723_000, "1:02:03"],
  ];
  for (const [ms, text] of cases) assert.equal(countdown(ms), text);
});

test("times are told with as many digits as mean something", () => {
  assert.deepEqual([0.123, 4.26, 99.96, 1234.4, Number.NaN].map(millis), ["0.12", "4.3", "100.0", "1,234", "–"]);
  assert.deepEqual([1000, 45_000, 1_800_000].map(spoken), ["1 second", "45 seconds", "30 minutes"]);
  assert.equal(shortened("S-0123456789abcdefghij", 4), "S-01…ghij");
  assert.equal(shortened("short", 4), "short");
});

test("bytes are shown in hexadecimal, a long body not to its end", () => {
  assert.equal(flowingHex(Uint8Array.of(0, 10, 255)), "00 0a ff");
  assert.equal(flowingHex(new Uint8Array(0)), "");
  const long = flowingHex(new Uint8Array(515));
  assert.ok(long.endsWith("00 … and 3 more") && long.startsWith("00 00 "), long.slice(-40));
  assert.equal(utf8Length("né"), 3);
});

test("a form is checked field by field", () => {
  assert.deepEqual(checkForm({ schemeCode: "AEF", amount: "12.5" }), {});
  for (const amount of ["", " ", "x", "0", "-1", "Infinity", "1e99"])
    assert.ok(checkForm({ schemeCode: "A", amount }).amount, amount);
  assert.ok(checkForm({ schemeCode: "  ", amount: "1" }).schemeCode);
  assert.ok(checkForm({ schemeCode: "x".repeat(65), amount: "1" }).schemeCode);
});

test("a link names a pin, where the page's own configuration names none", () => {
  const config = parseConfig("{}", PAGE);
  const pin = "e0eb06f492cf0fcf8180213c44c459af";
  assert.deepEqual(linked(config, `${PAGE}#pin=${pin}`).pins, [pin]);
  for (const hash of ["", "#", "#pin=", "#pin=E0", `#pin=${pin}0`, `#x&pin=${pin}`]) {
    assert.deepEqual(linked(config, PAGE + hash).pins, [], hash);
  }
  const pinned = parseConfig('{"pins":["00000000000000000000000000000000"]}', PAGE);
  assert.equal(linked(pinned, `${PAGE}#pin=${pin}`), pinned);
});
