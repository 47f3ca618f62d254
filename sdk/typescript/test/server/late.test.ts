/** What may change between the first byte of a sealed request and its admission: the clock, the session, the store's claims. */
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { Readable } from "node:stream";
import express from "express";
import fastify from "fastify";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  Gate,
  type GateOutcome,
  type GateRequest,
  MemoryStore,
  type SealedMessage,
  sealedExpress,
  sealedFastify,
  sealedFetch,
} from "../../src/server/index.js";
import { type Bytes, concat } from "../../src/wire/bytes.js";
import { ID, incoming, type Sealed, sealing2, sealingNative, stored } from "./sealing.js";

const WINDOW_MS = 1000;
const START_MS = Date.UTC(2030, 0, 1);

let store: MemoryStore;
let gate: Gate;
let closing: (() => unknown)[] = [];
/** Resolves when the last connection that a server took is closed at its end. */
let gone: Promise<unknown>;
const noteEnd = (socket: Socket) => {
  gone = new Promise((resolve) => socket.once("close", resolve));
};

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: START_MS });
  store = new MemoryStore(WINDOW_MS);
  gate = new Gate({ store, windowMs: WINDOW_MS, bodyTimeoutMs: 300 });
});
afterEach(async () => {
  vi.useRealTimers();
  for (const close of closing.reverse()) await close();
  closing = [];
});

async function sealedNative(stampMs: number, parts?: string[], target?: string): Promise<Sealed> {
  store.put(stored(3, START_MS + 600_000));
  return sealingNative(stampMs, parts, target);
}

async function sealed2(stampMs: number, target?: string): Promise<Sealed> {
  store.put(stored(2, START_MS + 600_000));
  return sealing2(stampMs, target);
}

/** A request whose body comes when it is let go; what happens in between is the test's. */
function held({ headers, frames }: Sealed): { incoming: GateRequest; asked: Promise<void>; release(): void } {
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  let ask: () => void = () => undefined;
  const asked = new Promise<void>((resolve) => {
    ask = resolve;
  });
  async function* body() {
    ask();
    await released;
    yield* frames;
  }
  return { incoming: { method: "POST", target: "/order", headers, body: body() }, asked, release };
}

async function outcome(opening: Promise<GateOutcome>): Promise<unknown> {
  const opened = await opening;
  if (opened.kind !== "refused") return opened.kind;
  const text = new TextDecoder().decode(opened.answer.body as Uint8Array);
  const members = JSON.parse(text) as { code?: string; error?: string };
  return members.code ?? members.error;
}

describe.each([
  ["wire 3", sealedNative, "clock_skew", "session_expired"],
  ["wire 2", sealed2, "CRYPTO_ERROR", "SESSION_EXPIRED"],
] as const)("%s, between the head of a request and its first frame", (_, seal, skew, over) => {
  it("time passes: a slow copy is not served after the first claim is forgotten", async () => {
    const request = await seal(START_MS + 900);
    expect(await outcome(gate.open(incoming(request)))).toBe("opened");
    vi.setSystemTime(START_MS + 1800);
    const copy = held(request);
    const opening = outcome(gate.open(copy.incoming));
    await copy.asked;
    // Its claim was kept for twice the window.
    vi.setSystemTime(START_MS + 2 * WINDOW_MS + 2);
    copy.release();
    expect(await opening).toBe(skew);
  });

  it("the session is revoked: the request is not served", async () => {
    const request = held(await seal(START_MS));
    const opening = outcome(gate.open(request.incoming));
    await request.asked;
    store.delete(ID);
    request.release();
    expect(await opening).toBe(over);
  });

  it("the session expires: the request is not served", async () => {
    const sealed = await seal(START_MS + 900);
    store.put(stored(seal === sealedNative ? 3 : 2, START_MS + 500));
    const request = held(sealed);
    const opening = outcome(gate.open(request.incoming));
    await request.asked;
    vi.setSystemTime(START_MS + 600);
    request.release();
    expect(await opening).toBe(over);
  });

  it("a body that drips has the same deadline as one that stalls", async () => {
    const { headers, frames } = await seal(START_MS);
    let isWanted = true;
    async function* drip() {
      for (const byte of concat(...frames).subarray(0, -1)) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        if (!isWanted) return;
        yield Uint8Array.of(byte);
      }
      await new Promise(() => undefined);
    }
    const begin = performance.now();
    const opening = gate.open({ method: "POST", target: "/order", headers, body: drip() });
    const late = new Promise<"still read">((resolve) => setTimeout(resolve, 1500, "still read"));
    expect(await Promise.race([outcome(opening), late])).not.toBe("still read");
    expect(performance.now() - begin).toBeGreaterThan(250);
    isWanted = false;
  });
});

