/** Which identity keys a client takes for a service's own. */
import { describe, expect, it } from "vitest";
import { Keyring, memoryTrustStore, storageTrustStore } from "../../src/client/trust.js";
import { nodeProvider as provider } from "../../src/crypto/node.js";
import { keyIdOf } from "../../src/session/native/key-set.js";
import type { InitAnswer } from "../../src/session/native/message.js";
import { toBase64 } from "../../src/wire/base64.js";
import { type Bytes, utf8 } from "../../src/wire/bytes.js";
import { keySetOf, Signer } from "../signer.js";

const ORIGIN = "https://service.test";

const keySet = async (...args: Parameters<typeof keySetOf>): Promise<Bytes> =>
  utf8(JSON.stringify(await keySetOf(...args)));
const answer = (keyId: string, keyIds: string[]): InitAnswer => ({ keyId, keyIds }) as unknown as InitAnswer;
const never = (): Promise<Bytes> => Promise.reject(new Error("asked for a key set"));

describe("a keyring", () => {
  it("with pinned keys fetches nothing, and with pinned ids looks up only those", async () => {
    const [own, other] = [await Signer.make(), await Signer.make()];
    const byKey = await Keyring.of(provider, { pins: [toBase64(own.publicKey)] }, ORIGIN);
    expect(await byKey.key(own.id, Date.now(), never)).toEqual(own.publicKey);
    const byId = await Keyring.of(provider, { pins: [own.id] }, ORIGIN);
    expect(byId.pinned()).toEqual([own.id]);
    expect(await byId.key(own.id, Date.now(), () => keySet([own, other]))).toEqual(own.publicKey);
    await expect(byId.key(other.id, Date.now(), () => keySet([own, other]))).rejects.toMatchObject({
      code: "key_untrusted",
    });
  });

  it("with a root accepts its key sets, and no older one", async () => {
    const [root, other, first, second] = [
      await Signer.make(),
      await Signer.make(),
      await Signer.make(),
      await Signer.make(),
    ];
    const ring = await Keyring.of(provider, { root: toBase64(root.publicKey) }, ORIGIN);
    expect(ring.pinned()).toEqual([]);
    await expect(ring.key(first.id, Date.now(), () => keySet([first], other))).rejects.toMatchObject({
      code: "key_untrusted",
    });
    expect(await ring.key(first.id, Date.now(), () => keySet([first], root, 5))).toEqual(first.publicKey);
    const problem = async (issuedMs: number) => ({
      code: "key_retired",
      key_set: JSON.parse(new TextDecoder().decode(await keySet([second], root, issuedMs))),
    });
    await expect(ring.retired(await problem(4))).rejects.toMatchObject({ code: "key_untrusted" });
    await ring.retired(await problem(6));
    expect(await ring.key(second.id, Date.now(), never)).toEqual(second.publicKey);
  });

  it("with a root accepts no older set beside a newer one, and no key of an expired set", async () => {
    const [root, first, second] = [await Signer.make(), await Signer.make(), await Signer.make()];
    const ring = await Keyring.of(provider, { root: toBase64(root.publicKey) }, ORIGIN);
    const [newer, older] = [await keySet([second], root, 6), await keySet([first], root, 5)];
    await Promise.allSettled([
      ring.key(second.id, Date.now(), async () => newer),
      ring.key(first.id, Date.now(), async () => older),
    ]);
    await expect(ring.key(first.id, Date.now(), async () => newer)).rejects.toMatchObject({
      code: "key_untrusted",
    });
    expect(await ring.key(second.id, Date.now(), never)).toEqual(second.publicKey);
    const soon = Date.now() + 300;
    const brief = await Keyring.of(provider, { root: toBase64(root.publicKey) }, ORIGIN);
    const set = await keySet([first], root, 5, soon);
    await brief.key(first.id, Date.now(), async () => set);
    while (Date.now() < soon) await new Promise((resolve) => setTimeout(resolve, 20));
    await expect(brief.key(first.id, 5, async () => set)).rejects.toMatchObject({ code: "key_untrusted" });
  });

  it("with a root accepts a key only while it is live, also of a stored set", async () => {
    const [root, own] = [await Signer.make(), await Signer.make()];
    const nowMs = Date.now();
    const day = 86_400_000;
    const of = async (beginMs: number, endMs: number) => {
      const ring = await Keyring.of(provider, { root: toBase64(root.publicKey) }, ORIGIN);
      const set = await keySet([own], root, nowMs - 3 * day, nowMs + day, beginMs, endMs);
      return (serverTimeMs: number) =>
        ring
          .key(own.id, serverTimeMs, async () => set)
          .then(
            () => "trusted",
            ({ code }) => code,
          );
    };
    const over = await of(nowMs - 3 * day, nowMs - day);
    // The thief of a key that is over says when it was not.
    expect([await over(nowMs), await over(nowMs - 2 * day)]).toEqual(["key_untrusted", "key_untrusted"]);
    const live = await of(nowMs - day, nowMs + day / 2);
    expect([await live(nowMs), await live(nowMs - day - 1)]).toEqual(["trusted", "key_untrusted"]);
    expect([await live(nowMs + day / 2), await live(nowMs)]).toEqual(["key_untrusted", "trusted"]);
    const early = await of(nowMs + day / 4, nowMs + day / 2);
    expect([await early(nowMs), await early(nowMs + day / 4)]).toEqual(["key_untrusted", "trusted"]);
  });

  it("with retired pinned keys names the current ones", async () => {
    const [own, other] = [await Signer.make(), await Signer.make()];
    const ring = await Keyring.of(provider, { pins: [own.id] }, ORIGIN);
    const set = JSON.parse(new TextDecoder().decode(await keySet([other])));
    const error = await ring.retired({ code: "key_retired", key_set: set }).catch((caught) => caught);
    expect(error).toMatchObject({ code: "key_retired", status: 409 });
    expect(error.message).toContain(other.id);
  });

  it("at first use stores the keys under the signature, and accepts no other afterwards", async () => {
    const [own, next, other] = [await Signer.make(), await Signer.make(), await Signer.make()];
    const kept = new Map<string, string>();
    const storage = {
      getItem: (name: string) => kept.get(name) ?? null,
      setItem: (name: string, value: string) => void kept.set(name, value),
    };
    for (const firstUse of [memoryTrustStore(), storageTrustStore(storage)]) {
      const ring = await Keyring.of(provider, { firstUse }, ORIGIN);
      expect(await ring.key(own.id, Date.now(), () => keySet([own, next, other]))).toEqual(own.publicKey);
      await ring.remember(answer(own.id, [own.id, next.id]), never);
      const again = await Keyring.of(provider, { firstUse }, ORIGIN);
      expect(again.pinned().sort()).toEqual([own.id, next.id].sort());
      expect(await again.key(next.id, Date.now(), never)).toEqual(next.publicKey);
      // A key set that fails is fetched again at the next init; the session holds.
      await again.remember(answer(own.id, [own.id, other.id]), never);
      expect(again.pinned()).not.toContain(other.id);
      await expect(again.key(other.id, Date.now(), () => keySet([other]))).rejects.toMatchObject({
        code: "key_untrusted",
      });
    }
    expect(kept.size).toBe(1);
  });

  it("at first use stores no key off the curve", async () => {
    const [own, off] = [await Signer.make(), await Signer.make()];
    off.publicKey[64]! ^= 1;
    const named = { ...off, id: await keyIdOf(provider, off.publicKey) };
    const firstUse = memoryTrustStore();
    const ring = await Keyring.of(provider, { firstUse }, ORIGIN);
    await ring.key(own.id, Date.now(), () => keySet([own, named]));
    await ring.remember(answer(own.id, [own.id, named.id]), never);
    expect((await Keyring.of(provider, { firstUse }, ORIGIN)).pinned()).toEqual([own.id]);
  });

  it("follows the keys that another client of the same store stored first, and its newest key set", async () => {
    const [own, other, root] = [await Signer.make(), await Signer.make(), await Signer.make()];
    const kept = new Map<string, string>();
    const storage = {
      getItem: (name: string) => kept.get(name) ?? null,
      setItem: (name: string, value: string) => void kept.set(name, value),
    };
    const store = storageTrustStore(storage);
    // Two tabs of a browser, or two processes, that began before either met the service.
    const [one, two] = [
      await Keyring.of(provider, { firstUse: store }, ORIGIN),
      await Keyring.of(provider, { firstUse: store }, ORIGIN),
    ];
    await one.key(own.id, Date.now(), () => keySet([own]));
    await two.key(other.id, Date.now(), () => keySet([other]));
    await one.remember(answer(own.id, [own.id]), never);
    await expect(two.remember(answer(other.id, [other.id]), never)).rejects.toMatchObject({
      code: "key_untrusted",
    });
    expect([...kept.values()].join()).not.toContain(other.id);
    const pinned = { root: toBase64(root.publicKey), store };
    const [first, second] = [
      await Keyring.of(provider, pinned, `${ORIGIN}:2`),
      await Keyring.of(provider, pinned, `${ORIGIN}:2`),
    ];
    await second.key(own.id, Date.now(), () => keySet([own], root, 5));
    await first.key(own.id, Date.now(), () => keySet([own], root, 7));
    await expect(second.key(other.id, Date.now(), () => keySet([own, other], root, 6))).rejects.toMatchObject(
      {
        code: "key_untrusted",
      },
    );
    expect(kept.get(`sealway:${ORIGIN}:2`)).toContain('"issuedMs":7');
  });

  it("rejects a malformed pin", async () => {
    for (const trust of [
      { pins: ["nothing"] },
      { root: "AAAA" },
      { pins: Array(17).fill("00".repeat(16)) },
    ]) {
      await expect(Keyring.of(provider, trust, ORIGIN)).rejects.toMatchObject({ code: "usage" });
    }
  });
});
