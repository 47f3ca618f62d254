/** Messages of an init at their edges, the server's choice of suite and key, and a client's proof. */
import { describe, expect, it } from "vitest";
import { nodeProvider as provider } from "../../src/crypto/node.js";
import { ClientInit } from "../../src/session/native/client-init.js";
import { parseInitAnswer, parseInitRequest } from "../../src/session/native/message.js";
import { admitInit, type Identity } from "../../src/session/native/server-init.js";
import { drawShareKeys } from "../../src/session/native/suite.js";
import { rejected } from "../rejected.js";

const NOW = 1_750_000_000_000;
const utf8 = (text: string) => new TextEncoder().encode(text);
const json = (value: object) => utf8(JSON.stringify(value));
const idOf = (digit: number) => `${digit}`.repeat(32);

const request = { suite: "P256", suites: ["P256"], share: "AA==", client_id: "me" };
const answer = {
  session_id: `S-${idOf(0)}`,
  suite: "P256",
  suites: ["P256"],
  share: "AA==",
  expires_in_sec: 2 ** 32 - 1,
  server_time_ms: Number.MAX_SAFE_INTEGER,
  key_id: idOf(1),
  key_ids: [idOf(1)],
  auth: "none",
  signature: btoa("s".repeat(8192)),
  confirm: btoa("c".repeat(32)),
};

describe("the request of an init", () => {
  it("has 16 384 bytes at most", async () => {
    const of = (length: number) =>
      rejected(() => parseInitRequest(utf8(JSON.stringify(request).padEnd(length))));
    expect([await of(16_384), await of(16_385)]).toEqual(["accepted", "body_too_large"]);
  });

  it("names the member that is not of its form", async () => {
    const of = (members: object) => rejected(() => parseInitRequest(json({ ...request, ...members })));
    const pins = (count: number) => Array.from({ length: count }, (_, at) => `${at}`.padStart(32, "0"));
    for (const members of [
      {},
      { suite: "x".repeat(32), client_id: "x".repeat(256), ttl_sec: 2 ** 32 - 1, proof: "x".repeat(8192) },
      { pinned_key_ids: pins(16), signature_algorithms: ["A+b_9-"] },
      { suites: [..."abcdefgh"], pinned_key_ids: [] },
    ])
      expect(await of(members)).toBe("accepted");
    for (const [name, values] of Object.entries({
      suite: ["", "x".repeat(33), "a b", "é", " a", "a\n", undefined],
      suites: [[], [..."abcdefghi"], ["a", "a"], ["a b"]],
      share: ["", "AA", undefined],
      client_id: ["", "x".repeat(257), "a|b", "é", "\na"],
      ttl_sec: [-1, 2 ** 32, 0.5, "1"],
      proof: ["", "x".repeat(8193)],
      pinned_key_ids: [pins(17), [`${idOf(0)}0`], [`0${idOf(0)}`], [idOf(0), idOf(0)]],
      signature_algorithms: [[], [..."abcdefghi"], ["a b"]],
    }))
      for (const value of values) expect(await of({ [name]: value })).toBe(`field_invalid ${name}`);
  });
});

describe("the answer of an init", () => {
  it("has the status 201, and an error names another one", async () => {
    expect(parseInitAnswer(201, json(answer)).answer.sessionId).toBe(answer.session_id);
    for (const status of [200, 202, 401])
      expect(() => parseInitAnswer(status, json(answer))).toThrow(
        expect.objectContaining({ code: "answer_mismatch", status }),
      );
  });

  it("has members of their forms", async () => {
    const of = (members: object) => rejected(() => parseInitAnswer(201, json({ ...answer, ...members })));
    for (const auth of ["none", "bearer", "dpop", "certificate"]) expect(await of({ auth })).toBe("accepted");
    expect(await of({ subject: "x".repeat(256), tenant: "x" })).toBe("accepted");
    for (const [name, values] of Object.entries({
      session_id: [`x${answer.session_id}`, `${answer.session_id}0`, `A-${idOf(0)}`, undefined],
      expires_in_sec: [2 ** 32, -1],
      server_time_ms: [2 ** 53, -1],
      key_id: [`0${idOf(0)}`, `${idOf(0)}0`],
      key_ids: [[], Array.from({ length: 17 }, (_, at) => `${at}`.padStart(32, "0"))],
      auth: ["", "xnone", "nonex", "xcertificate", "certificatex"],
      subject: ["", "x".repeat(257)],
      tenant: ["", "x".repeat(257)],
      signature: ["", btoa("s".repeat(8193))],
      confirm: [btoa("c".repeat(31)), btoa("c".repeat(33))],
    }))
      for (const value of values) expect(await of({ [name]: value })).toBe(`answer_mismatch ${name}`);
  });
});

