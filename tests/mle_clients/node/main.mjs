// A client of a scheme, or a double of the scheme, by the published libraries for Node.
//
//     node main.mjs call SPEC     sends requests, and opens their answers
//     node main.mjs serve SPEC    prints its address, opens requests, and seals answers
//
// SPEC is described in ../README.md. It ends at the first difference, with the reason on standard error.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import http from "node:http";

import { check } from "./check.mjs";
import { libraryOf } from "./libraries.mjs";

/** The service's answer to a request, in turn; the number is prime, so that every body meets each of them. */
const TURNS = ["echo", "echo", "empty", "echo", "error", "echo", "get"];
/** The body of the service's error. */
const ERROR = '{"error":"DECLINED","reason":"nicht gedeckt 💳","code":51}';
/** The body of the service's answer to a request without one. */
const FOUND = '{"found":["é",1],"by":"get","card":{"pan":"5555555555554444"}}';

function clip(text) {
  return text.length > 300 ? `${text.slice(0, 300)}… (${text.length} bytes)` : text;
}

async function exchange(spec, agent, method, headers, body) {
  return await new Promise((resolve, reject) => {
    const request = http.request(spec.url, { method, headers, agent }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("end", () => resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(parts) }));
      answer.on("error", reject);
    });
    request.on("error", reject);
    request.end(body);
  });
}

async function call(spec) {
  const bodies = JSON.parse(readFileSync(spec.bodies, "utf8"));
  const library = await libraryOf(spec);
  const agent = new http.Agent({ keepAlive: true });
  for (let index = 0; index < spec.count; index++) {
    const turn = TURNS[index % TURNS.length];
    const text = bodies[index % bodies.length];
    const what = `round ${index}, ${turn}, ${clip(text)}:`;
    const headers = { "x-answer": turn };
    let sent;
    let body;
    if (turn !== "get") {
      sent = library.sent(text);
      body = await library.seal(text, "request", headers);
      Object.assign(headers, { "content-type": library.type, "content-length": body.length });
      await library.sign?.(body, headers);
      // In the shape `fields` the service gets its members in another order.
      if (spec.shape === "whole") headers["x-sent-sha256"] = createHash("sha256").update(sent).digest("hex");
      if (spec.profile === "visa") headers.keyid = spec.seal.kid;
    }
    const answer = await exchange(spec, agent, turn === "get" ? "GET" : "POST", headers, body);
    const status = { echo: 200, get: 200, empty: 204, error: 400 }[turn];
    check(answer.status === status, what, `status ${answer.status}`, answer.body.toString());
    if (turn === "empty" || (turn === "echo" && sent.length === 0)) {
      check(answer.body.length === 0, what, "the answer has a body", answer.body.toString());
      continue;
    }
    await library.verify?.(answer.body, answer.headers);
    const inClear = turn === "error" && spec.errors === "clear";
    if (inClear) check(answer.body.equals(Buffer.from(ERROR)), what, answer.body.toString());
    else if (spec.shape === "whole") library.checkSealed(answer, "answer");
    // A library of a scheme gets errors in clear too, and must leave them as they are.
    const opened = inClear && !library.opensAll ? ERROR : await library.open(answer.body, "answer", answer.headers);
    const expected = { echo: sent, error: ERROR, get: FOUND }[turn];
    check(library.isSame(opened, expected), what, clip(opened.toString()), "instead of", clip(expected.toString()));
  }
  agent.destroy();
  console.log(`${spec.count} round trips`);
}

async function serve(spec) {
  const library = await libraryOf(spec);
  const answerTo = async (request, body) => {
    const turn = request.headers["x-answer"];
    const headers = {};
    const sealed = async (text) => {
      const token = await library.seal(text, "answer", headers);
      await library.sign?.(token, headers);
      return token;
    };
    await library.verify?.(body, request.headers);
    if (request.method === "GET") return [200, await sealed(FOUND), headers];
    if (spec.shape === "whole" && body.length > 0) library.checkSealed({ headers: request.headers, body }, "request");
    const opened = body.length > 0 ? await library.open(body, "request", request.headers) : "";
    if (spec.shape === "fields") check(!body.includes('"card"'), "a field is in clear:", body.toString());
    if (turn === "empty") return [204];
    if (turn === "error") return [400, await sealed(ERROR), headers];
    if (turn === "clear-error") return [400, Buffer.from(ERROR)];
    return [200, await sealed(opened), headers];
  };
  const server = http.createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", async () => {
      try {
        const [status, sealed, metadata] = await answerTo(request, Buffer.concat(parts));
        const type = sealed?.equals(Buffer.from(ERROR)) ? "application/json" : library.type;
        const headers = { ...metadata, "content-type": type, "content-length": sealed?.length };
        response.writeHead(status, sealed ? headers : {});
        response.end(sealed);
      } catch (error) {
        console.error(error);
        process.exit(1);
      }
    });
  });
  server.listen(0, "127.0.0.1", () => console.log(`127.0.0.1:${server.address().port}`));
}

const [mode, text] = process.argv.slice(2);
const spec = JSON.parse(text);
// The SDK has some 1,500 files: only its own runs load them.
const sdk = spec.library === "cybersource-sdk" && (await import("./cybersource.mjs")).cybersource;
const run = sdk || { call, serve }[mode];
run(spec).catch((error) => {
  console.error(error);
  process.exit(1);
});