describe("the store in memory", () => {
  const claim = (stampMs: number, fill = 1) => ({
    key: new Uint8Array(16).fill(fill),
    sealed: true,
    stampMs,
  });

  it("rejects a claim whose stamp is outside its own clock's window", async () => {
    expect(await store.claim(claim(START_MS - WINDOW_MS - 1))).toBe("outside_window");
    expect(await store.claim(claim(START_MS + WINDOW_MS + 1))).toBe("outside_window");
    expect(await store.claim(claim(START_MS + WINDOW_MS))).toBe("fresh");
  });

  it("rejects stamps older than what it forgot when the clock is set back", async () => {
    expect(await store.claim(claim(START_MS))).toBe("fresh");
    vi.setSystemTime(START_MS + 3_600_000);
    expect(await store.claim(claim(START_MS + 3_600_000, 2))).toBe("fresh");
    vi.setSystemTime(START_MS);
    expect(await store.claim(claim(START_MS))).toBe("outside_window");
  });
});

/** The end of a handler: by its signal, or none. */
type Ended = "aborted" | "flows on";

/** A handler that says that it began, and waits for its signal. */
function waiting() {
  let begin: () => void = () => undefined;
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  let end: (signal: AbortSignal) => void = () => undefined;
  const ended = new Promise<AbortSignal>((resolve) => {
    end = resolve;
  });
  const run = async (signal: AbortSignal | undefined): Promise<string> => {
    begin();
    if (signal === undefined) return "no signal";
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    end(signal);
    return "a balance";
  };
  const late = new Promise<Ended>((resolve) => setTimeout(resolve, 8000, "flows on"));
  return { begun, run, ended: () => Promise.race([ended.then((): Ended => "aborted"), late]) };
}

/**
 * A server on a free port. /order answers a tick each 50 ms for as long as it may; /wait does what `run` does with the signal of
 * the request; /at-once answers, and gives its signal to `run` then.
 */
