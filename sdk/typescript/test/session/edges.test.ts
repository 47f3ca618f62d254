/** Streams, inner headers, key sets and claims at their edges. */
import { describe, expect, it } from "vitest";
import { nodeProvider as provider } from "../../src/crypto/node.js";
import { Exchange, looksSealed, type SessionRecord } from "../../src/exchange/exchange.js";
import { isBodyless } from "../../src/session/native/call.js";
import { decodeInner, encodeInner } from "../../src/session/native/inner.js";
import { parseKeySet, parseSet, wholeMs } from "../../src/session/native/key-set.js";
import { KEY_ID } from "../../src/session/native/message.js";
import {
  cut,
  FRAME_LEN_MAX,
  FrameOpener,
  FrameSealer,
  openAll,
  type StreamKeys,
  sealAll,
  streamLength,
} from "../../src/session/native/stream.js";
import { toBase64 } from "../../src/wire/base64.js";
import { rejected } from "../rejected.js";

const utf8 = (text: string) => new TextEncoder().encode(text);

describe("a stream", () => {
  const context = utf8("context");
  const keys = async (): Promise<StreamKeys> => ({
    aead: await provider.aeadKey(new Uint8Array(32)),
    iv: new Uint8Array(12).fill(1),
    commit: new Uint8Array(16).fill(2),
  });

  it("has the length of its frames, of which there is one at least", async () => {
    for (const [plain, frames] of [
      [0, 1],
      [1, 1],
      [FRAME_LEN_MAX, 1],
      [FRAME_LEN_MAX + 1, 2],
      [3 * FRAME_LEN_MAX, 3],
    ] as const) {
      expect(streamLength(plain)).toBe(16 + 20 * frames + plain);
      const sealer = new FrameSealer(await keys(), context, Uint8Array.of(7, 8, 9));
      expect(sealer.lengthOf(plain)).toBe(3 + streamLength(plain));
      const sealed = await sealAll(sealer, new Uint8Array(plain).fill(5));
      expect(sealed.length).toBe(3 + streamLength(plain));
      expect([...sealed.subarray(0, 3)]).toEqual([7, 8, 9]);
      const opened = await openAll(new FrameOpener(await keys(), context, false), sealed.subarray(3));
      expect(opened.length).toBe(frames);
      expect(Buffer.concat(opened)).toEqual(Buffer.alloc(plain, 5));
      const parts = [...cut(new Uint8Array(plain))];
      expect(parts.map(({ isLast }) => isLast)).toEqual(parts.map((_, at) => at === frames - 1));
    }
  });

  it("has no frame that is too long, and none behind the last", async () => {
    const sealer = new FrameSealer(await keys(), context);
    expect(await rejected(() => sealer.seal(new Uint8Array(FRAME_LEN_MAX + 1), false))).toBe("frame_invalid");
    await sealer.seal(new Uint8Array(FRAME_LEN_MAX), false);
    await sealer.seal(new Uint8Array(1), true);
    expect(await rejected(() => sealer.seal(new Uint8Array(1), true))).toBe("frame_invalid");
  });

  it("is written into the given buffer, and the rest of the buffer is the result", async () => {
    const space = new Uint8Array(16 + 4 + 17 + 5);
    const rest = await new FrameSealer(await keys(), context).seal(Uint8Array.of(1), true, space);
    expect([rest.length, rest.byteOffset]).toEqual([5, 16 + 4 + 17]);
    const alone = await new FrameSealer(await keys(), context).seal(Uint8Array.of(1), true);
    expect(space.subarray(0, 37)).toEqual(alone);
  });

  it("opens from pieces of any size", async () => {
    const sealed = await sealAll(new FrameSealer(await keys(), context), utf8("abc"));
    const opener = new FrameOpener(await keys(), context, false);
    const piece = new Uint8Array(1);
    for (const [at, byte] of sealed.entries()) {
      expect(opener.isDone).toBe(false);
      // The same memory each time: what the opener keeps it has copied.
      piece[0] = byte;
      opener.push(piece.slice());
      const frame = await opener.next();
      expect(frame === undefined).toBe(at + 1 < sealed.length);
    }
    expect(opener.isDone).toBe(true);
    expect(await rejected(() => opener.finish())).toBe("accepted");
  });
});

