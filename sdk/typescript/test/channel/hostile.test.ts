import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocketServer } from "ws";
import { type Bytes, b64u, unb64u, utf8 } from "../../src/channel/encoding.js";
import { handshakeFrame } from "../../src/channel/frame.js";
import {
  Attempts,
  acceptDirect,
  attach,
  ChannelError,
  connectDirect,
  Identity,
  parseDirectInfo,
  parseGrant,
  Secret,
} from "../../src/channel/index.js";
import { channels, handshakes, NOW_S, shaken } from "./pair.js";

const codeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "nothing was refused",
    (error: unknown) => (error instanceof ChannelError ? error.code : `not typed: ${String(error)}`),
  );

const flipped = (bytes: Bytes, at: number): Bytes => {
  const copy = bytes.slice();
  copy[at < 0 ? copy.length + at : at]! ^= 1;
  return copy;
};

describe.each([
  ["v1", 1],
  ["native", 0x100],
  ["hybrid", 0x106],
])("records of %s", (profile, suite) => {
  const data = { kind: "data", bytes: utf8("hello") } as const;

  it("that were changed, replayed, dropped, cut or reflected are rejected with their code", async () => {
    const cases: [string, (made: Bytes[], own: Bytes) => Bytes][] = [
      ["record_unsealable", ([first]) => flipped(first!, -1)],
      ["record_unsealable", ([first]) => flipped(first!, 19)],
      ["record_missing", ([, second]) => second!],
      ["record_truncated", ([first]) => first!.slice(0, 17)],
      ["record_truncated", ([first]) => first!.slice(0, -1)],
      ["record_invalid", ([first]) => flipped(first!, 0)],
      ["record_invalid", ([first]) => flipped(first!, 4)],
      [profile === "v1" ? "record_missing" : "record_reflected", (_, own) => own],
    ];
    for (const [code, change] of cases) {
      const { client, server } = await shaken(suite);
      const made = [await client.sealer.seal(data, 0), await client.sealer.seal(data, 0)];
      // In v1 nothing names who sent it; its number is another one, as the server has sent its ping.
      if (profile === "v1") await server.sealer.seal({ kind: "ping", value: 0n }, 0);
      const own = await server.sealer.seal(data, 0);
      expect(await codeOf(server.opener.open(change(made, own))), code).toBe(code);
      expect(await codeOf(server.opener.open(made[0]!))).toBe("channel_closed");
    }
    const { client, server } = await shaken(suite);
    const made = await client.sealer.seal(data, 0);
    await server.opener.open(made);
    expect(await codeOf(server.opener.open(made))).toBe("record_replayed");
  });

  it("are bounded", async () => {
    const { client } = await shaken(suite);
    const bytes = new Uint8Array(client.sealer.contentMax + 1);
    expect(await codeOf(client.sealer.seal({ kind: "data", bytes }, 0))).toBe("content_too_large");
  });
});

it("keys rotate by count and by time, and the other side follows", async () => {
  const { client, server } = await shaken(0x100, { rekeyAfterRecords: 2, rekeyAfterMs: 1000 });
  for (const now of [0, 1, 5000, 5001, 9000]) {
    const record = await client.sealer.seal({ kind: "data", bytes: utf8(`${now}`) }, now);
    expect(await server.opener.open(record)).toMatchObject({ kind: "data" });
  }
});

