/** Sealed requests at a server: which are admitted, which are rejected with which code, and what a claim's outcome leads to. */
import { describe, expect, it } from "vitest";
import { nodeProvider as provider } from "../../src/crypto/node.js";
import { Exchange, type SessionRecord, wireOf } from "../../src/exchange/exchange.js";
import { Rejection } from "../../src/exchange/rejection.js";
import { beginRequest, sealRequest } from "../../src/session/native/client-call.js";
import { SessionKeys } from "../../src/session/native/keys.js";
import { provenTimeMs } from "../../src/session/native/problem.js";
import { sealAll } from "../../src/session/native/stream.js";
import type { Bytes } from "../../src/wire/bytes.js";
import type { Wire } from "../../src/wire/forms.js";
import type { HeaderList } from "../../src/wire/headers.js";
import { rejected } from "../rejected.js";

const NOW = 1_750_000_000_000;
const WINDOW = 300_000;
const ID = `S-${"0".repeat(32)}`;
const KEY = new Uint8Array(32).fill(7);
const session: SessionRecord = { id: ID, wire: 3, clientId: undefined, expiresMs: NOW + 1, key: KEY };
const line = { method: "POST", target: "/a?b" };
const utf8 = (text: string) => new TextEncoder().encode(text);

const sealOf = async () => ({ wire: 3 as const, id: ID, keys: await SessionKeys.of(provider, KEY) });

/** A request of the native protocol, as its client seals it. */
async function sealed({ method = "POST", body = "body", stampMs = NOW } = {}) {
  const { target } = line;
  const inner = [["accept", "a"]] as const;
  const nonce = new Uint8Array(16).fill(9);
  return sealRequest(provider, await sealOf(), { method, target }, inner, utf8(body), stampMs, nonce);
}

const begin = (headers: HeaderList, more: { method?: string; nowMs?: number; windowMs?: number } = {}) => {
  const { method = "POST", nowMs = NOW, windowMs = WINDOW } = more;
  return Exchange.begin({ ...line, method }, headers, nowMs, { wires: [1, 2, 3], windowMs });
};

/** Opens a request up to its claim. */
async function unreplayed(record = session) {
  const { headers, body } = await sealed();
  const { opening, stream } = await begin(headers).session(provider, record);
  const [first] = await stream.all(body ?? new Uint8Array());
  return opening.open(first!);
}

const NATIVE = [
  ["X-Seal", "3"],
  ["X-Kid", `session:${ID}`],
  ["X-Idempotency-Key", `${NOW}.${"n".repeat(16)}`],
] as const;
const COMPAT_2 = [
  ["X-Kid", `session:${ID}`],
  ["X-Idempotency-Key", `${NOW}.${"n".repeat(16)}`],
  ["X-ClientId", "me"],
] as const;
const COMPAT_1 = [
  ["X-Kid", `session:${ID}`],
  ["X-Nonce", "n"],
  ["X-Timestamp", `${NOW}`],
  ["X-Enc-Alg", "A256GCM"],
  ["X-IV", btoa("i".repeat(12))],
  ["X-Tag", btoa("t".repeat(16))],
  ["X-AAD", btoa("a")],
] as const;

/** Headers with one of them replaced, or removed. */
const replaced = (headers: HeaderList, name: string, value?: string): HeaderList =>
  headers.flatMap((header) => (header[0] !== name ? [header] : value === undefined ? [] : [[name, value]]));