describe("inner headers", () => {
  it("are encoded and decoded", () => {
    const headers = [
      ["a", "\t ~\x80ÿ"],
      ["b-", ""],
    ] as const;
    const block = encodeInner([["A", headers[0][1]], headers[1]]);
    expect(Buffer.from(block).toString("hex")).toBe("000e016100050920" + "7e80ff02622d0000");
    expect(decodeInner(block).headers).toEqual(headers);
  });

  it("are 64 and 16 KiB at most", async () => {
    const many = (count: number): [string, string][] => Array.from({ length: count }, () => ["a", ""]);
    expect(decodeInner(encodeInner(many(64))).headers.length).toBe(64);
    expect(await rejected(() => encodeInner(many(65)))).toBe("inner_headers_invalid");
    expect(encodeInner([["a", "x".repeat(16_384 - 4)]]).length).toBe(2 + 16_384);
    for (const length of [16_384 - 3, 16_384, 16_385, 65_536, 65_537])
      expect(await rejected(() => encodeInner([["a", "x".repeat(length)]]))).toBe("inner_headers_invalid");
  });

  it.each([
    ["host", "a"],
    ["a", "\n"],
    ["", "a"],
    ["a b", ""],
    ["X-Kid", ""],
    ["proxy-a", ""],
    ["a", "\u0100"],
  ])("have no %s", async (name, value) => {
    expect(await rejected(() => encodeInner([[name, value]]))).toBe("inner_headers_invalid");
  });
});

describe("a key set", () => {
  const set = '{"issued_ms":1,"expires_ms":2,"keys":[]}';

  it("has 64 KiB at most", async () => {
    const padded = (length: number) => utf8(set.padEnd(length, " "));
    expect(await rejected(() => parseKeySet(provider, padded(65_536)))).toBe("accepted");
    expect(await rejected(() => parseKeySet(provider, padded(65_537)))).toBe("body_too_large");
  });

  it("names the member that is not of its form", async () => {
    const of = (members: object) =>
      parseKeySet(provider, utf8(JSON.stringify({ ...JSON.parse(set), ...members })));
    const id = "0".repeat(32);
    expect(await rejected(() => of({ root_key_id: id, root_signature: "AA==" }))).toBe("accepted");
    expect(await rejected(() => of({ root_key_id: id }))).toBe("field_invalid root_key_id");
    expect(await rejected(() => of({ root_signature: "AA==" }))).toBe("field_invalid root_key_id");
    for (const wrong of [`0${id}`, `${id}0`, id.slice(1), "", 1])
      expect(await rejected(() => of({ root_key_id: wrong, root_signature: "AA==" }))).toBe(
        "field_invalid root_key_id",
      );
    const signed = (length: number) =>
      of({ root_key_id: id, root_signature: toBase64(new Uint8Array(length)) });
    expect(await rejected(() => signed(8192))).toBe("accepted");
    expect(await rejected(() => signed(8193))).toBe("field_invalid root_signature");
    expect(await rejected(() => of({ keys: [1] }))).toBe("field_invalid keys");
    expect(await rejected(() => of({ keys: Array(17).fill(1) }))).toBe("field_invalid keys");
  });

  it("has no two keys of one id", async () => {
    const of = (ids: string[]) =>
      rejected(() =>
        parseSet(utf8(set.replace("[]", JSON.stringify(ids.map((id) => ({ id }))))), (reader) => ({
          keyId: reader.required("id", (id) => id as string),
        })),
      );
    expect(await of(["a", "b"])).toBe("accepted");
    expect(await of(["a", "b", "a"])).toBe("field_invalid keys");
  });

  it("has times of 15 digits and ids of 32", () => {
    expect([wholeMs(1e15 - 1), wholeMs(1e15)]).toEqual([1e15 - 1, undefined]);
    const id = "09af".repeat(8);
    expect([id, `0${id}`, `${id}0`].map((text) => KEY_ID.test(text))).toEqual([true, false, false]);
  });
});

