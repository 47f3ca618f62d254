/** Answers to sealed requests: how they are sealed and opened, and what an error shows a client. */
import { describe, expect, it } from "vitest";
import { nodeProvider as provider } from "../../src/crypto/node.js";
import { CompatCall, CompatReply } from "../../src/exchange/compat.js";
import { NativeReply } from "../../src/exchange/native.js";
import { PROBLEMS, type REFUSALS } from "../../src/exchange/refusal.js";
import { formOf, Rejection } from "../../src/exchange/rejection.js";
import type { FrameSeal, Reply, SealedStream, WholeSeal } from "../../src/exchange/reply.js";
import { openCompatAnswer } from "../../src/session/compat/client.js";
import {
  beginRequest,
  isHeaderRequest,
  openAnswer,
  sealRequest,
} from "../../src/session/native/client-call.js";
import { SessionKeys } from "../../src/session/native/keys.js";
import { parseProblem, sendsAgain } from "../../src/session/native/problem.js";
import { concat } from "../../src/wire/bytes.js";
import { SealwayError } from "../../src/wire/error.js";
import type { HeaderList } from "../../src/wire/headers.js";
import { rejected } from "../rejected.js";

const NOW = 1_750_000_000_000;
const ID = `S-${"0".repeat(32)}`;
const KEY = new Uint8Array(32).fill(7);
const line = { method: "POST", target: "/a?b" };
const utf8 = (text: string) => new TextEncoder().encode(text);
const sealOf = async () => ({ wire: 3 as const, id: ID, keys: await SessionKeys.of(provider, KEY) });
const randoms = { nonce: new Uint8Array(16).fill(3), iv: new Uint8Array(12).fill(4) };

/** Headers with one of them replaced, or removed. */
const replaced = (headers: HeaderList, name: string, value?: string): HeaderList =>
  headers.flatMap((header) => (header[0] !== name ? [header] : value === undefined ? [] : [[name, value]]));

const nonce = "n".repeat(16);
const begun = async (
  status: number,
  method = "POST",
  inner: HeaderList = [["a", "b"]],
): Promise<SealedStream> => {
  const reply: Reply = new NativeReply(provider, await sealOf(), { ...line, method }, nonce);
  const answer = reply.answer(status);
  expect(answer.kind).toBe("frames");
  return (answer as FrameSeal).begin(inner, NOW, randoms);
};
const open = async (status: number, headers: HeaderList, body: Uint8Array, method = "POST") => {
  const pending = { seal: await sealOf(), line: { ...line, method }, stamp: "0", nonce };
  return openAnswer(provider, pending, status, headers, body);
};

