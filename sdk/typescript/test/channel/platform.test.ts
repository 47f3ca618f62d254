import { expect, it } from "vitest";
import { aead, browserAead } from "../../src/channel/aead.js";
import { keyPair } from "../../src/channel/agreement.js";
import { isNode } from "../../src/channel/platform.js";
import { givenKey } from "../../src/crypto/given.js";

it.each(["AESGCM", "ChaChaPoly"] as const)(
  "%s is the same by Node and by WebCrypto or a library",
  async (cipher) => {
    expect(isNode).toBe(true);
    const [key, nonce] = [new Uint8Array(32).fill(3), new Uint8Array(12).fill(4)];
    const additional = new Uint8Array(18).fill(5);
    const [here, there] = [aead(cipher, key), browserAead(cipher, key)];
    for (const length of [0, 1, 100, 5000, 70_000]) {
      const plaintext = new Uint8Array(length).fill(6);
      const sealed = await here.seal(nonce, plaintext, additional);
      expect(Buffer.from(await there.seal(nonce, plaintext, additional)).equals(sealed)).toBe(true);
      for (const one of [here, there]) {
        expect(Buffer.from((await one.open(nonce, sealed, additional))!).equals(plaintext)).toBe(true);
        const changed = sealed.slice();
        changed[changed.length - 1]! ^= 1;
        expect(await one.open(nonce, changed, additional)).toBeUndefined();
        expect(await one.open(nonce, sealed.slice(0, 15), additional)).toBeUndefined();
      }
    }
  },
);

it.each([
  ["Node", "AESGCM", aead],
  ["Node", "ChaChaPoly", aead],
  ["browsers", "ChaChaPoly", browserAead],
] as const)("by %s, a wiped key of %s seals and opens nothing", async (_, cipher, make) => {
  const [nonce, additional] = [new Uint8Array(12), new Uint8Array(18)];
  const [zeros, key] = [make(cipher, new Uint8Array(32)), make(cipher, new Uint8Array(32).fill(3))];
  key.wipe();
  await expect(key.seal(nonce, additional, additional)).rejects.toThrow();
  const sealed = await zeros.seal(nonce, additional, additional);
  expect(await key.open(nonce, sealed, additional).catch(() => undefined)).toBeUndefined();
});

it.each(["25519", "P256"] as const)(
  "a given key of %s is the same by Node and by WebCrypto",
  async (curve) => {
    const [mine, theirs] = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)];
    const [here, there] = [await keyPair(curve, mine), await givenKey(curve, mine)];
    const [peer, other] = [await keyPair(curve, theirs), await givenKey(curve, theirs)];
    expect(there.publicKey).toEqual(here.publicKey);
    expect(await there.agree(peer.publicKey)).toEqual(await here.agree(other.publicKey));
    expect(await other.agree(here.publicKey)).toEqual(await peer.agree(there.publicKey));
    for (const length of [0, 31, 32, 33, 65])
      expect(await there.agree(new Uint8Array(length))).toBeUndefined();
    if (curve === "P256") await expect(givenKey(curve, new Uint8Array(32).fill(0xff))).rejects.toThrow();
  },
);

it.each(["25519", "P256"] as const)("a malformed key of %s is rejected with its name", async (curve) => {
  const pair = await keyPair(curve, new Uint8Array(32).fill(1));
  for (const length of [0, 31, 33, 65]) {
    await expect(pair.agree(new Uint8Array(length))).rejects.toMatchObject({ code: "peer_key_invalid" });
  }
  await expect(keyPair(curve, new Uint8Array(31))).rejects.toMatchObject({ code: "key_invalid" });
});
