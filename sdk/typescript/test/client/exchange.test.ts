/** What goes over the wire between a client and a service that a test plays: streams, cancelling, trust, credentials, suites. */
import type { IncomingMessage } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { sealFlow } from "../../src/client/flow.js";
import type { Pace } from "../../src/client/transport.js";
import { nodeProvider as provider } from "../../src/crypto/node.js";
import { createClient, type KnownKeys, memoryTrustStore, SealwayError } from "../../src/index.js";
import { encodeInner } from "../../src/session/native/inner.js";
import { initHashInput } from "../../src/session/native/message.js";
import { FrameSealer } from "../../src/session/native/stream.js";
import { toBase64, toBase64Url } from "../../src/wire/base64.js";
import { utf8 } from "../../src/wire/bytes.js";
import { keySetOf, Signer } from "../signer.js";
import { Service } from "./service.js";

let service: Service;
beforeEach(async () => {
  service = await Service.start();
});
afterEach(() => service.stop());

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const text = (bytes: Uint8Array | undefined) => new TextDecoder().decode(bytes);

/** Something that one side waits for and the other side says. */
function gate<T = void>() {
  let open: (value: T) => void = () => undefined;
  const opened = new Promise<T>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

type More = Partial<Parameters<typeof createClient>[0]>;
function client(more: More = {}) {
  const { url, identity } = service;
  const trust = { pins: [identity.id] };
  return createClient({ url, trust, suites: ["P256"], headTimeoutMs: 5000, ...more });
}

/** Whether the exchange of a request ended before it was answered, as its service sees it. */
function ended(request: IncomingMessage): Promise<void> {
  return new Promise((resolve) => {
    if (request.socket.destroyed) resolve();
    request.socket.once("close", () => resolve());
  });
}

describe("a streamed body", () => {
  it("reaches the service piece by piece: the first one before the second exists", async () => {
    const arrived = gate<string>();
    service.serve = async (call) => {
      let whole = "";
      for await (const part of call.body ?? []) {
        whole += text(part);
        arrived.open(whole);
      }
      return { status: 200, body: utf8(whole) };
    };
    let made = 0;
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        made += 1;
        if (made === 2) expect(await arrived.opened).toBe("one ");
        if (made === 3) controller.close();
        else controller.enqueue(utf8(made === 1 ? "one " : "two"));
      },
    });
    const answer = await client().fetch("/stream", { method: "POST", body });
    expect(await answer.text()).toBe("one two");
  });

  it("reaches the caller piece by piece: the first one before the service writes the second", async () => {
    const arrived = gate();
    service.serve = () => ({
      status: 200,
      body: (async function* () {
        yield utf8("one ");
        await arrived.opened;
        yield utf8("two");
      })(),
    });
    const answer = await client().fetch("/stream");
    const reader = answer.body?.getReader();
    expect(text((await reader?.read())?.value)).toBe("one ");
    arrived.open();
    expect(text((await reader?.read())?.value)).toBe("two");
    expect((await reader?.read())?.done).toBe(true);
  });

  it("may take longer than the head timeout while it makes progress or waits for its source", async () => {
    service.serve = async (call) => {
      let length = 0;
      for await (const part of call.body ?? []) length += part.length;
      return { status: 200, body: utf8(String(length)) };
    };
    let left = 6;
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await sleep(left === 6 ? 600 : 120);
        left -= 1;
        if (left < 0) controller.close();
        else controller.enqueue(utf8("x"));
      },
    });
    const answer = await client({ headTimeoutMs: 400 }).fetch("/stream", { method: "POST", body });
    expect(await answer.text()).toBe("6");
  });

  it("times out if no answer comes after its last piece", async () => {
    service.serve = () => sleep(20_000).then(() => ({ status: 200, body: utf8("late") }));
    const body = new Blob(["all"]).stream();
    const begin = performance.now();
    const call = client({ headTimeoutMs: 400 }).fetch("/stream", { method: "POST", body });
    await expect(call).rejects.toMatchObject({ code: "timeout" });
    expect(performance.now() - begin).toBeLessThan(5000);
  });
});

