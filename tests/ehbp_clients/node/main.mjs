// The published client of the Encrypted HTTP Body Protocol, unchanged, at a gateway. See ../README.md.
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { createTransport, KeyConfigMismatchError } from "ehbp";

const [base] = process.argv.slice(2);
const transport = await createTransport(base);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

function bytes(length) {
  const made = new Uint8Array(length);
  for (let at = 0; at < length; at += 1) made[at] = (at * 31 + 7) % 251;
  return made;
}

for (const length of [1, 64 * 1024, 8 * 1024 * 1024]) {
  for (const route of ["v1", "stream"]) {
    const sent = bytes(length);
    const answer = await transport.post(`${base}/${route}/echo`, sent);
    assert.equal(answer.status, 200);
    assert.ok(Buffer.from(await answer.arrayBuffer()).equals(Buffer.from(sent)), `${length} bytes by ${route}`);
  }
}

const own = await transport.post(`${base}/v1/500`, "x");
assert.equal(own.status, 500);
assert.equal(await own.text(), '{"error":"own"}');

// The parts of a streamed answer arrive one by one: the service waits for a line of this program before the second.
const streamed = await transport.post(`${base}/v1/parts`, "x");
const reader = streamed.body.getReader();
let text = "";
const decoder = new TextDecoder();
while (!text.includes("one")) text += decoder.decode((await reader.read()).value);
console.log("first part");
for (;;) {
  const { done, value } = await reader.read();
  if (done) break;
  text += decoder.decode(value);
}
assert.equal(text, "one,two");

const plain = await transport.get(`${base}/bodyless/echo`);
assert.equal(plain.status, 200);

console.log("retire");
await lines.next();
await assert.rejects(transport.post(`${base}/v1/echo`, "x"), KeyConfigMismatchError);
const renewed = await createTransport(base);
assert.equal(await (await renewed.post(`${base}/v1/echo`, "again")).text(), "again");
console.log("done");
process.exit(0);