describe("a handshake of v1 rejects", () => {
  const begun = async () => {
    const { client, server } = handshakes(1);
    await server.begin();
    return { client, server, init: (await client.begin())! };
  };
  const withMember = (
    frame: Bytes,
    type: number,
    change: (members: Record<string, unknown>) => void,
  ): Bytes => {
    const members = JSON.parse(Buffer.from(frame.subarray(10)).toString()) as Record<string, unknown>;
    change(members);
    return handshakeFrame("v1", type, utf8(JSON.stringify(members)));
  };

  it.each([
    ["handshake_frame_invalid", (init: Bytes) => init.slice(0, 9)],
    ["handshake_frame_invalid", (init: Bytes) => flipped(init, 0)],
    ["handshake_unexpected", (init: Bytes) => flipped(init, 5)],
    ["handshake_too_large", () => handshakeFrame("v1", 1, new Uint8Array(8193))],
    ["handshake_json_invalid", () => handshakeFrame("v1", 1, utf8("{"))],
    ["handshake_field_invalid", (init: Bytes) => withMember(init, 1, (m) => delete m.nonce_c_b64u)],
    ["version_mismatch", (init: Bytes) => withMember(init, 1, (m) => (m.version = 2))],
    ["role_mismatch", (init: Bytes) => withMember(init, 1, (m) => (m.role = 2))],
    ["channel_mismatch", (init: Bytes) => withMember(init, 1, (m) => (m.channel_id = "other"))],
    ["suite_mismatch", (init: Bytes) => withMember(init, 1, (m) => (m.suite = 2))],
  ])("an Init: %s", async (code, change) => {
    const { server, init } = await begun();
    expect(await codeOf(server.read(change(init), NOW_S))).toBe(code);
    expect(await codeOf(server.read(init, NOW_S))).toBe("handshake_state");
  });

  it.each([
    ["handshake_id_mismatch", (m: Record<string, unknown>) => (m.handshake_id = "x"), 0],
    ["handshake_timestamp", () => undefined, 31],
    ["handshake_unauthentic", (m: Record<string, unknown>) => (m.timestamp_unix_s = NOW_S + 1), 0],
    ["handshake_field_invalid", (m: Record<string, unknown>) => (m.auth_tag_b64u = "AAAA"), 0],
  ])("an Ack: %s", async (code, change, later) => {
    const { client, server, init } = await begun();
    const resp = await server.read(init, NOW_S);
    const ack = await client.read(resp.send!, NOW_S);
    const changed = withMember(ack.send!, 3, change);
    expect(await codeOf(server.read(changed, NOW_S + later))).toBe(code);
  });

  it("another Init, and accepts the same one again", async () => {
    const { server, init } = await begun();
    const resp = await server.read(init, NOW_S);
    expect((await server.read(init, NOW_S)).send).toEqual(resp.send);
    const other = withMember(init, 1, (m) => (m.client_features = 9));
    expect(await codeOf(server.read(other, NOW_S))).toBe("init_changed");
  });

  it("a key that gives an all-zero secret, and a first record other than a ping", async () => {
    const { client, server, init } = await begun();
    const resp = await server.read(init, NOW_S);
    const zeros = withMember(resp.send!, 2, (m) => (m.server_eph_pub_b64u = b64u(new Uint8Array(32))));
    expect(await codeOf(client.read(zeros, NOW_S))).toBe("peer_key_invalid");
  });

  it("another secret than the channel's", async () => {
    const { server, init } = await begun();
    const stranger = handshakes(1).client;
    await stranger.begin();
    const resp = await server.read(init, NOW_S);
    expect(await codeOf(server.read((await stranger.read(resp.send!, NOW_S)).send!, NOW_S))).toBe(
      "handshake_unauthentic",
    );
  });
});

describe("a native handshake rejects", () => {
  it.each([
    ["handshake_unauthentic", (m: Bytes) => flipped(m, -1), 0x100],
    ["handshake_frame_invalid", (m: Bytes) => handshakeFrame("native", 1, m.slice(10, 30)), 0x100],
    ["peer_key_invalid", (m: Bytes) => flipped(m, 10), 0x102],
    ["handshake_unauthentic", (m: Bytes) => flipped(m, 60), 0x104],
  ])("a first message: %s", async (code, change, suite) => {
    const { client, server } = handshakes(suite);
    await server.begin();
    const first = (await client.begin())!;
    // A changed point may be one or none: then it does not open.
    expect([code, "handshake_unauthentic"]).toContain(await codeOf(server.read(change(first), NOW_S)));
  });

  it("a late first message, and a second message whose ciphertext was changed", async () => {
    const late = handshakes(0x100);
    await late.server.begin();
    expect(await codeOf(late.server.read((await late.client.begin())!, 2_000_000_031))).toBe("init_expired");
    const { client, server } = handshakes(0x104);
    await server.begin();
    const second = await server.read((await client.begin())!, NOW_S);
    expect(await codeOf(client.read(flipped(second.send!, 500), NOW_S))).toBe("handshake_unauthentic");
  });
});