describe("a call that is cancelled under way", () => {
  it("ends with its caller's reason, and on the wire before it is answered", async () => {
    const came = gate<IncomingMessage>();
    service.serve = (_, request) => {
      came.open(request);
      return new Promise(() => undefined);
    };
    const stop = new AbortController();
    const call = client().fetch("/slow", { method: "POST", body: "{}", signal: stop.signal });
    const request = await came.opened;
    stop.abort(new Error("enough"));
    await expect(call).rejects.toThrow("enough");
    await ended(request);
  });

  it("ends on the wire during its answer, by signal or by its reader", async () => {
    for (const how of ["signal", "reader"]) {
      const came = gate<IncomingMessage>();
      service.serve = (_, request) => {
        came.open(request);
        return {
          status: 200,
          body: (async function* () {
            yield utf8("one");
            await new Promise(() => undefined);
          })(),
        };
      };
      const stop = new AbortController();
      const answer = await client().fetch("/slow", { signal: stop.signal });
      const reader = answer.body?.getReader();
      expect(text((await reader?.read())?.value)).toBe("one");
      if (how === "signal") {
        stop.abort(new Error("enough"));
        await expect(reader?.read()).rejects.toThrow("enough");
      } else {
        await reader?.cancel();
      }
      await ended(await came.opened);
    }
  });

  it("releases its streamed body", async () => {
    const came = gate<IncomingMessage>();
    service.serve = (_, request) => {
      came.open(request);
      return new Promise(() => undefined);
    };
    const cancelled = gate();
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => sleep(20).then(() => controller.enqueue(utf8("x"))),
      cancel: () => cancelled.open(),
    });
    const stop = new AbortController();
    const call = client().fetch("/slow", { method: "POST", body, signal: stop.signal });
    const request = await came.opened;
    stop.abort(new Error("enough"));
    await expect(call).rejects.toThrow("enough");
    await Promise.all([ended(request), cancelled.opened]);
  });
});

it("a body whose source was released is not complete, even for a fetch that ignores signals", async () => {
  const keys = {
    aead: await provider.aeadKey(provider.random(32)),
    iv: provider.random(12),
    commit: provider.random(16),
  };
  const pace: Pace = {};
  const source = new ReadableStream<Uint8Array>({ pull: () => new Promise(() => undefined) });
  const sealer = new FrameSealer(keys, provider.random(32));
  const reader = sealFlow(source, sealer, encodeInner([]), pace).getReader();
  expect((await reader.read()).done).toBe(false);
  const next = reader.read();
  pace.stop?.();
  await expect(next).rejects.toThrow("stopped");
});

describe("trust by a root", () => {
  it("accepts the keys that it signed, and no older set, also after a restart", async () => {
    const root = await Signer.make();
    const store = memoryTrustStore();
    const trust = { root: toBase64(root.publicKey), store };
    service.keySet = await keySetOf([service.identity], root, 7);
    expect(await (await client({ trust }).fetch("/order")).text()).toBe("served");
    expect(store.load(service.url)).toEqual({ keys: [], root: { keyId: root.id, issuedMs: 7 } });
    service.keySet = await keySetOf([service.identity], root, 6);
    const older = client({ trust }).fetch("/order");
    await expect(older).rejects.toMatchObject({ code: "key_untrusted", message: /older/ });
    expect(await (await client({ trust: { root: trust.root } }).fetch("/order")).text()).toBe("served");
    service.keySet = await keySetOf([service.identity], root, 8);
    expect(await (await client({ trust }).fetch("/order")).text()).toBe("served");
  });

  it("rejects a set that another root signed, and starts afresh if another root is pinned", async () => {
    const [root, other] = [await Signer.make(), await Signer.make()];
    service.keySet = await keySetOf([service.identity], other, 7);
    const kept = new Map<string, KnownKeys>();
    const store = {
      load: (origin: string) => kept.get(origin),
      save: (origin: string, met: KnownKeys) => void kept.set(origin, met),
    };
    const by = (key: Signer) => client({ trust: { root: toBase64(key.publicKey), store } }).fetch("/order");
    await expect(by(root)).rejects.toMatchObject({ code: "key_untrusted" });
    expect(kept.size).toBe(0);
    expect((await by(other)).status).toBe(200);
    service.keySet = await keySetOf([service.identity], root, 3);
    expect((await by(root)).status).toBe(200);
  });
});