async function listening(kind: "express" | "fastify", run = waiting().run): Promise<number> {
  const options = { store, windowMs: WINDOW_MS, bodyTimeoutMs: 60_000 };
  if (kind === "express") {
    const app = express();
    app.use(sealedExpress(options));
    app.all("/order", (_, response) => {
      const timer = setInterval(() => response.write("tick"), 50);
      response.on("close", () => clearInterval(timer));
    });
    app.all("/wait", async (request, response) => {
      response.send(await run((request as unknown as SealedMessage).signal));
    });
    app.all("/at-once", (request, response) => {
      response.send("a balance");
      response.on("close", () => run((request as unknown as SealedMessage).signal));
    });
    const server = createServer(app).on("connection", noteEnd);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closing.push(() => server.close());
    return (server.address() as AddressInfo).port;
  }
  const app = fastify();
  app.register(sealedFastify, options);
  app.addContentTypeParser("*", (_, payload, done) => done(null, payload));
  app.all("/order", async (request, reply) => {
    async function* ticks() {
      for await (const _ of request.body as AsyncIterable<Uint8Array>) break;
      for (;;) {
        yield Buffer.from("tick");
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
    return reply.send(Readable.from(ticks(), { objectMode: false }));
  });
  app.all("/wait", async (request) => {
    // Of wire 2 it is parsed.
    if (request.body instanceof Readable) for await (const _ of request.body);
    return run(request.signal);
  });
  app.server.on("connection", noteEnd);
  closing.push(() => app.close());
  return Number(new URL(await app.listen({ port: 0, host: "127.0.0.1" })).port);
}

/** Sends a sealed request over a socket of its own. */
function sent(
  port: number,
  path: string,
  { headers, frames }: Sealed,
  onData: (data: Buffer) => void,
): Socket {
  const body = concat(...frames);
  const head = [...headers, ["Host", "127.0.0.1"], ["Content-Length", String(body.length)]];
  const socket = connect(port, "127.0.0.1", () => {
    socket.write(`POST ${path} HTTP/1.1\r\n${head.map((each) => each.join(": ")).join("\r\n")}\r\n\r\n`);
    socket.write(body);
  });
  socket.on("data", onData);
  closing.push(() => socket.destroy());
  return socket;
}

describe.each(["express", "fastify"] as const)("a stream in flight, with %s", (kind) => {
  it.each(["revoked", "over"])("is cut within a second after its session is %s", async (how) => {
    vi.useRealTimers();
    const request = await sealedNative(Date.now());
    store.put(stored(3, Date.now() + 600_000));
    const port = await listening(kind);
    let text = "";
    let begin: () => void = () => undefined;
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const socket = sent(port, "/order", request, (data) => {
      text += data.toString("latin1");
      if (text.length > 1500) begin();
    });
    const cut = new Promise<number>((resolve, reject) => {
      socket.on("close", () =>
        text.endsWith("0\r\n\r\n") ? reject(new Error("ended as whole")) : resolve(0),
      );
      socket.on("error", () => resolve(0));
    });
    await begun;
    if (how === "revoked") store.delete(ID);
    else store.put(stored(3, Date.now()));
    const late = new Promise<string>((resolve) => setTimeout(resolve, 4000, "flows on"));
    expect(await Promise.race([cut, late])).toBe(0);
  });
});

describe.each(["express", "fastify"] as const)("a running handler, with %s", (kind) => {
  it.each(["revoked", "over"])("sees by its signal that its session is %s", async (how) => {
    vi.useRealTimers();
    const request = await sealedNative(Date.now(), ["{}"], "/wait");
    store.put(stored(3, Date.now() + 600_000));
    const work = waiting();
    const port = await listening(kind, work.run);
    const answer = new Promise<string>((resolve) => {
      sent(port, "/wait", request, (data) => resolve(data.toString("latin1")));
    });
    await work.begun;
    if (how === "revoked") store.delete(ID);
    else store.put(stored(3, Date.now()));
    expect(await work.ended()).toBe("aborted");
    expect(await answer).toMatch(/^HTTP\/1.1 401 /);
  });

  it.each([3, 2])("sees by its signal that its client left, on wire %s", async (wire) => {
    vi.useRealTimers();
    const request =
      wire === 3 ? await sealedNative(Date.now(), ["{}"], "/wait") : await sealed2(Date.now(), "/wait");
    store.put(stored(wire, Date.now() + 600_000));
    const work = waiting();
    const socket = sent(await listening(kind, work.run), "/wait", request, () => undefined);
    await work.begun;
    socket.destroy();
    expect(await work.ended()).toBe("aborted");
  });
});

describe.each(["express", "fastify"] as const)(
  "a client that leaves before its handler starts, with %s",
  (kind) => {
    it("is reported by the signal", async () => {
      vi.useRealTimers();
      const request = await sealedNative(Date.now(), ["{}"], "/wait");
      store.put(stored(3, Date.now() + 600_000));
      let grant: () => void = () => undefined;
      const claim = store.claim.bind(store);
      const claiming = new Promise<void>((resolve) => {
        store.claim = async (asked) => {
          resolve();
          await new Promise<void>((granted) => {
            grant = granted;
          });
          return claim(asked);
        };
      });
      let tell: (signal: AbortSignal | undefined) => void = () => undefined;
      const told = new Promise<AbortSignal | undefined>((resolve) => {
        tell = resolve;
      });
      const run = async (signal: AbortSignal | undefined) => {
        tell(signal);
        return "";
      };
      const socket = sent(await listening(kind, run), "/wait", request, () => undefined);
      await claiming;
      socket.destroy();
      await gone;
      await new Promise((resolve) => setImmediate(resolve));
      grant();
      expect((await told)?.aborted).toBe(true);
    });
  },
);

it("a signal does not fire after its answer was sent", async () => {
  vi.useRealTimers();
  const request = await sealedNative(Date.now(), ["{}"], "/at-once");
  store.put(stored(3, Date.now() + 600_000));
  const over = new Promise<AbortSignal | undefined>((resolve) => {
    const run = async (signal: AbortSignal | undefined) => {
      resolve(signal);
      return "";
    };
    listening("express", run).then((port) => sent(port, "/at-once", request, () => undefined));
  });
  expect((await over)?.aborted).toBe(false);
});

it("a request whose body still arrives is cut within a second after its session is revoked", async () => {
  vi.useRealTimers();
  const { headers, frames } = await sealedNative(Date.now(), ["one", "two"]);
  store.put(stored(3, Date.now() + 600_000));
  let wasWhole = false;
  let begin: () => void = () => undefined;
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const handle = sealedFetch({ store, bodyTimeoutMs: 60_000 }, async (request) => {
    begin();
    await request.text();
    wasWhole = true;
    return new Response("bought");
  });
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(frames[0] as Bytes),
  });
  const init: RequestInit & { duplex: "half" } = { method: "POST", headers, body, duplex: "half" };
  const answering = handle(new Request("http://api.test/order", init)).then(
    () => "answered",
    () => "broke off",
  );
  await begun;
  store.delete(ID);
  const late = new Promise<string>((resolve) => setTimeout(resolve, 4000, "waits on"));
  expect(await Promise.race([answering, late])).toBe("broke off");
  expect(wasWhole).toBe(false);
});