describe("an exchange", () => {
  const NOW = 1_750_000_000_000;
  const id = `S-${"0".repeat(32)}`;
  const headersOf = (kid: string) =>
    [
      ["X-Kid", kid],
      ["X-Idempotency-Key", `${NOW}.${"n".repeat(16)}`],
      ["X-Seal", "3"],
    ] as const;
  const policy = { wires: [1, 2, 3] as const, windowMs: 300_000 };
  const begin = (method: string, kid = `session:${id}`, wires: readonly (1 | 2 | 3)[] = policy.wires) =>
    Exchange.begin({ method, target: "/" }, headersOf(kid), NOW, { ...policy, wires });

  it("looks sealed by any header of a seal", () => {
    for (const name of ["X-Kid", "x-idempotency-key", "X-SEAL"]) expect(looksSealed([[name, ""]])).toBe(true);
    expect([looksSealed([]), looksSealed([["X-Other", "1"]])]).toEqual([false, false]);
  });

  it("has no body with these methods and statuses", () => {
    expect([204, 205, 304].map((status) => isBodyless("GET", status))).toEqual([true, true, true]);
    expect([isBodyless("HEAD", 200), isBodyless("GET", 200), isBodyless("POST", 404)]).toEqual([
      true,
      false,
      false,
    ]);
  });

  it("is of a wire that is served, and of a method that is sealed", async () => {
    for (const method of ["GET", "POST", "XCONNECT", "TRACEX", "OPTIONS"])
      expect(await rejected(() => begin(method).sessionId)).toBe("accepted");
    for (const method of ["CONNECT", "TRACE"])
      expect(await rejected(() => begin(method))).toBe("method_not_allowed");
    expect(await rejected(() => begin("POST", undefined, [1, 2]))).toBe("wire_disabled");
  });

  it("is of a session that has its id", async () => {
    const session: SessionRecord = {
      id,
      wire: 3,
      clientId: undefined,
      expiresMs: NOW + 1,
      key: new Uint8Array(32),
    };
    expect(begin("POST").sessionId).toBe(id);
    expect(await rejected(() => begin("POST", "session:x").sessionId)).toBe("session_unknown");
    const asked = (found: SessionRecord | undefined) =>
      rejected(() => begin("POST").session(provider, found));
    expect(await asked(session)).toBe("accepted");
    expect(await asked(undefined)).toBe("session_unknown");
    expect(await asked({ ...session, id: `S-${"1".repeat(32)}` })).toBe("session_unknown");
    expect(await asked({ ...session, expiresMs: NOW })).toBe("session_expired");
    expect(await asked({ ...session, wire: 2 })).toBe("wire_mismatch");
  });

  it("of an anonymous session of a compat protocol is short", async () => {
    const compat = async (sessionId: string) => {
      const headers = [
        ["X-Kid", `session:${sessionId}`],
        ["X-Idempotency-Key", `${NOW}.${"n".repeat(16)}`],
        ["X-ClientId", "me"],
        ["X-Enc-Alg", "A256GCM"],
        ["X-IV", Buffer.alloc(12).toString("base64")],
        ["X-Tag", Buffer.alloc(16).toString("base64")],
        ["X-AAD", Buffer.from("x").toString("base64")],
      ] as const;
      const exchange = Exchange.begin({ method: "POST", target: "/" }, headers, NOW, policy);
      const session = { id: sessionId, wire: 2, clientId: "me", expiresMs: NOW + 1, key: new Uint8Array(32) };
      return (await exchange.session(provider, session)).opening;
    };
    const [own, anonymous] = [await compat(id), await compat(`A-${"0".repeat(32)}`)];
    expect([own.isWhole, own.isAnonymous, own.bodyMax(9000, 7)]).toEqual([true, false, 9000]);
    expect([anonymous.isAnonymous, anonymous.bodyMax(9000, 7), anonymous.bodyMax(10, 7)]).toEqual([
      true,
      4096,
      10,
    ]);
    const { opening } = await begin("POST").session(provider, {
      id,
      wire: 3,
      clientId: undefined,
      expiresMs: NOW + 1,
      key: new Uint8Array(32),
    });
    expect([opening.isWhole, opening.bodyMax(9000, 7)]).toEqual([false, 7]);
  });
});
