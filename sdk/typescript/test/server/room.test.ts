/** The room for sealed bodies that still arrive: over sockets, from several addresses. */
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import express from "express";
import fastify from "fastify";
import { afterEach, describe, expect, it, vi } from "vitest";
import { nodeProvider as provider } from "../../src/crypto/node.js";
import { Gate } from "../../src/server/gate.js";
import {
  MemoryStore,
  type ServerOptions,
  sealedExpress,
  sealedFastify,
  sealedFetch,
} from "../../src/server/index.js";
import { clientOf, Room } from "../../src/server/room.js";
import { sealCompatRequest } from "../../src/session/compat/client.js";
import type { Seal } from "../../src/session/native/call.js";
import { beginRequest } from "../../src/session/native/client-call.js";
import { encodeInner } from "../../src/session/native/inner.js";
import { SessionKeys } from "../../src/session/native/keys.js";
import { FrameOpener, sealAll } from "../../src/session/native/stream.js";
import { concat, utf8 } from "../../src/wire/bytes.js";

const MIB = 1024 * 1024;
const key = Uint8Array.from(provider.random(32));
const expiresMs = Date.now() + 600_000;
const whole = { clientId: "tester", subject: undefined, tenant: undefined, auth: "none", key, expiresMs };
const idOf = (wire: number) => `S-${String(wire).repeat(32)}`;

const { holding } = Room.prototype;
let closing: (() => unknown)[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  for (const close of closing.reverse()) await close();
  closing = [];
});

interface TestServer {
  readonly kind: "express" | "fastify";
  readonly port: number;
  readonly room: Room;
  readonly refused: string[];
}

/** A server whose handlers read what they are sent. /throws does not; /early answers before it has. */
async function listening(kind: "express" | "fastify", more: Partial<ServerOptions>): Promise<TestServer> {
  const store = new MemoryStore();
  for (const wire of [1, 2, 3]) store.put({ ...whole, id: idOf(wire), wire });
  const refused: string[] = [];
  const options: ServerOptions = { store, onRefusal: ({ code }) => refused.push(code), ...more };
  let room: Room | undefined;
  // The room is nobody's to reach but the gate's: it is noted where a request begins.
  vi.spyOn(Room.prototype, "holding").mockImplementation(function (this: Room, remote) {
    room = this;
    return holding.call(this, remote);
  });
  let port: number;
  if (kind === "express") {
    const app = express();
    app.use(sealedExpress(options));
    app.all("/order", (_, response) => void response.send("bought"));
    app.all("/throws", () => {
      throw new Error("a handler's own fault");
    });
    app.use((_: unknown, __: unknown, response: express.Response, ___: unknown) => {
      response.status(500).end();
    });
    const server = createServer(app);
    await new Promise<void>((resolve) => server.listen(0, "0.0.0.0", resolve));
    closing.push(() => server.close());
    port = (server.address() as AddressInfo).port;
  } else {
    const app = fastify({ bodyLimit: 64 * MIB });
    app.register(sealedFastify, options);
    app.removeAllContentTypeParsers();
    app.addContentTypeParser("*", (request, payload, done) => {
      if (request.url !== "/order") return done(null, payload);
      payload
        .on("end", () => done(null, ""))
        .on("error", done)
        .resume();
    });
    app.all("/order", async () => "bought");
    app.all("/early", async () => "early");
    app.all("/throws", async () => {
      throw new Error("a handler's own fault");
    });
    closing.push(() => app.close());
    port = Number(new URL(await app.listen({ port: 0, host: "0.0.0.0" })).port);
  }
  const served = { kind, port, refused, room: undefined as unknown as Room };
  expect((await (await Late.begin(served, 3, 1)).finish())[0]).toBe(200);
  return { ...served, room: room as Room };
}