it.each(["revoked", "over", "gone"])(
  "a handler of requests and answers sees by its signal: %s",
  async (how) => {
    vi.useRealTimers();
    const { headers, frames } = await sealedNative(Date.now());
    store.put(stored(3, Date.now() + 600_000));
    const work = waiting();
    const handle = sealedFetch({ store, windowMs: WINDOW_MS }, async (request) => {
      await request.text();
      return new Response(await work.run(request.signal));
    });
    const client = new AbortController();
    const init = { method: "POST", headers, body: frames[0] as BodyInit, signal: client.signal };
    const answering = handle(new Request("http://a/order", init));
    await work.begun;
    if (how === "revoked") store.delete(ID);
    else if (how === "over") store.put(stored(3, Date.now()));
    else client.abort();
    expect(await work.ended()).toBe("aborted");
    const { status } = await answering;
    if (how !== "gone") expect(status).toBe(401);
  },
);

it("a handler of requests and answers sees a client that left before", async () => {
  const { headers, frames } = await sealedNative(START_MS);
  const client = new AbortController();
  const claim = store.claim.bind(store);
  store.claim = (asked) => {
    client.abort();
    return claim(asked);
  };
  const seen: boolean[] = [];
  const handle = sealedFetch({ store, windowMs: WINDOW_MS }, ({ signal }) => {
    seen.push(signal.aborted);
    return new Response("a balance");
  });
  const init = { method: "POST", headers, body: frames[0] as BodyInit, signal: client.signal };
  await handle(new Request("http://a/order", init));
  expect(seen).toEqual([true]);
});

it("a whole request whose session is revoked before its answer begins is rejected", async () => {
  const { headers, frames } = await sealedNative(START_MS);
  let begun = () => {};
  const hasBegun = new Promise<void>((resolve) => (begun = resolve));
  let release = () => {};
  const isReleased = new Promise<void>((resolve) => (release = resolve));
  const handle = sealedFetch({ store, windowMs: WINDOW_MS }, async (request) => {
    await request.text();
    begun();
    await isReleased;
    return new Response("a balance");
  });
  const answering = handle(
    new Request("http://a/order", { method: "POST", headers, body: frames[0] as BodyInit }),
  );
  await hasBegun;
  store.delete(ID);
  release();
  const answer = await answering;
  expect([answer.status, answer.headers.get("x-seal")]).toEqual([401, null]);
});

it("a session ends at its own time while its store is unavailable, and not before", async () => {
  const sealed = [await sealedNative(START_MS), await sealedNative(START_MS)];
  store.put(stored(3, START_MS + 500));
  const calls = [];
  for (const each of sealed) {
    const opened = await gate.open(incoming(each));
    if (opened.kind !== "opened") throw new Error("it was not opened");
    calls.push(opened.call);
  }
  store.get = () => Promise.reject(new Error("away"));
  const statuses: (number | undefined)[] = [];
  for (const [at, after] of [499, 500].entries()) {
    vi.setSystemTime(START_MS + after);
    statuses.push((await calls[at]?.seal(200, [], undefined))?.status);
  }
  expect(statuses).toEqual([200, 401]);
});
