/** Options that are absent or wrong: one error of the SDK's own, which names the option; no raw `TypeError`. */
import { describe, expect, it } from "vitest";
import { BrokerClient } from "../src/broker/index.js";
import {
  acceptDirect,
  attach,
  Connector,
  connectDirect,
  controlGrants,
  Identity,
  Listener,
  parseGrant,
  parseGrantPair,
  Secret,
} from "../src/channel/index.js";
import { createClient, memoryTrustStore, storageTrustStore } from "../src/index.js";
import { Rpc } from "../src/rpc/index.js";

const none: any = undefined;
const url = "https://shop.test";
const trust = { firstUse: memoryTrustStore() };
/** None of them is a function; `null` is as good as absent. */
const FUNCTIONS = [1, "", {}];
const NUMBERS = [null, -1, Number.NaN, "1", {}, Number.POSITIVE_INFINITY];
const TIMES = [null, -1, 0, Number.NaN, "1", {}];
const TEXTS = [null, 1, "", {}];

/** Returns the error of making something. */
async function errorOf(make: () => unknown): Promise<unknown> {
  try {
    await make();
    return "nothing was wrong";
  } catch (error) {
    return error;
  }
}

async function named(make: () => unknown, name: string, code?: string): Promise<void> {
  const error = await errorOf(make);
  expect(error).toMatchObject(
    code === undefined
      ? { name: "SealwayError", code: "usage", stage: "configuration", retryable: false, host: "" }
      : { name: "ChannelError", code },
  );
  expect((error as Error).message).toContain(name);
}

describe("a client of sessions", () => {
  const wrong: Record<string, unknown[]> = {
    url: [none, ...TEXTS, "shop.test", "ftp://shop.test", "//shop.test"],
    authorityUrl: [...TEXTS, "shop.test", "ws://shop.test"],
    trust: [
      ...[none, null, 1, "", "x", [], {}],
      ...[
        { pins: none },
        { pins: null },
        { pins: "x" },
        { pins: {} },
        { root: none },
        { root: null },
        { root: 1 },
      ],
      ...[{ firstUse: none }, { firstUse: null }, { firstUse: {} }, { firstUse: { load: () => none } }],
      ...[
        { pins: [], store: 1 },
        { root: "x", store: null },
        { root: "x", store: {} },
        { root: "x", store: 1 },
      ],
    ],
    wire: [null, 0, 4, "3", Number.NaN, {}],
    suites: [null, 1, "", "P256", {}, [], ["x"], [none]],
    signatureAlgorithms: [null, 1, "", "ES256", {}, [], ["es256"], ["ES256", "x"], [none]],
    clientId: [...TEXTS, "a|b", "x".repeat(257)],
    ttlSec: [...NUMBERS, 1.5, 2 ** 32],
    initPath: [null, 1, "", "session", {}, "/session/init/anon", "/v1/session/init"],
    headTimeoutMs: [...NUMBERS, 0, 2 ** 31],
    idleTimeoutMs: [...NUMBERS, 0, 2 ** 31],
    totalTimeoutMs: [...NUMBERS, 2 ** 31],
    answerMaxBytes: [...NUMBERS, 0],
    authorization: FUNCTIONS,
    proof: FUNCTIONS,
    onMetrics: FUNCTIONS,
    onSession: FUNCTIONS,
    fetch: FUNCTIONS,
  };

  it.each(Object.entries(wrong))("rejects a wrong %s", async (name, values) => {
    for (const value of values) await named(() => createClient({ url, trust, [name]: value } as never), name);
  });

  it.each([
    ["serverUrl", "authorityUrl"],
    ["timeoutMs", "totalTimeoutMs"],
    ["answerMax", "answerMaxBytes"],
  ])("rejects the former option %s and names %s", async (name, now) => {
    await named(() => createClient({ url, trust, [name]: "x" } as never), `${name}: use `);
    await named(() => createClient({ url, trust, [name]: "x" } as never), now);
  });

  it.each([none, null, 1, "", {}])("names what is missing where its options are %s", async (options) => {
    await named(() => createClient(options as never), "url");
  });

  it.each([
    [1, "/x"],
    [1, "/v1/session/init"],
    [2, "/session/init/"],
    [2, "/session/init/anon"],
    [3, "/v3/sessions"],
  ])("names an initPath that wire %i does not have, %s, and the allowed ones", async (wire, initPath) => {
    await named(
      () => createClient({ url, trust, wire, initPath } as never),
      `initPath: ${initPath} is not /session/init, /session/init/anon (wire 1) or /v1/session/init (wire 2)`,
    );
  });

  it("rejects wrong pins at its first use", async () => {
    const wrong = [
      { pins: [none] },
      { pins: [1] },
      { pins: [{}] },
      { root: "" },
      { root: "AAAA" },
      { pins: [""] },
    ];
    for (const each of wrong) {
      await named(
        () => createClient({ url, trust: each as never }).connect(),
        "pins" in each ? "pins" : "root",
      );
    }
  });

  it("prints no part of a wrong url", async () => {
    const error = await errorOf(() =>
      createClient({ url: "ftp://user:hidden@shop.test/?token=hidden", trust }),
    );
    expect(String(error)).not.toContain("hidden");
  });

  it("rejects a wrong storage", async () => {
    for (const storage of [none, null, {}, 1])
      await named(() => storageTrustStore(storage as never), "storage");
  });
});

const direct = { wsUrl: "ws://127.0.0.1:1", channelId: "c", psk: new Secret(new Uint8Array(32)) };
const info = { ...direct, defaultSuite: 1, initExpiresS: 2 ** 33 };