describe("a request", () => {
  it("is opened once its claim is granted", async () => {
    const request = await unreplayed();
    const claim = await request.readmit(session, NOW);
    expect(claim).toMatchObject({ sealed: true, stampMs: NOW, expiresMs: NOW + 2 * WINDOW + 1 });
    const plain = await request.release("fresh", NOW);
    expect([plain.inner, plain.first]).toEqual([[["accept", "a"]], utf8("body")]);
  });

  it.each([
    ["replayed", "replayed"],
    ["full", "nonces_full"],
    ["outside_window", "timestamp_outside_window"],
    ["unheard", "store_unavailable"],
  ])("whose claim is %s is rejected, and its plaintext wiped", async (outcome, code) => {
    const request = await unreplayed();
    const plain = await request.release("fresh", NOW);
    expect(await rejected(() => request.release(outcome as "full", NOW))).toBe(code);
    expect(plain.first).toEqual(new Uint8Array(4));
  });

  it("is of a session that is still there at its claim, and in time", async () => {
    const request = await unreplayed({ ...session, expiresMs: NOW + 2 * WINDOW });
    const later: SessionRecord = { ...session, expiresMs: NOW + 2 * WINDOW };
    const at = (found: SessionRecord | undefined, nowMs = NOW) =>
      rejected(() => request.readmit(found, nowMs));
    expect(await at(undefined)).toBe("session_unknown");
    expect(await at({ ...session, id: `S-${"1".repeat(32)}` })).toBe("session_unknown");
    expect(await at(session, NOW + 1)).toBe("session_expired");
    expect(await at({ ...session, wire: 2 })).toBe("wire_mismatch");
    expect(await at(later, NOW + WINDOW)).toBe("accepted");
    expect(await at(later, NOW + WINDOW + 1)).toBe("timestamp_outside_window");
  });

  it("has a stamp within the window, both edges included, and a window of 300 000 ms at most", async () => {
    for (const [windowMs, most] of [
      [1000, 1000],
      [WINDOW, WINDOW],
      [2 * WINDOW, WINDOW],
    ] as const)
      for (const skew of [-most - 1, -most, most, most + 1]) {
        const long = { ...session, expiresMs: NOW + 2 * WINDOW };
        const run = () => begin(NATIVE, { nowMs: NOW + skew, windowMs }).session(provider, long);
        expect(await rejected(run)).toBe(Math.abs(skew) > most ? "timestamp_outside_window" : "accepted");
      }
  });

  it("outside the window gets the server's time, with a proof", async () => {
    const { headers, pending } = await sealed({ stampMs: NOW - WINDOW - 1 });
    const error = await begin(headers)
      .session(provider, session)
      .catch((caught) => caught);
    expect(error).toBeInstanceOf(Rejection);
    const { status, body } = error.answer("problem");
    const problem = JSON.parse(new TextDecoder().decode(body));
    expect([status, problem.code, problem.server_time_ms]).toEqual([400, "clock_skew", NOW]);
    expect(await provenTimeMs(provider, problem, pending)).toBe(NOW);
    const early = { ...problem, server_time_ms: NOW - 1 };
    expect(await provenTimeMs(provider, early, pending)).toBeUndefined();
  });

  it("has the headers of a seal, each of its form", async () => {
    const of = (headers: HeaderList) => rejected(() => begin(headers).sessionId);
    expect(await of(NATIVE)).toBe("accepted");
    expect(await of(replaced(NATIVE, "X-Kid"))).toBe("header_missing X-Kid");
    expect(await of(replaced(NATIVE, "X-Idempotency-Key"))).toBe("header_missing X-Idempotency-Key");
    for (const value of ["2", "4", "33", "3 "])
      expect(await of(replaced(NATIVE, "X-Seal", value))).toBe("header_invalid X-Seal");
    expect(await of(replaced(NATIVE, "X-Seal", ""))).toBe("header_missing X-Seal");
    for (const [key, code] of [
      [`${NOW}`, "idempotency_key_shape"],
      [`${NOW}.${"n".repeat(15)}`, "nonce_invalid"],
      [`${NOW}.r-${"n".repeat(16)}`, "nonce_reserved"],
      [`x.${"n".repeat(16)}`, "timestamp_invalid"],
      [`x.${"n".repeat(15)}`, "nonce_invalid"],
    ] as const)
      expect(await of(replaced(NATIVE, "X-Idempotency-Key", key))).toBe(code);
    expect(await of(replaced(NATIVE, "X-Kid", `hpke:${ID}`))).toBe("kid_prefix");
    const type = ["Content-Type", "a"] as const;
    expect(await of([...NATIVE, type])).toBe("accepted");
    expect(await of([...NATIVE, type, type])).toBe("header_invalid Content-Type");
  });

  it("has a target of 8192 bytes at most", async () => {
    const of = (length: number) =>
      rejected(() =>
        Exchange.begin({ method: "GET", target: "/".padEnd(length, "x") }, NATIVE, NOW, {
          wires: [3],
          windowMs: WINDOW,
        }),
      );
    expect([await of(8192), await of(8193)]).toEqual(["accepted", "header_invalid target"]);
  });

  it("in a header has no body, and one frame", async () => {
    const { headers, body } = await sealed({ method: "GET", body: "" });
    expect(body).toBeUndefined();
    const opened = async (list: HeaderList, part: string) => {
      const { opening, stream } = await begin(list, { method: "GET" }).session(provider, session);
      expect(stream.isInHeader).toBe(true);
      const [first] = await stream.all(utf8(part));
      return (await opening.open(first!)).release("fresh", NOW);
    };
    expect((await opened(headers, "")).inner).toEqual([["accept", "a"]]);
    expect(await rejected(() => opened(headers, "x"))).toBe("header_invalid X-Sealed");
    const long = (length: number) => replaced(headers, "X-Sealed", "A".repeat(length));
    expect(await rejected(() => opened(long(8192), ""))).toBe("frame_invalid");
    expect(await rejected(() => opened(long(8196), ""))).toBe("header_invalid X-Sealed");
    expect(await rejected(() => opened(replaced(headers, "X-Sealed", "AA"), ""))).toBe(
      "header_invalid X-Sealed",
    );
  });

  it("with a header that is not of its form is rejected before its session is looked up", async () => {
    for (const value of ["A", "A".repeat(8196)])
      expect(await rejected(() => begin([...NATIVE, ["X-Sealed", value]]))).toBe("header_invalid X-Sealed");
  });

  it("does not open under another line, content type, stamp, nonce or session", async () => {
    const { headers, body } = await sealed();
    const opened = (list: HeaderList, record = session, target = line.target, method = "POST") =>
      rejected(async () => {
        const exchange = Exchange.begin({ method, target }, list, NOW, { wires: [3], windowMs: WINDOW });
        const { stream } = await exchange.session(provider, record);
        await stream.all((body as Bytes).slice());
      });
    expect(await opened(headers)).toBe("accepted");
    expect(await opened(headers, session, "/a")).toBe("unsealable");
    expect(await opened(headers, session, line.target, "PUT")).toBe("unsealable");
    expect(await opened(replaced(headers, "Content-Type"))).toBe("unsealable");
    const key = headers.find(([name]) => name === "X-Idempotency-Key")?.[1] ?? "";
    expect(await opened(replaced(headers, "X-Idempotency-Key", `${key}0`))).toBe("unsealable");
    expect(await opened(replaced(headers, "X-Idempotency-Key", `0${key}`))).toBe("unsealable");
    expect(await opened(headers, { ...session, key: new Uint8Array(32) })).toBe("unsealable");
  });

  it("holds its last piece back until its body has ended", async () => {
    const pending = await beginRequest(provider, await sealOf(), line, undefined, NOW, "n".repeat(16));
    const bytes = await sealAll(pending.sealer, new Uint8Array(65_537));
    const { stream } = await begin(pending.headers).session(provider, session);
    const read = async (part: Uint8Array) => {
      const lengths: number[] = [];
      for await (const piece of stream.read(part)) {
        expect(piece.isLast).toBe(false);
        lengths.push(piece.bytes.length);
      }
      return lengths;
    };
    expect([await read(bytes.subarray(0, 50)), stream.unread]).toEqual([[], 34]);
    expect([await read(bytes.subarray(50, -1)), stream.unread]).toEqual([[65_536], 20]);
    expect(await rejected(() => stream.end())).toBe("stream_truncated");
    expect([await read(bytes.subarray(-1)), stream.unread, stream.isInHeader]).toEqual([[], 0, false]);
    expect(stream.end()).toMatchObject({ bytes: new Uint8Array(1), isLast: true });
    expect(await rejected(() => read(Uint8Array.of(0)))).toBe("frame_invalid");
  });
});