describe("a client that authenticates", () => {
  it("sends its token only at the init, and rejects a session under another token", async () => {
    const seen: (string | undefined)[] = [];
    service.before = (request) => void seen.push(request.headers.authorization);
    service.recognise = (_, authorization) => (authorization === "Bearer a-token" ? "bearer" : "none");
    const made = client({ authorization: () => "Bearer a-token" });
    await made.fetch("/order", { method: "POST", body: "{}" });
    expect(made.session?.auth).toBe("bearer");
    expect([seen[0], ...new Set(seen.slice(1))]).toEqual(["Bearer a-token", undefined]);
    service.before = (request) => {
      request.headers.authorization = "Bearer another";
    };
    const error = await client({ authorization: async () => "Bearer a-token" })
      .connect()
      .catch((caught) => caught);
    expect(error).toMatchObject({ code: "signature_invalid" });
    expect(`${error.message} ${JSON.stringify(error)}`).not.toContain("a-token");
  });

  it("sends a DPoP proof for its share, and none at a renewal", async () => {
    const asked: string[] = [];
    service.recognise = async (init, authorization) => {
      const hash = toBase64Url(await provider.sha256(initHashInput(init)));
      return authorization === "DPoP a-token" && init.proof === `proof-of-${hash}` ? "dpop" : "none";
    };
    service.expiresInSec = 300;
    const made = client({
      authorization: () => "DPoP a-token",
      proof: async (initHash, url) => {
        asked.push(url);
        return `proof-of-${initHash}`;
      },
    });
    await made.connect();
    expect(made.session?.auth).toBe("dpop");
    expect(asked).toEqual([`${service.url}/v3/sessions`]);
    const real = performance.now.bind(performance);
    performance.now = () => real() + 280_000;
    try {
      await made.fetch("/order");
    } finally {
      performance.now = real;
    }
    expect(service.seen.filter((each) => each.endsWith("/renew"))).toHaveLength(1);
    expect(asked).toHaveLength(1);
  });
});

it("another suite of the client's list is used once if the service requires it", async () => {
  service.suites = ["P256"];
  const made = client({ suites: ["X25519MLKEM768", "P256"] });
  expect(await (await made.fetch("/order")).text()).toBe("served");
  expect(made.session?.suite).toBe("P256");
  expect(service.seen.filter((each) => each === "POST /v3/sessions")).toHaveLength(2);
  service.seen.length = 0;
  const other = client({ suites: ["SecP256r1MLKEM768"] });
  await expect(other.connect()).rejects.toMatchObject({ code: "suite_required" });
  expect(service.seen).toEqual(["POST /v3/sessions"]);
});

it("a call to another origin is rejected and not sent, in plain or sealed", async () => {
  const other = await Service.start();
  try {
    const made = client();
    for (const url of [
      `${other.url}/order`,
      new URL("/order", other.url),
      new Request(`${other.url}/order`),
    ]) {
      const error = await made.fetch(url).catch((caught) => caught);
      expect(error).toBeInstanceOf(SealwayError);
      expect(error).toMatchObject({ code: "usage", stage: "configuration" });
    }
    expect([...service.seen, ...other.seen]).toEqual([]);
    const elsewhere = client({ url: other.url, authorityUrl: service.url });
    await expect(elsewhere.fetch("/order")).rejects.toMatchObject({ code: "session_expired" });
    expect(service.seen).not.toContain("GET /order");
    expect(other.seen).toEqual(["GET /order", "GET /order"]);
    await expect(elsewhere.fetch(`${service.url}/order`)).rejects.toMatchObject({ code: "usage" });
  } finally {
    other.stop();
  }
});