it("an intermediary that changes a record or sends text ends the channel with a typed error", async () => {
  const { client, server, a } = await channels(0x100);
  a.onWay = (message) => [
    typeof message === "string" ? message : flipped(new Uint8Array(message as ArrayBuffer), -1).buffer,
  ];
  await client.open({ kind: "cat", v: 1 });
  expect((await server.over()).code).toBe("record_unsealable");
  const other = await channels(0x100);
  other.a.onWay = () => ["text"];
  await other.client.open({ kind: "cat", v: 1 });
  expect((await other.server.over()).code).toBe("unexpected_text_frame");
});

describe("without a relay", () => {
  let server: WebSocketServer;
  const info = (suite: number, url: string) =>
    parseDirectInfo({
      ...{
        ws_url: url,
        channel_id: "direct",
        e2ee_psk_b64u: b64u(new Uint8Array(32).fill(9)),
        default_suite: suite,
      },
      channel_init_expire_at_unix_s: Math.floor(Date.now() / 1000) + 60,
    });
  const url = () => `ws://127.0.0.1:${(server.address() as { port: number }).port}`;
  beforeAll(async () => {
    server = new WebSocketServer({
      port: 0,
      host: "127.0.0.1",
      maxPayload: 1 << 20,
      perMessageDeflate: false,
    });
    await new Promise((resolve) => server.once("listening", resolve));
  });
  afterAll(() => server.close());
  const next = () => new Promise<import("ws").WebSocket>((resolve) => server.once("connection", resolve));

  it.each([1, 2, 0x104, 0x103])("both ends of suite %i find each other", async (suite) => {
    const accepted = next().then((ws) => acceptDirect(ws as never, info(suite, url())));
    const client = await connectDirect(info(suite, url()));
    const channel = await accepted;
    const stream = await client.open({ kind: "cat", v: 1 });
    await stream.write(utf8("hi"));
    expect(Buffer.from((await (await channel.accept())!.stream.read())!).toString()).toBe("hi");
    client.ping();
    await expect.poll(() => client.roundTripMs).toBeGreaterThan(0);
    await client.close(0, "bye");
    expect((await channel.over()).code).toBe("ended");
  });

  it.each<[string, string, (ws: import("ws").WebSocket) => void]>([
    ["a server that says nothing", "timeout", () => undefined],
    ["a server that says text", "unexpected_text_frame", (ws) => ws.send("hello")],
    [
      "a server that sends more than it may",
      "record_too_large",
      (ws) => ws.send(new Uint8Array((1 << 20) + 1)),
    ],
    ["a server that sends no frame", "handshake_frame_invalid", (ws) => ws.send(new Uint8Array(40))],
    [
      "a server that closes with a reason",
      "replace_rate_limited",
      (ws) => ws.close(1013, "replace rate limited"),
    ],
    ["a server that is gone at once", "closed", (ws) => ws.terminate()],
  ])("%s fails with its code, and nothing hangs", async (_, code, misbehave) => {
    next().then(misbehave);
    expect(await codeOf(connectDirect(info(0x100, url()), { handshakeTimeoutMs: 500 }))).toBe(code);
  });

  it("an absent peer, a malformed address and a cancelled attempt have their codes", async () => {
    expect(await codeOf(connectDirect(info(0x100, "ws://127.0.0.1:1")))).toBe("connection_refused");
    expect(await codeOf(connectDirect(info(0x100, "http://127.0.0.1:1")))).toBe("address_invalid");
    const stop = AbortSignal.timeout(50);
    expect(await codeOf(connectDirect(info(0x100, url()), { signal: stop }))).toBe("cancelled");
  });
});