describe("a request of a compat protocol", () => {
  it.each([
    [3, NATIVE],
    [2, COMPAT_2],
    [1, COMPAT_1],
  ] as const)(
    "is of wire %s where its headers say so, and not served where that is not",
    async (wire, headers) => {
      expect(wireOf(headers)).toBe(wire);
      const served = (wires: readonly Wire[]) =>
        rejected(() => Exchange.begin(line, headers, NOW, { wires, windowMs: WINDOW }));
      expect(await served([wire])).toBe("accepted");
      expect(await served(([1, 2, 3] as const).filter((each) => each !== wire))).toBe("wire_disabled");
    },
  );

  it("has the method POST alone", async () => {
    for (const headers of [COMPAT_1, COMPAT_2])
      for (const method of ["GET", "PUT", "POSTS", "post"])
        expect(await rejected(() => begin(headers, { method }))).toBe("method_not_allowed");
  });

  it("is of the session's client on wire 2, and of the session's wire", async () => {
    const of = (headers: HeaderList, wire: number, clientId: string) =>
      rejected(() => begin(headers).session(provider, { ...session, wire, clientId }));
    expect(await of(COMPAT_2, 2, "me")).toBe("accepted");
    expect(await of(COMPAT_2, 2, "you")).toBe("client_mismatch");
    expect(await of(COMPAT_1, 1, "you")).toBe("accepted");
    for (const [headers, wire] of [
      [COMPAT_1, 2],
      [COMPAT_1, 3],
      [COMPAT_2, 1],
      [COMPAT_2, 3],
    ] as const)
      expect(await of(headers, wire, "me")).toBe("wire_mismatch");
  });

  it("has a stamp within the window as it is configured, then and at its claim", async () => {
    for (const headers of [COMPAT_1, COMPAT_2]) {
      const at = (nowMs: number) => rejected(() => begin(headers, { nowMs, windowMs: 2 * WINDOW }));
      expect(await at(NOW + 2 * WINDOW)).toBe("accepted");
      expect(await at(NOW + 2 * WINDOW + 1)).toBe("timestamp_outside_window");
      expect(await at(NOW - 2 * WINDOW - 1)).toBe("timestamp_outside_window");
    }
    const record = { ...session, wire: 2, clientId: "me", expiresMs: NOW + 4 * WINDOW };
    const kept = begin(COMPAT_2, { nowMs: NOW + 2 * WINDOW, windowMs: 2 * WINDOW });
    expect(await rejected(() => kept.session(provider, record))).toBe("accepted");
  });

  it("has the headers of its seal, each of its form", async () => {
    const of = (headers: HeaderList) => rejected(() => begin(headers).sessionId);
    for (const [headers, name, value] of [
      [COMPAT_2, "X-ClientId", "a|b"],
      [COMPAT_1, "X-Enc-Alg", "A128GCM"],
      [COMPAT_1, "X-IV", btoa("i".repeat(11))],
      [COMPAT_1, "X-IV", btoa("i".repeat(13))],
      [COMPAT_1, "X-Tag", btoa("t".repeat(15))],
      [COMPAT_1, "X-Tag", btoa("t".repeat(17))],
      [COMPAT_1, "X-AAD", "A"],
    ] as const)
      expect(await of(replaced(headers, name, value))).toBe(`header_invalid ${name}`);
    for (const name of ["X-Enc-Alg", "X-IV", "X-Tag", "X-AAD", "X-Timestamp", "X-Kid"])
      expect(await of(replaced(COMPAT_1, name))).toBe(`header_missing ${name}`);
    expect(await of(replaced(COMPAT_1, "X-Nonce", "r-n"))).toBe("nonce_reserved");
    expect(await of(replaced(COMPAT_1, "X-Timestamp", "-1"))).toBe("timestamp_invalid");
    expect(await of(replaced(COMPAT_2, "X-Idempotency-Key", "1"))).toBe("idempotency_key_shape");
    expect(await of(replaced(COMPAT_2, "X-Kid", "session:x"))).toBe("session_unknown");
  });
});
