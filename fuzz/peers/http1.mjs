// HTTP/1 as Node reads it, with llhttp: a connection in JSON a line, and what was read of it a line.
//
// A question has "input", what the peer sends, in hexadecimal. With "method", it is the answer to a request with this method. The
// answer has "messages", those that are complete, and "end": "clean", "incomplete", or the code of an error.

import http from "node:http";
import { createInterface } from "node:readline";
import { Duplex } from "node:stream";

const latin1 = (text) => Buffer.from(text, "latin1").toString("hex");
const turns = async (count) => {
  for (let turn = 0; turn < count; turn += 1) await new Promise((done) => setImmediate(done));
};

/** A connection in memory: its peer sends the input and then ends, and takes everything. */
class Connection extends Duplex {
  constructor() {
    super({ autoDestroy: true });
    this.closed_ = new Promise((done) => this.once("close", done));
  }
  _read() {}
  _write(_chunk, _encoding, done) {
    done();
  }
  setTimeout() {
    return this;
  }
  setNoDelay() {}
  setKeepAlive() {}
  ref() {}
  unref() {}
  async send(input) {
    if (input.length > 0) this.push(input);
    // All that the input leads to happens before its end arrives.
    await turns(6);
    this.push(null);
    await turns(4);
    this.destroy();
    await this.closed_;
  }
}

function messageOf(incoming, start) {
  const message = { ...start, headers: incoming.rawHeaders.map(latin1), body: "", complete: false };
  incoming.on("data", (data) => (message.body += data.toString("hex")));
  incoming.on("end", () => (message.complete = incoming.complete));
  incoming.on("error", () => {});
  return message;
}

/** Returns the end after an error: the code of the parser says more than that of the connection that it led to. */
function endAfter(end, code) {
  if (!["HPE_INVALID_EOF_STATE", "ECONNRESET"].includes(code)) return code;
  return end === "clean" ? "incomplete" : end;
}

async function requests(input) {
  const connection = new Connection();
  const messages = [];
  let end = "clean";
  const server = http.createServer({
    requireHostHeader: false,
    requestTimeout: 0,
    headersTimeout: 0,
    keepAliveTimeout: 0,
    connectionsCheckingInterval: 1 << 30,
    maxHeaderSize: 65536,
  });
  const take = (request, response) => {
    const message = messageOf(request, { method: request.method, target: latin1(request.url) });
    messages.push(message);
    request.on("end", () => response?.end());
  };
  for (const event of ["request", "checkContinue", "checkExpectation"]) server.on(event, take);
  server.on("connect", (request) => {
    messages.push({ ...messageOf(request, { method: request.method, target: latin1(request.url) }), complete: true });
    connection.destroy();
  });
  server.on("clientError", (error, socket) => {
    end = endAfter(end, error.code);
    socket.destroy();
  });
  server.emit("connection", connection);
  await connection.send(input);
  server.close();
  const complete = messages.filter((message) => message.complete);
  if (complete.length < messages.length && end === "clean") end = "incomplete";
  return { messages: complete, end };
}

async function response(input, method) {
  const connection = new Connection();
  const messages = [];
  let end = "clean";
  const request = http.request({ method, path: "/", createConnection: () => connection, agent: undefined, maxHeaderSize: 65536 });
  const take = (incoming) => messages.push(messageOf(incoming, { status: incoming.statusCode }));
  request.on("response", (incoming) => {
    take(incoming);
    incoming.on("error", (error) => (end = endAfter(end, error.code)));
  });
  for (const event of ["upgrade", "connect"]) {
    request.on(event, (incoming) => messages.push({ ...messageOf(incoming, { status: incoming.statusCode }), complete: true }));
  }
  request.on("error", (error) => (end = endAfter(end, error.code)));
  request.end();
  await turns(2);
  await connection.send(input);
  const complete = messages.filter((message) => message.complete);
  if (complete.length < messages.length && end === "clean") end = "incomplete";
  return { messages: complete, end };
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const question = JSON.parse(line);
  const input = Buffer.from(question.input, "hex");
  const answer = question.method === undefined ? await requests(input) : await response(input, question.method);
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
