// Opens a WebSocket in a real browser over the connection of HTTP/2 that has loaded its page (RFC 8441). Its one argument is JSON:
// { "url": the page, "admin": the connections of its listener, "token": of the admin listener, "browser" }.
// Exits with 0 when everything was as it must be; else the first thing that was not is the last line of its output.

import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const { url, admin, token, browser: executablePath } = JSON.parse(process.argv[2]);
const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--ignore-certificate-errors"];
const browser = await chromium.launch({ executablePath, args });
const page = await browser.newPage();
page.setDefaultTimeout(30000);
assert.equal((await page.goto(url)).status(), 200);

const said = await page.evaluate(async () => {
  const socket = new WebSocket(new URL("/echo", location.href.replace("https", "wss")), "chat");
  globalThis.socket = socket;
  socket.binaryType = "arraybuffer";
  const next = () =>
    new Promise((resolve, reject) => {
      socket.onmessage = (event) => resolve(event.data);
      socket.onclose = (event) => reject(new Error(`closed with ${event.code}`));
    });
  const view = await next();
  const echoed = async (message) => {
    const answer = next();
    socket.send(message);
    return answer;
  };
  const text = await echoed("text ✓");
  const large = await echoed(new Uint8Array(1 << 20).fill(7));
  return { view, text, large: large.byteLength, protocol: socket.protocol };
});
assert.equal(said.text, "text ✓");
assert.equal(said.large, 1 << 20);
assert.equal(said.protocol, "chat");
console.log(said.view);

// While it is open: the page and the socket share a connection, and none speaks HTTP/1.1.
const answer = await fetch(admin, { headers: { authorization: `Bearer ${token}` } });
const connections = await answer.json();
assert.deepEqual([...new Set(connections.map((each) => each.protocol))], ["h2+tls"], JSON.stringify(connections));
assert.ok(connections.some((each) => each.requests >= 2), JSON.stringify(connections));

const end = await page.evaluate(
  () =>
    new Promise((resolve) => {
      socket.onclose = ({ code, reason, wasClean }) => resolve({ code, reason, wasClean });
      socket.close(4001, "bye");
    }),
);
assert.deepEqual(end, { code: 4001, reason: "bye", wasClean: true });
await browser.close();