describe("an answer in frames", () => {
  it("is opened by the request's client", async () => {
    const stream = await begun(201);
    expect(stream.isBodyless).toBe(false);
    expect(stream.headers).toEqual([
      ["X-Seal", "3"],
      ["X-Kid", `session:${ID}`],
      ["X-Idempotency-Key", `${NOW}.r-${"03".repeat(16)}`],
      ["Content-Type", "application/octet-stream"],
    ]);
    const body = await stream.whole(utf8("body"));
    const opened = await open(201, stream.headers, body);
    expect(opened).toEqual({ isProblem: false, headers: [["a", "b"]], body: utf8("body") });
    expect(await rejected(() => open(200, stream.headers, body))).toBe("unsealable");
    expect(await rejected(() => open(201, stream.headers, body.subarray(0, -1)))).toBe("stream_truncated");
    expect(await rejected(() => open(201, stream.headers, concat(body, Uint8Array.of(0))))).toBe(
      "frame_invalid",
    );
    expect(await rejected(() => open(201, stream.headers, body, "PUT"))).toBe("unsealable");
  });

  it("has a frame for each part of its body, and for no part that is empty but the last", async () => {
    const stream = await begun(200, "POST", []);
    const parts: Uint8Array[] = [];
    const lengths: number[] = [];
    for (const [part, isLast] of [
      [new Uint8Array(0), false],
      [new Uint8Array(0), false],
      [new Uint8Array(65_537), false],
      [new Uint8Array(0), true],
    ] as const) {
      for await (const frame of stream.seal(part, isLast)) {
        parts.push(frame);
        lengths.push(frame.length);
      }
    }
    // The first frame stands behind the commit and has the empty block of inner headers.
    expect(lengths).toEqual([16 + 20 + 2, 20 + 65_536, 20 + 1, 20]);
    const opened = await open(200, stream.headers, concat(...parts));
    expect([opened.headers, opened.body]).toEqual([[], new Uint8Array(65_537)]);
  });

  it("without a body is in a header", async () => {
    for (const [method, status] of [
      ["HEAD", 200],
      ["POST", 204],
      ["POST", 205],
      ["GET", 304],
    ] as const) {
      const stream = await begun(status, method);
      expect([stream.isBodyless, stream.headers.some(([name]) => name === "Content-Type")]).toEqual([
        true,
        false,
      ]);
      const headers = [...stream.headers, await stream.inHeader()];
      expect((await open(status, headers, new Uint8Array(), method)).headers).toEqual([["a", "b"]]);
      expect(await rejected(() => open(status, headers, utf8("x"), method))).toBe("header_invalid X-Sealed");
    }
  });

  it("in a header has 8192 characters at most", async () => {
    const of = async (length: number) => (await begun(204, "POST", [["a", "x".repeat(length)]])).inHeader();
    // Commit, length and tag have 36 bytes, lengths and name of the header 6.
    const most = 6144 - 36 - 6;
    expect((await of(most))[1].length).toBe(8192);
    expect(await rejected(() => of(most + 1))).toBe("inner_headers_invalid");
  });

  it("is rejected for headers that are not its own", async () => {
    const { headers } = await begun(200);
    const of = (list: HeaderList) => rejected(() => open(200, list, new Uint8Array()));
    expect(await of(headers)).toBe("stream_truncated");
    const { status } = await open(418, [], new Uint8Array()).catch((error) => error);
    expect([await of(replaced(headers, "X-Seal")), status]).toEqual(["unsealed", 418]);
    expect(await of(replaced(headers, "X-Seal", "4"))).toBe("header_invalid X-Seal");
    expect(await of(replaced(headers, "X-Kid", `session:S-${"1".repeat(32)}`))).toBe("answer_mismatch");
    expect(await of(replaced(headers, "X-Kid", `hpke:${ID}`))).toBe("kid_prefix");
    for (const [key, code] of [
      [`${NOW}.${"n".repeat(16)}`, "answer_mismatch"],
      [`${NOW}.p-${"n".repeat(16)}`, "answer_mismatch"],
      [`${NOW}.r-${"n".repeat(13)}`, "nonce_invalid"],
      [`x.r-${"n".repeat(16)}`, "timestamp_invalid"],
      ["x", "idempotency_key_shape"],
    ] as const)
      expect(await of(replaced(headers, "X-Idempotency-Key", key))).toBe(code);
    expect(await of([...headers, ["content-type", "a"]])).toBe("header_invalid Content-Type");
  });
});

describe("a request of a client", () => {
  it("is of a method that is sealed, and of a target of 8192 bytes at most", async () => {
    const of = (method: string, length = 1) =>
      rejected(async () =>
        beginRequest(provider, await sealOf(), { method, target: "/".padEnd(length) }, undefined, NOW, nonce),
      );
    for (const method of ["CONNECT", "TRACE", "OPTIONS"]) expect(await of(method)).toBe("policy");
    expect([await of("GET"), await of("GET", 8192), await of("GET", 8193)]).toEqual([
      "accepted",
      "accepted",
      "header_invalid",
    ]);
  });

  it("without a body is in a header of 8192 characters at most", async () => {
    const seal = await sealOf();
    for (const method of ["GET", "HEAD", "DELETE"])
      expect([0, 1].map((length) => isHeaderRequest(seal, method, length, 2))).toEqual([true, false]);
    expect(isHeaderRequest(seal, "POST", 0, 2)).toBe(false);
    expect([6144 - 36, 6144 - 35].map((inner) => isHeaderRequest(seal, "GET", 0, inner))).toEqual([
      true,
      false,
    ]);
    const long = { ...seal, prefix: new Uint8Array(100) };
    expect([6144 - 136, 6144 - 135].map((inner) => isHeaderRequest(long, "GET", 0, inner))).toEqual([
      true,
      false,
    ]);
  });

  it("has a body, or a stream in a header, and says which", async () => {
    const of = async (method: string) => {
      const request = await sealRequest(
        provider,
        await sealOf(),
        { ...line, method },
        [],
        new Uint8Array(),
        NOW,
        randoms.nonce,
      );
      return [request.body?.length, request.headers.map(([name]) => name).sort()];
    };
    expect(await of("POST")).toEqual([38, ["Content-Type", "X-Idempotency-Key", "X-Kid", "X-Seal"]]);
    expect(await of("GET")).toEqual([undefined, ["X-Idempotency-Key", "X-Kid", "X-Seal", "X-Sealed"]]);
  });
});