describe("a channel", () => {
  const setting = "setting_invalid";

  it("rejects a wrong grant", async () => {
    for (const grant of [none, null, 1, "", {}, []]) {
      await named(() => attach(grant as never), "grant", "grant_invalid");
      await named(() => parseGrant(grant as never), "grant", "grant_invalid");
      await named(() => parseGrantPair(grant as never), "grant", "grant_invalid");
      const isObject = JSON.stringify(grant) === "{}";
      await named(() => connectDirect(grant as never), isObject ? "wsUrl" : "direct info", "grant_invalid");
      const accepting = () => acceptDirect({} as never, grant as never);
      await named(accepting, isObject ? "wsUrl" : "direct info", "grant_invalid");
    }
    for (const [name, values] of Object.entries({
      wsUrl: [none, ...TEXTS, "x", "ftp://a.test"],
      channelId: [none, ...TEXTS],
      psk: [none, null, 1, "", {}, new Secret(new Uint8Array(31))],
      defaultSuite: [none, null, "1", 99],
      initExpiresS: [none, null, -1, Number.NaN, "1"],
    })) {
      for (const value of values) {
        const error = await errorOf(() => connectDirect({ ...info, [name]: value } as never));
        expect(error).toMatchObject({ name: "ChannelError", message: expect.stringContaining(name) });
      }
    }
    for (const socket of [none, null, 1, {}])
      await named(() => acceptDirect(socket as never, info), "webSocket", setting);
  });

  const options: Record<string, unknown[]> = {
    connectTimeoutMs: TIMES,
    handshakeTimeoutMs: TIMES,
    peerTimeoutMs: TIMES,
    liveness: [null, 1, "", { pingEveryMs: -1 }, { silentMaxMs: "1" }, { pingEveryMs: null }],
    identity: [null, 1, "", {}],
    instance: [null, 1, ""],
    padTo: [null, -1, 0.5, "1", {}],
    told: FUNCTIONS,
    nowS: FUNCTIONS,
    signal: [null, 1, "", {}],
  };

  it.each(Object.entries(options))("rejects a wrong %s", async (name, values) => {
    for (const value of values)
      await named(() => connectDirect(info, { [name]: value } as never), name, setting);
  });

  it("rejects options that are no object", async () => {
    for (const value of [null, 1, "x"])
      await named(() => connectDirect(info, value as never), "options", setting);
  });

  it("rejects a wrong control plane", async () => {
    const control = { url: "http://a.test", name: "n", role: "client" };
    for (const value of [none, ...TEXTS, "x", "ftp://a.test", ["http://a.test"]])
      await named(() => controlGrants({ ...control, url: value } as never), "url", "address_invalid");
    for (const value of [none, null, 1, ""]) await named(() => controlGrants(value as never), "url", setting);
    for (const [name, values] of Object.entries({
      name: [none, ...TEXTS],
      role: [none, ...TEXTS, "both"],
      token: TEXTS,
      fetch: FUNCTIONS,
    })) {
      for (const value of values)
        await named(() => controlGrants({ ...control, [name]: value } as never), name, setting);
    }
    for (const grants of [none, null, 1, {}]) {
      await named(() => new Connector(grants as never), "grants", setting);
      await named(() => new Listener(grants as never), "grants", setting);
    }
  });

  it("rejects a wrong static key", async () => {
    for (const key of [none, null, 1, "", {}])
      await named(() => Identity.parse(key as never), "static key", "key_invalid");
  });
});

describe("calls on a channel", () => {
  it("name a wrong option", async () => {
    const stream = { onFail: none, read: () => new Promise(() => undefined) };
    for (const channel of [none, null, 1, {}])
      await named(() => Rpc.open(channel as never), "channel", "setting_invalid");
    for (const each of [none, null, 1, {}])
      await named(() => Rpc.over(each as never), "stream", "setting_invalid");
    for (const [name, values] of Object.entries({
      handlers: [null, 1, "x", { 1: 1 }, { 1: none }, { x: () => none }],
      listeners: [null, 1, "x", { 1: 1 }, { 1: none }, { x: () => none }],
      atOnceMax: [...NUMBERS, 0],
      frameMax: [...NUMBERS, 0],
    })) {
      for (const value of values)
        await named(() => Rpc.over(stream as never, { [name]: value } as never), name, "setting_invalid");
    }
  });
});

describe("a client of a broker", () => {
  const wrong: Record<string, unknown[]> = {
    socket: [none, ...TEXTS],
    deadlineMs: [null, -1, 0, Number.NaN, "1", {}],
    inFlightMax: [...NUMBERS, 0],
    waitingMax: NUMBERS,
    messageMax: [...NUMBERS, 0],
    retry: [null, 1, "", { attempts: 0 }, { firstMs: -1 }, { longestMs: "1" }],
    breaker: [null, 1, true, { failures: 0 }, { openForMs: -1 }, { probes: "1" }],
  };

  it.each(Object.entries(wrong))("rejects a wrong %s", async (name, values) => {
    for (const value of values) {
      const inner = typeof value === "object" && value !== null ? (Object.keys(value)[0] ?? name) : name;
      expect(() => new BrokerClient({ socket: "/s", [name]: value } as never)).toThrow(inner);
    }
  });

  it("names what is missing", async () => {
    for (const value of [none, null, 1, "", {}]) {
      expect(() => new BrokerClient(value as never)).toThrow(TypeError);
      expect(() => new BrokerClient(value as never)).toThrow("socket");
    }
  });
});
