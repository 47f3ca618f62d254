/** Key configurations, key documents and problems of wire 4 at their edges. */
import { describe, expect, it } from "vitest";
import { nodeProvider as provider } from "../../src/crypto/node.js";
import { KID, parseConfig } from "../../src/session/one-shot/config.js";
import { parseKeyDocument } from "../../src/session/one-shot/document.js";
import { isKem, KEMS } from "../../src/session/one-shot/hpke.js";
import { codeOf, serverTimeMs } from "../../src/session/one-shot/problem.js";
import { toBase64 } from "../../src/wire/base64.js";
import { utf8 } from "../../src/wire/bytes.js";
import { rejected } from "../rejected.js";

const SUITE = [0, 4, 0, 1, 0, 2];
/** A configuration of a KEM that this SDK does not have. */
const configOf = (...publicKey: number[]) => Uint8Array.of(1, 0x7f, 0xff, ...publicKey, ...SUITE);

describe("a key configuration", () => {
  it("has a public key, also of a KEM that is not known", () => {
    expect(parseConfig(configOf(9))).toMatchObject({ kem: undefined, publicKey: Uint8Array.of(9) });
    expect(parseConfig(configOf())).toBeUndefined();
    for (let length = 1; length < 10; length += 1) {
      expect(parseConfig(configOf(9).slice(0, length))).toBeUndefined();
      expect(parseConfig(configOf(9).slice(-length))).toBeUndefined();
    }
  });

  it("has a name of 32 digits", () => {
    const kid = `hpke:${"09af".repeat(8)}`;
    const wrong = [`x${kid}`, `${kid}0`, kid.slice(0, -1), kid.toUpperCase(), kid.replace("0", "g"), ""];
    expect([kid, ...wrong].map((text) => KID.test(text))).toEqual([true, ...wrong.map(() => false)]);
  });

  it("is of a KEM that has its name", () => {
    expect(KEMS.map(isKem)).toEqual([true, true, true, true]);
    expect(["toString", "x25519", "", ["X25519"], 1, undefined].map(isKem)).toEqual(Array(6).fill(false));
  });
});

it("a key of a document has three times, each at least the one before", async () => {
  const of = (...times: readonly number[]) => {
    const [not_before_ms, use_until_ms, not_after_ms] = times;
    const key = { config: toBase64(configOf(9)), not_before_ms, use_until_ms, not_after_ms };
    const body = utf8(JSON.stringify({ issued_ms: 1, expires_ms: 2, keys: [key] }));
    return rejected(() => parseKeyDocument(provider, body));
  };
  for (const times of [
    [1, 1, 1],
    [1, 2, 3],
  ])
    expect(await of(...times)).toBe("accepted");
  for (const times of [
    [2, 1, 3],
    [1, 3, 2],
  ])
    expect(await of(...times)).toBe("field_invalid keys");
});

describe("a problem", () => {
  const SEALED = [
    "clock_skew",
    "policy",
    "replayed",
    "store_unavailable",
    "upstream_unreachable",
    "upstream_timeout",
  ];
  const PLAIN = ["key_retired", "unsealable", "too_large", "wire_disabled", "rate_limited"];

  it("has no code of the other kind, sealed or plain", () => {
    const of = (code: string) => [codeOf({ code }, true), codeOf({ code }, false)];
    for (const code of SEALED) expect(of(code)).toEqual([code, undefined]);
    for (const code of PLAIN) expect(of(code)).toEqual([undefined, code]);
    // Codes that are yet unknown.
    for (const code of [...SEALED, ...PLAIN])
      for (const other of [`x${code}`, `${code}x`]) expect(of(other)).toEqual([other, other]);
    for (const code of ["", "Policy", "policY", "a b", "x".repeat(65)])
      expect(of(code)).toEqual([undefined, undefined]);
    expect(codeOf({}, true)).toBeUndefined();
  });

  it("has the server's time in 15 digits", () => {
    const of = (time: unknown, isSealed = true) =>
      serverTimeMs({ code: "clock_skew", server_time_ms: time }, isSealed);
    expect([of(1e15 - 1), of(1e15), of(-1), of("1"), of(1, false)]).toEqual([
      1e15 - 1,
      ...Array(4).fill(undefined),
    ]);
  });
});