describe("a problem", () => {
  it("is read where it is an object with a code", () => {
    expect(parseProblem(utf8('{"code":"a","more":1}'))).toEqual({ code: "a", more: 1 });
    for (const text of ["", "{", "null", "[]", '"code"', "{}", '{"code":1}', '{"code":null}'])
      expect(parseProblem(utf8(text))).toBeUndefined();
  });

  it("has a safe request sent again, and another only if it was too old for every server when it left", () => {
    const of = (code: string, provenMs: number | undefined, method: string, elapsedMs = 0) =>
      sendsAgain(code, provenMs, method, NOW, elapsedMs);
    for (const method of ["GET", "HEAD"])
      expect([
        of("session_expired", undefined, method),
        of("clock_skew", NOW, method),
        of("clock_skew", undefined, method),
        of("unsealable", NOW, method),
      ]).toEqual([true, true, false, false]);
    for (const method of ["POST", "GETS", "XHEAD", "get"])
      expect([
        of("session_expired", NOW + 1e9, method),
        of("clock_skew", undefined, method),
        of("clock_skew", NOW + 600_000, method),
        of("clock_skew", NOW + 600_001, method),
        of("clock_skew", NOW + 600_001, method, 1),
        of("replayed", NOW + 1e9, method),
      ]).toEqual([false, false, false, true, false, false]);
  });
});

describe("an answer of a compat protocol", () => {
  const session = (wire: 1 | 2) => ({ id: ID, wire, clientId: "me", expiresMs: NOW, key: KEY });
  const headersOf = (wire: 1 | 2): HeaderList =>
    wire === 2
      ? [
          ["X-Kid", `session:${ID}`],
          ["X-Idempotency-Key", `${NOW}.n`],
          ["X-ClientId", "me"],
        ]
      : [
          ["X-Kid", `session:${ID}`],
          ["X-Nonce", "n"],
          ["X-Timestamp", `${NOW}`],
          ["X-Enc-Alg", "A256GCM"],
          ["X-IV", btoa("i".repeat(12))],
          ["X-Tag", btoa("t".repeat(16))],
          ["X-AAD", btoa("a")],
        ];
  const replyOf = async (wire: 1 | 2): Promise<Reply> => {
    const call = new CompatCall(line, headersOf(wire), NOW, 0);
    return new CompatReply(call, await provider.aeadKey(KEY), session(wire));
  };

  it.each([1, 2] as const)(
    "of wire %s is opened by the request's client, and within the window",
    async (wire) => {
      const reply = await replyOf(wire);
      const { status, seal: sealWhole } = reply.answer(201) as WholeSeal;
      const sealed = await sealWhole(utf8("body"), NOW, randoms);
      const client = { ...session(wire), expiresInSec: 1, key: await provider.aeadKey(KEY) };
      const opened = (nowMs: number, said = status, path = "/a", list: HeaderList = sealed.headers) =>
        openCompatAnswer(client, path, said, list, sealed.body, nowMs, 5);
      expect([status, await opened(NOW + 5), await opened(NOW - 5)]).toEqual([
        200,
        utf8("body"),
        utf8("body"),
      ]);
      expect(await rejected(() => opened(NOW + 6))).toBe("timestamp_outside_window");
      expect(await rejected(() => opened(NOW - 6))).toBe("timestamp_outside_window");
      const kid = `session:S-${"1".repeat(32)}`;
      const other = replaced(sealed.headers, "X-Kid", kid);
      expect(await rejected(() => opened(NOW, 200, "/a", other))).toBe("answer_mismatch");
      if (wire === 1)
        expect([
          await rejected(() => opened(NOW, 201)),
          await rejected(() => opened(NOW, 200, "/b")),
        ]).toEqual(["aad_mismatch", "aad_mismatch"]);
    },
  );

  it("is in plain for a plaintext that the handler refused, and 200 for every success", async () => {
    const reply = await replyOf(2);
    const kindOf = (status: number) => {
      const { kind, ...more } = reply.answer(status);
      return [kind, (more as Partial<WholeSeal>).status];
    };
    for (const status of [200, 201, 204, 299]) expect(kindOf(status)).toEqual(["whole", 200]);
    for (const status of [199, 300, 401, 404, 421, 423, 500])
      expect(kindOf(status)).toEqual(["whole", status]);
    for (const status of [400, 422])
      expect(reply.answer(status)).toMatchObject({
        kind: "plain",
        answer: { status: 400, body: utf8('{"error":"CRYPTO_ERROR"}') },
      });
    expect(await rejected(() => reply.answer(304))).toBe("upstream_unreachable");
  });
});