describe("a server", () => {
  const key = (digit: number, notBeforeMs: number, notAfterMs: number, more = {}): Identity => ({
    keyId: idOf(digit),
    algorithm: "ES256",
    notBeforeMs,
    notAfterMs,
    ...more,
  });
  const admit = (identities: readonly Identity[], members: object = {}, suites = ["P256"]) =>
    admitInit(json({ ...request, ...members }), { suites, identities }, NOW);

  it("takes the first suite of the client's list that it serves, and no other", async () => {
    const live = [key(1, NOW, NOW + 1)];
    const of = (members: object, suites?: string[]) => rejected(() => admit(live, members, suites));
    expect(await of({})).toBe("accepted");
    expect(await of({ suites: ["X", "P256"] })).toBe("accepted");
    expect(await of({ suites: ["X"] })).toBe("suite_required");
    expect(await of({ suite: "X", suites: ["P256"] })).toBe("suite_required");
    expect(await of({ suites: ["MLKEM1024", "P256"] }, ["P256", "MLKEM1024"])).toBe("suite_required");
    // One that its settings name and it does not have.
    expect(await of({ suite: "X", suites: ["X"] }, ["X"])).toBe("suite_required");
    expect(await of({ suite: "toString", suites: ["toString"] }, ["toString"])).toBe("suite_required");
  });

  it("signs by the newest live key that the client accepts", async () => {
    const keys = [
      key(1, NOW - 2, NOW + 1),
      key(2, NOW, NOW + 1),
      key(3, NOW - 1, NOW + 1),
      key(4, NOW + 1, NOW + 2),
      key(5, NOW - 1, NOW),
    ];
    expect(admit(keys)).toMatchObject({ signer: idOf(2), keyIds: [2, 3, 1].map(idOf) });
    expect(admit(keys, { pinned_key_ids: [idOf(1), idOf(3)] }).signer).toBe(idOf(3));
    const of = (identities: readonly Identity[], members: object) =>
      rejected(() => admit(identities, members));
    for (const digit of [4, 5, 6])
      expect(await of(keys, { pinned_key_ids: [idOf(digit)] })).toBe("key_retired");
    const large = [key(1, NOW, NOW + 1, { algorithm: "ML-DSA-65" })];
    expect(await of(large, {})).toBe("key_retired");
    expect(await of(large, { pinned_key_ids: [idOf(1)] })).toBe("accepted");
    expect(await of(large, { signature_algorithms: ["ML-DSA-65"] })).toBe("accepted");
    expect(await of(large, { pinned_key_ids: [idOf(1)], signature_algorithms: ["ES256"] })).toBe(
      "key_retired",
    );
  });
});

it("a proof of possession is added to the request, whose hash it has no part in", async () => {
  const offer = { suite: "P256", suites: ["P256"], clientId: "me", pinnedKeyIds: [] } as const;
  const init = new ClientInit(provider, offer, await drawShareKeys(provider, "P256"));
  const text = () => JSON.parse(new TextDecoder().decode(init.body()));
  const [before, hash] = [text(), await init.initHash()];
  expect(before).toMatchObject({ suite: "P256", suites: ["P256"], client_id: "me" });
  init.prove("proof");
  expect(text()).toEqual({ ...before, proof: "proof" });
  expect(await init.initHash()).toEqual(hash);
});