describe("grants", () => {
  const good = {
    ...{
      tunnel_url: "ws://127.0.0.1:1/ws",
      channel_id: "c",
      channel_init_expire_at_unix_s: 2_000_000_000,
      role: 1,
    },
    ...{
      token: "FST1.e30.AA",
      e2ee_psk_b64u: b64u(new Uint8Array(32)),
      allowed_suites: [256],
      default_suite: 256,
    },
  };
  it.each<[string, object]>([
    ["role", { role: 3 }],
    ["channel_id", { channel_id: "" }],
    ["allowed_suites", { allowed_suites: [1, 256] }],
    ["allowed_suites", { allowed_suites: [] }],
    ["default_suite", { default_suite: 257 }],
    ["channel_init_expire_at_unix_s", { channel_init_expire_at_unix_s: -1 }],
    ["peer_static_b64u", { peer_static_b64u: "?" }],
  ])("with a malformed %s are rejected with its name", (name, change) => {
    expect(() => parseGrant({ ...good, ...change })).toThrowError(new RegExp(`${name}.*grant_invalid`));
  });

  it("with a malformed secret or token or an unknown suite are rejected with their code", async () => {
    expect(() => parseGrant({ ...good, e2ee_psk_b64u: "AA==" })).toThrowError(/psk_invalid/);
    expect(await codeOf(attach(parseGrant({ ...good, token: "x" })))).toBe("grant_invalid");
    const unknown = { ...good, allowed_suites: [9999], default_suite: 9999 };
    expect(await codeOf(attach(parseGrant(unknown)))).toBe("suite_unsupported");
    expect(await codeOf(attach(parseGrant({ ...good, noise_pattern: "XXpsk3" })))).toBe("grant_invalid");
  });

  it("and keys show no secret when they are printed or serialized", async () => {
    const psk = b64u(new Uint8Array(32).fill(0xab));
    const grant = parseGrant({ ...good, token: "FST1.verysecret.AA", e2ee_psk_b64u: psk });
    const identity = Identity.draw("25519");
    const records = await shaken(0x104);
    const shown = [grant, identity, records, new Secret(utf8("verysecret")), (await channels()).client]
      .flatMap((value) => [inspect(value, { depth: 9, showHidden: true }), String(value), safeJson(value)])
      .join();
    for (const secret of [psk, "verysecret", identity.encode(), "171, 171", "ab ab"])
      expect(shown).not.toContain(secret);
  });
});

it("base64url is canonical or rejected", () => {
  for (const length of [0, 1, 2, 3, 31, 32]) {
    const bytes = crypto.getRandomValues(new Uint8Array(length));
    expect(unb64u(b64u(bytes))).toEqual(bytes);
    expect(b64u(bytes)).toBe(Buffer.from(bytes).toString("base64url"));
  }
  for (const bad of ["A", "AA==", "AB", "A A", "+/", "AAB", "é"]) expect(unb64u(bad), bad).toBeUndefined();
});

it("waits between attempts double up to their bound, are random below it, and stop after a permanent failure", async () => {
  const waits: number[] = [];
  const sleep = async (ms: number) => void waits.push(ms);
  const attempts = new Attempts({ sleep, random: () => 1, nowMs: () => 0 });
  let left = 9;
  const refused = new ChannelError("connect", "connection_refused", "nobody");
  const made = await attempts.untilOneSucceeds(async () => {
    if (--left > 0) throw refused;
    return "made";
  });
  expect(made).toBe("made");
  expect(waits).toEqual([250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000]);
  const lasting = new ChannelError("grant", "unauthorized", "no");
  expect(await codeOf(attempts.untilOneSucceeds(() => Promise.reject(lasting)))).toBe("unauthorized");
});

function safeJson(value: unknown): string {
  return JSON.stringify(value, (_, member) => (typeof member === "bigint" ? `${member}` : member)) ?? "";
}
