/** Inits, messages and answers of wires 1 and 2 at their edges. */
import { describe, expect, it } from "vitest";
import { nodeProvider as provider } from "../../src/crypto/node.js";
import { CompatInit } from "../../src/session/compat/client.js";
import { parseDetached, seal1, seal2 } from "../../src/session/compat/message.js";
import { type Family, parseCompatInit } from "../../src/session/compat/server-init.js";
import { toBase64 } from "../../src/wire/base64.js";
import { utf8 } from "../../src/wire/bytes.js";
import type { HeaderList } from "../../src/wire/headers.js";
import { rejected } from "../rejected.js";

const NOW = 1_750_000_000_000;
const NONCE = "n".repeat(16);
const ID = `S-${"0".repeat(32)}`;
const json = (value: unknown) => utf8(JSON.stringify(value));

const WIRE_1: HeaderList = [
  ["X-Nonce", NONCE],
  ["X-Timestamp", `${NOW}`],
];
const WIRE_2: HeaderList = [
  ["X-Idempotency-Key", `${NOW}.${NONCE}`],
  ["X-ClientId", "me"],
];

describe("an init at the server", () => {
  const body = { clientPublicKey: "AA==", keyAgreement: "ECDH_P256" };
  const parse = (family: Family, headers: HeaderList, members: object = {}) =>
    parseCompatInit(provider, family, headers, json({ ...body, ...members }), NOW, 1000);

  it("names the member that is not of its form", async () => {
    for (const [headers, members, wanted] of [
      [WIRE_1, { keyAgreement: "P256" }, "field_invalid keyAgreement"],
      [WIRE_1, { clientPublicKey: "" }, "field_invalid clientPublicKey"],
      [WIRE_2, { clientPublicKey: 1 }, "field_invalid clientPublicKey"],
      [WIRE_2, { ttlSec: -1 }, "field_invalid ttlSec"],
      [WIRE_2, { keyAgreement: "P256" }, "accepted"],
    ] as const)
      expect(await rejected(() => parse("session", headers, members))).toBe(wanted);
  });

  it("is of the one wire that its path has, whatever its headers", async () => {
    const both = [...WIRE_1, ...WIRE_2];
    expect((await parse("anonymous", both)).wire).toBe(1);
    expect((await parse("session", both)).wire).toBe(2);
    expect((await parse("v1", both)).wire).toBe(2);
    expect(await rejected(() => parse("v1", WIRE_1))).toBe("header_missing X-Idempotency-Key");
  });

  it("of wire 1 takes a lifetime as a JSON number, or as the text of a decimal number", async () => {
    for (const [ttlSec, wanted] of [
      [1800.9, 1800],
      [-1.5, 0],
      [" 1800 ", 1800],
      ["+1800.75", 1800],
      ["1800.", 1800],
      [".55e4", 5500],
      ["1e+03", 1000],
      ["18E-1", 1],
      ["-7", 0],
      ["1e999", undefined],
      ["Infinity", undefined],
      ["x1", undefined],
      ["1x", undefined],
      ["0x10", undefined],
      ["1 2", undefined],
      [".", undefined],
      ["", undefined],
      [true, undefined],
      [[1], undefined],
      [null, undefined],
    ] as const)
      expect([ttlSec, (await parse("session", WIRE_1, { ttlSec })).ttlSec]).toEqual([ttlSec, wanted]);
  });
});

describe("an init at the client", () => {
  const init = async (clientId: string, wire: 1 | 2 = 2) =>
    new CompatInit(wire, false, clientId, undefined, await provider.p256(), new Uint8Array(16), NOW);

  it("of wire 2 has a client id", async () => {
    expect(await rejected(() => init("me"))).toBe("accepted");
    for (const clientId of ["", "a|b", "é"])
      expect([await rejected(() => init(clientId)), await rejected(() => init(clientId, 1))]).toEqual([
        "header_invalid",
        "accepted",
      ]);
  });

  it("names the member of the answer that is not of its form", async () => {
    const serverPublicKey = toBase64((await provider.p256()).publicKey);
    const answer = { sessionId: ID, serverPublicKey, encAlg: "A256GCM", expiresInSec: 2 ** 32 - 1 };
    const finish = async (members: object) =>
      (await init("me")).finish(provider, json({ ...answer, ...members }), NOW);
    expect((await finish({ encAlg: "aes-256-gcm" })).id).toBe(ID);
    for (const [name, values] of Object.entries({
      // An array of one text reads as that text where it is made one.
      sessionId: [undefined, [ID], `${ID}0`],
      serverPublicKey: [undefined, [serverPublicKey]],
      encAlg: [undefined, "a256gcm"],
      expiresInSec: [undefined, -1, 2 ** 32, "1"],
    }))
      for (const value of values)
        expect(await rejected(() => finish({ [name]: value }))).toBe(`field_invalid ${name}`);
  });
});

describe("a message", () => {
  it("of wire 1 is rejected for a missing header before the form of another one", async () => {
    const headers = (...names: string[]) => [
      ["X-Enc-Alg", "A256GCM"] as const,
      ...names.map((name) => [name, "?"] as const),
    ];
    const of = (...names: string[]) => rejected(() => parseDetached(headers(...names)));
    expect(await of("X-IV", "X-Tag")).toBe("header_missing X-AAD");
    expect(await of("X-IV", "X-AAD")).toBe("header_missing X-Tag");
    expect(await of("X-Tag", "X-AAD")).toBe("header_missing X-IV");
    expect(await of("X-IV", "X-Tag", "X-AAD")).toBe("header_invalid X-IV");
  });

  it("is text on wire 1 and bytes on wire 2", async () => {
    const key = await provider.aeadKey(new Uint8Array(32));
    const [kid, iv, text] = [`session:${ID}`, new Uint8Array(12), utf8("text")];
    const one = await seal1(key, "POST", "/", `${NOW}`, NONCE, kid, iv, text);
    const two = await seal2(key, `${NOW}`, NONCE, kid, "me", iv, text);
    expect([one.contentType, two.contentType]).toEqual([
      "text/plain; charset=utf-8",
      "application/octet-stream",
    ]);
  });
});