describe("a rejection", () => {
  const textOf = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

  it("shows a coarse code in the form of the request's wire", () => {
    expect(([1, 2, 3] as const).map(formOf)).toEqual(["plain", "plain", "problem"]);
    const error = new Rejection("aad_mismatch", "secret words", undefined, { more: 1 });
    expect(error.answer("plain")).toEqual({
      status: 400,
      headers: [
        ["Content-Type", "application/json"],
        ["Cache-Control", "no-store"],
      ],
      body: utf8('{"error":"CRYPTO_ERROR"}'),
    });
    const { status, headers, body } = error.answer("problem");
    expect([status, headers[0]]).toEqual([400, ["Content-Type", "application/problem+json"]]);
    expect(JSON.parse(textOf(body))).toEqual({
      type: "urn:sealway:problem:unsealable",
      title: PROBLEMS.unsealable[1],
      status: 400,
      code: "unsealable",
      more: 1,
    });
  });

  it("of the server, and not of a request, is a problem too", () => {
    const of = (code: keyof typeof REFUSALS) => {
      const { status, body } = new Rejection(code, "").answer("problem");
      return [status, JSON.parse(textOf(body)).code];
    };
    expect(of("wire_disabled")).toEqual([403, "wire_disabled"]);
    expect(of("method_not_allowed")).toEqual([405, "method_not_allowed"]);
    expect(of("upstream_unreachable")).toEqual([502, "upstream_unreachable"]);
  });

  it("says when to come again, and which methods there are", () => {
    const more = (code: keyof typeof REFUSALS, form: "plain" | "problem") =>
      new Rejection(code, "").answer(form).headers.slice(2);
    for (const form of ["plain", "problem"] as const) {
      expect(more("store_unavailable", form)).toEqual([["Retry-After", "1"]]);
      expect(more("method_not_allowed", form)).toEqual([["Allow", "POST, OPTIONS"]]);
    }
    expect([more("nonces_full", "plain"), more("nonces_full", "problem")]).toEqual([
      [],
      [["Retry-After", "1"]],
    ]);
  });

  it("of an error that is none is the store's fault", () => {
    const own = new Rejection("replayed", "");
    expect(Rejection.of(own)).toBe(own);
    const cause = new Error("cause");
    const known = Rejection.of(new SealwayError("unsealable", "what", { cause }));
    expect([known.code, known.message, known.cause]).toEqual(["unsealable", "what", cause]);
    for (const error of [new SealwayError("toString", ""), new Error("x"), { code: "unsealable" }, undefined])
      expect([Rejection.of(error).code, Rejection.of(error).cause]).toEqual(["store_unavailable", error]);
  });
});
