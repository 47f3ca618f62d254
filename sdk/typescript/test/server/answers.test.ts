/** Answers that cannot be sealed, and those that nobody takes. */
import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { Gate, MemoryStore, type OpenCall, type ServerOptions } from "../../src/server/index.js";
import { sealResponse, send } from "../../src/server/node.js";
import { incoming, sealing2, sealingNative, stored } from "./sealing.js";

async function opened(wire: number, more: Partial<ServerOptions> = {}): Promise<OpenCall> {
  const store = new MemoryStore();
  store.put(stored(wire, Date.now() + 600_000));
  const request = incoming(await (wire === 3 ? sealingNative : sealing2)(Date.now()));
  const made = await new Gate({ store, ...more }).open(request);
  if (made.kind !== "opened") throw new Error("it was not opened");
  return made.call;
}

async function* parts(length: number, count: number) {
  for (let at = 0; at < count; at += 1) yield new Uint8Array(length);
}

describe("an answer of wire 2 over its bound", () => {
  it.each(["bytes", "a stream"])("is not sent: %s", async (how) => {
    const call = await opened(2, { answerMaxBytes: 1000 });
    const body = how === "bytes" ? new Uint8Array(1001) : parts(100, 11);
    expect((await call.seal(200, [], body)).status).toBe(502);
    const within = await opened(2, { answerMaxBytes: 1000 });
    expect((await within.seal(200, [], new Uint8Array(1000))).status).toBe(200);
  });
});

it.each([
  [204, 6200, 502],
  [204, 5800, 204],
  [200, 6200, 200],
])("an answer of status %s whose headers have %s bytes becomes %s", async (status, length, wanted) => {
  const call = await opened(3);
  const answer = await call.seal(status, [["x-own", "x".repeat(length)]], undefined);
  expect(answer.status).toBe(wanted);
  const inHeader = answer.headers.find(([name]) => name === "X-Sealed")?.[1];
  // What is longer no client takes.
  expect(inHeader?.length ?? 0).toBeLessThanOrEqual(8192);
});

it("an answer whose reader stops after the first frame ends its source", async () => {
  const call = await opened(3);
  let isEnded = false;
  const source = parts(1, 3);
  const body = {
    [Symbol.asyncIterator]: () => ({
      next: () => source.next(),
      return: async () => {
        isEnded = true;
        return { done: true as const, value: undefined };
      },
    }),
  };
  const answer = await call.seal(200, [], body);
  for await (const _ of answer.body as AsyncIterable<Uint8Array>) break;
  expect(isEnded).toBe(true);
});

/** A response whose client takes a part only on demand, and may go. */
class Response extends EventEmitter {
  destroyed = false;
  statusCode = 200;
  written = 0;
  write(_part: Uint8Array): boolean {
    if (!this.destroyed) this.written += 1;
    return false;
  }
  end(): this {
    return this;
  }
  flushHeaders(): void {}
  setHeader(): void {}
  removeHeader(): void {}
  getHeaders() {
    return {};
  }
  getHeaderNames(): string[] {
    return [];
  }
  go(): void {
    this.destroyed = true;
    this.emit("close");
  }
  destroy(): this {
    if (!this.destroyed) this.go();
    return this;
  }
}

const raw = (response: Response) => response as unknown as ServerResponse;
const turn = () => new Promise((resolve) => setImmediate(resolve));

it("a slow client leaves no listener behind for each part", async () => {
  const response = new Response();
  const sent = send(raw(response), { status: 200, headers: [], body: parts(1, 50) });
  for (let at = 0; at < 50; at += 1) {
    await turn();
    response.emit("drain");
  }
  await sent;
  expect([response.written, response.listenerCount("drain")]).toEqual([50, 0]);
  expect(response.listenerCount("close")).toBeLessThan(3);
});

it("a stream for a client that left is not awaited", async () => {
  const response = new Response();
  response.go();
  await send(raw(response), { status: 200, headers: [], body: parts(1, 50) });
  expect(response.written).toBe(0);
});

it("bytes that a handler writes for a client that left are not kept", async () => {
  const response = new Response();
  sealResponse(raw(response), await opened(3));
  expect(raw(response).write("begin")).toBe(true);
  response.go();
  const part = new Uint8Array(100_000);
  for (let at = 0; at < 10; at += 1) expect(raw(response).write(part)).toBe(true);
});