/** Waits until something is so. */
async function until(what: string, holds: () => boolean): Promise<void> {
  const end = performance.now() + 20_000;
  while (!holds()) {
    if (performance.now() > end) throw new Error(what);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const holds = (room: Room, bytes: number) =>
  until(`not ${bytes} bytes are held`, () => room.taken === bytes).catch(() =>
    expect(room.taken).toBe(bytes),
  );

/** A sealed request whose head was sent, and whose body is the test's to send. */
class Late {
  #text = "";
  readonly socket: Socket;
  body: Uint8Array;
  readonly length: number;

  constructor(socket: Socket, body: Uint8Array) {
    this.socket = socket;
    this.body = body;
    this.length = body.length;
    socket.on("data", (data) => {
      this.#text += data.toString("latin1");
    });
    socket.on("error", () => undefined);
    closing.push(() => socket.destroy());
  }

  static async begin(
    served: TestServer,
    wire: number,
    length: number,
    address = "127.0.0.1",
    target = "/order",
  ) {
    const { headers, body } = await sealed(wire, length, target);
    const socket = connect({ port: served.port, host: "127.0.0.1", localAddress: address });
    const head = [...headers, ["Host", "a"], ["Connection", "close"], ["Content-Length", `${body.length}`]];
    socket.write(`POST ${target} HTTP/1.1\r\n${head.map((each) => each.join(": ")).join("\r\n")}\r\n\r\n`);
    return new Late(socket, body);
  }

  /** Sends all but so many bytes, and waits until the service holds them. */
  async allBut({ room }: TestServer, left: number): Promise<void> {
    const sent = this.body.subarray(0, -left);
    const before = room.taken;
    this.socket.write(sent);
    this.body = this.body.subarray(-left);
    await holds(room, before + sent.length);
  }

  /** Sends the rest, and returns status and text of the answer. */
  async finish(): Promise<[number, string]> {
    this.socket.write(this.body);
    await until("the connection does not end", () => this.socket.closed);
    const [head = "", body = ""] = this.#text.split("\r\n\r\n");
    return [Number(head.split(" ")[1]), body];
  }
}

async function sealed(wire: number, length: number, target: string) {
  const id = idOf(wire);
  if (wire === 3) {
    const keys = await SessionKeys.of(provider, key);
    const session: Seal = { wire: 3, id, keys };
    const type = "application/octet-stream";
    const line = { method: "POST", target };
    const begun = await beginRequest(provider, session, line, type, Date.now(), provider.random(16));
    const inner = encodeInner([["content-type", type]]);
    return {
      headers: begun.headers,
      body: await sealAll(begun.sealer, concat(inner, new Uint8Array(length))),
    };
  }
  const aead = await provider.aeadKey(key);
  const own = { wire: wire as 1 | 2, id, clientId: "tester", expiresInSec: 600, expiresMs, key: aead };
  const nonce = Buffer.from(provider.random(12)).toString("hex");
  const text = utf8(`"${"x".repeat(length)}"`);
  const call = await sealCompatRequest(own, target, text, String(Date.now()), nonce, provider.random(12));
  const headers: [string, string][] = [...call.headers, ["Content-Type", call.contentType]];
  return { headers, body: Uint8Array.from(call.body) };
}

const PROBLEM = {
  type: "urn:sealway:problem:store_unavailable",
  title: "Try again later.",
  status: 503,
  code: "store_unavailable",
};

async function isRefused(served: TestServer, wire: number, request: Late): Promise<void> {
  const [status, text] = await request.finish();
  expect([status, JSON.parse(text)]).toEqual([503, wire === 3 ? PROBLEM : { error: "SERVICE_UNAVAILABLE" }]);
  expect(served.refused.pop()).toBe("no_room");
}

async function isServed(request: Late): Promise<void> {
  expect((await request.finish())[0]).toBe(200);
}

/** A length of bodies of which a share takes a few, and options that make share and room so small. */
function ofTwo(kind: string, wire: number): { length: number; more: Partial<ServerOptions> } {
  // Express holds all of a body, and a route that no rule names takes 1 MiB.
  if (wire !== 3 || kind === "express")
    return { length: wire === 1 ? 200_000 : 400_000, more: { bufferedMaxBytes: 2 * MIB } };
  return { length: 60_000, more: { bufferedMaxBytes: MIB, wires: [3] } };
}

describe.each(["express", "fastify"] as const)("with %s", (kind) => {
  it.each([1, 2, 3])(
    "slow bodies use no more than the budget, and their share of it: wire %s",
    {
      timeout: 60_000,
    },
    async (wire) => {
      const { length, more } = ofTwo(kind, wire);
      const served = await listening(kind, more);
      const { room } = served;
      const { length: each } = (await sealed(wire, length, "/order")).body;
      const inShare = Math.floor(room.share / (each - 1));
      expect(inShare).toBeGreaterThan(1);
      // What is only announced takes nothing.
      for (let at = 0; at < 20; at += 1) await Late.begin(served, wire, length);
      await isServed(await Late.begin(served, wire, length));
      const slow: Late[] = [];
      let isFull = false;
      for (let host = 2; !isFull; host += 1) {
        const address = `127.0.0.${host}`;
        for (let at = 0; at < inShare && !isFull; at += 1) {
          isFull = room.taken + each > room.max;
          if (isFull) break;
          const request = await Late.begin(served, wire, length, address);
          await request.allBut(served, 1);
          slow.push(request);
        }
        if (host === 2) {
          await isRefused(served, wire, await Late.begin(served, wire, length, address));
          await isServed(await Late.begin(served, wire, length, "127.0.1.1"));
        }
      }
      expect(slow.length).toBeGreaterThan(inShare);
      await isRefused(served, wire, await Late.begin(served, wire, length, "127.0.1.1"));
      // The first ones are served, and who goes away gives back what it took.
      await isServed(slow[0] as Late);
      await isServed(await Late.begin(served, wire, length, "127.0.1.1"));
      for (const request of slow.slice(1)) request.socket.destroy();
      await holds(room, 0);
      expect(room.addresses).toBe(0);
      await isServed(await Late.begin(served, wire, length, "127.0.0.2"));
    },
  );

  it.each([2, 3])(
    "reserved bytes are released however a request ends: wire %s",
    { timeout: 60_000 },
    async (wire) => {
      const { length, more } = ofTwo(kind, wire);
      const served = await listening(kind, { ...more, bodyTimeoutMs: 3000 });
      // It does not come in time.
      const late = await Late.begin(served, wire, length);
      await late.allBut(served, 1);
      const rest = late.body;
      late.body = new Uint8Array(0);
      expect((await late.finish())[0]).toBe(400);
      await holds(served.room, 0);
      // It does not open.
      const forged = await Late.begin(served, wire, length);
      await forged.allBut(served, 1);
      forged.body = Uint8Array.of((forged.body[0] ?? 0) ^ 1, ...rest.subarray(1));
      expect((await forged.finish())[0]).toBe(400);
      await holds(served.room, 0);
      // Its handler fails.
      const failing = await Late.begin(served, wire, length, "127.0.0.1", "/throws");
      await failing.allBut(served, 1);
      expect((await failing.finish())[0]).toBe(500);
      await holds(served.room, 0);
      // It is cut off.
      const cut = await Late.begin(served, wire, length);
      await cut.allBut(served, 1);
      cut.socket.end();
      await holds(served.room, 0);
      expect(served.room.addresses).toBe(0);
    },
  );

  it("behind a trusted proxy one address may use the whole budget", async () => {
    const { length, more } = ofTwo(kind, 2);
    const served = await listening(kind, { ...more, trustForwarded: true });
    const slow: Late[] = [];
    for (let at = 0; at < 3; at += 1) {
      const request = await Late.begin(served, 2, length);
      await request.allBut(served, 1);
      slow.push(request);
    }
    expect(served.room.taken).toBeGreaterThan(served.room.share);
    for (const request of slow) await isServed(request);
    await holds(served.room, 0);
  });
});

it("bytes after the first frame are released if a handler answers without them", async () => {
  const served = await listening("fastify", {});
  // A frame, and half of one.
  const request = await Late.begin(served, 3, 100_000, "127.0.0.1", "/early");
  request.socket.write(request.body.subarray(0, 90_000));
  request.body = new Uint8Array(0);
  expect((await request.finish())[0]).toBe(200);
  await holds(served.room, 0);
});

it("a body longer than the budget is too large if it is buffered whole", async () => {
  const routes = [{ path: "/*", mode: "required", bodyMaxBytes: 4 * MIB }] as const;
  for (const [kind, wire, status] of [
    ["express", 2, 413],
    ["express", 3, 413],
    ["fastify", 2, 413],
    ["fastify", 3, 200],
  ] as const) {
    const served = await listening(kind, { bufferedMaxBytes: MIB, routes });
    const request = await Late.begin(served, wire, MIB + 1);
    expect([kind, wire, (await request.finish())[0]]).toEqual([kind, wire, status]);
    await holds(served.room, 0);
  }
});

it.each(["an answer", "a stream", "an error"])(
  "a handler of requests releases its bytes: %s",
  async (how) => {
    const spied = vi.spyOn(Room.prototype, "holding");
    const store = new MemoryStore();
    store.put({ ...whole, id: idOf(3), wire: 3 });
    const held: number[] = [];
    const handle = sealedFetch({ store }, () => {
      held.push((spied.mock.contexts[0] as Room).taken);
      if (how === "an error") throw new Error("a handler's own fault");
      return new Response(how === "a stream" ? new Blob(["a", "b"]).stream() : null);
    });
    // A frame, and the beginning of another.
    const { headers, body } = await sealed(3, 100_000, "/order");
    const init = { method: "POST", headers, body: body.slice(0, 90_000) };
    const answer = await handle(new Request("http://a/order", init)).catch(() => undefined);
    await answer?.arrayBuffer();
    expect(held[0]).toBeGreaterThan(20_000);
    expect((spied.mock.contexts[0] as Room).taken).toBe(0);
  },
);

it("a frame that arrives in single bytes uses no more memory than another", async () => {
  const served = await listening("fastify", {});
  const pushed = vi.spyOn(FrameOpener.prototype, "push");
  const request = await Late.begin(served, 3, 300);
  request.socket.setNoDelay(true);
  for (const byte of request.body.subarray(0, -1)) {
    const before = served.room.taken;
    request.socket.write(Uint8Array.of(byte));
    await holds(served.room, before + 1);
    // It is copied, and the part with all that hangs on it let go.
    pushed.mock.lastCall?.[0].fill(0);
  }
  request.body = request.body.subarray(-1);
  await isServed(request);
  await holds(served.room, 0);
  expect(pushed).toHaveBeenCalledTimes(request.length);
});

describe("an address's share", () => {
  const route = { path: "/*", mode: "required" } as const;

  it.each<[Partial<ServerOptions>, boolean, number]>([
    [{}, false, 4 * MIB],
    [{ bufferedMaxBytes: MIB }, false, MIB],
    [{ bufferedMaxBytes: MIB, wires: [3] }, false, 128 * 1024],
    [{ bufferedMaxBytes: MIB, wires: [3] }, true, MIB],
    [{ routes: [{ ...route, bodyMaxBytes: 9 * MIB }] }, false, 9 * MIB],
    [{ routes: [{ ...route, bodyMaxBytes: 9 * MIB }], wires: [3] }, false, 4 * MIB],
    [{ routes: [{ ...route, bodyMaxBytes: 2 ** 40 }] }, false, 64 * MIB],
  ])("is a sixteenth, or the longest buffered body: %j, %s", async (more, holdsWhole, share) => {
    const spied = vi.spyOn(Room.prototype, "holding");
    const gate = new Gate({ store: new MemoryStore(), ...more }, holdsWhole);
    await gate.open({ method: "POST", target: "/", headers: [], body: undefined });
    expect((spied.mock.contexts[0] as Room).share).toBe(share);
  });

  it("counts an IPv6 address by its /64", () => {
    expect(clientOf("2001:db8::1")).toBe(clientOf("2001:db8::ffff:2"));
    expect(clientOf("2001:db8::1")).not.toBe(clientOf("2001:db8:0:1::1"));
    expect(clientOf("fe80::1%eth0")).toBe(clientOf("fe80::2"));
    expect(clientOf("1:2:3:4:5:6:7:8")).toBe("1:2:3:4::/64");
    expect(clientOf("::1")).toBe("0:0:0:0::/64");
    expect(clientOf("::ffff:192.0.2.1")).toBe("192.0.2.1");
    expect(clientOf("192.0.2.1")).toBe("192.0.2.1");
    for (const none of [undefined, "", "@", "/run/socket"]) expect(clientOf(none)).toBe(undefined);
  });
});

it.each([null, -1, 0, MIB - 1, 1.5 * MIB + 0.5, Number.NaN, Number.POSITIVE_INFINITY, "1", {}])(
  "a wrong option is named: %s",
  (wrong) => {
    const make = () => sealedExpress({ store: new MemoryStore(), bufferedMaxBytes: wrong as never });
    expect(make).toThrow(/bufferedMaxBytes is .*: give a whole number from 1048576 up, or leave it out/);
  },
);
