/** Encapsulation with drawn keys, to a recipient of another library; and public keys that are none. */
import { p256 } from "@noble/curves/nist.js";
import { ml_kem768_p256, ml_kem768_x25519 } from "@noble/post-quantum/hybrid.js";
import { describe, expect, it } from "vitest";
import { nodeProvider } from "../../src/crypto/node.js";
import { webProvider } from "../../src/crypto/web.js";
import {
  drawEncapsulation,
  encapsulate,
  KEMS,
  type Kem,
  publicKeyLength,
} from "../../src/session/one-shot/hpke.js";
import { type Bytes, concat, hex, owned } from "../../src/wire/bytes.js";

const HYBRIDS = [
  ["X-Wing", ml_kem768_x25519],
  ["MLKEM768-P256", ml_kem768_p256],
] as const;
/** Points of X25519 of small order (RFC 7748 section 7). */
const ORDER_8 = "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800";

describe.each([nodeProvider, webProvider])("with $name", (provider) => {
  const sealed = async (kem: Kem, publicKey: Bytes) =>
    encapsulate(provider, kem, publicKey, await drawEncapsulation(provider, kem, publicKey));

  it.each(HYBRIDS)("%s agrees with another library, anew each time", async (kem, other) => {
    const { publicKey, secretKey } = other.keygen();
    const [one, two] = [await sealed(kem, owned(publicKey)), await sealed(kem, owned(publicKey))];
    for (const { enc, secret } of [one, two])
      expect(hex(secret)).toBe(hex(other.decapsulate(enc, secretKey)));
    expect(hex(one.enc)).not.toBe(hex(two.enc));
    expect(hex(one.secret)).not.toBe(hex(two.secret));
  });

  const group = (kem: Kem): Bytes =>
    kem.endsWith("P256") || kem === "P-256"
      ? owned(p256.getPublicKey(p256.utils.randomSecretKey(), false))
      : new Uint8Array(32).fill(9);
  const good = (kem: Kem): Bytes => {
    const other = HYBRIDS.find(([name]) => name === kem)?.[1];
    return other === undefined ? group(kem) : owned(other.keygen().publicKey);
  };
  const wrong: [Kem, string, (key: Bytes) => Uint8Array][] = [
    ...KEMS.flatMap((kem): [Kem, string, (key: Bytes) => Uint8Array][] => [
      [kem, "a byte less", (key) => key.subarray(1)],
      [kem, "a byte more", (key) => concat(key, Uint8Array.of(0))],
    ]),
    ["X25519", "zero", () => new Uint8Array(32)],
    ["X25519", "a point of order 8", () => Uint8Array.from(Buffer.from(ORDER_8, "hex"))],
    ["P-256", "off the curve", (key) => key.map((byte, at) => (at === 64 ? byte ^ 1 : byte))],
    ["P-256", "a hybrid point", (key) => key.map((byte, at) => (at === 0 ? 6 : byte))],
    ["P-256", "a compressed point", (key) => concat(Uint8Array.of(2), key.subarray(1, 33))],
    ["P-256", "the point at infinity", () => Uint8Array.of(0)],
    ["X-Wing", "a coefficient of q", (key) => concat(Uint8Array.of(0x01, 0x0d), key.subarray(2))],
    ["X-Wing", "zero of X25519", (key) => concat(key.subarray(0, 1184), new Uint8Array(32))],
    ["MLKEM768-P256", "a coefficient beyond q", (key) => concat(Uint8Array.of(255, 255), key.subarray(2))],
    ["MLKEM768-P256", "off the curve", (key) => key.map((byte, at) => (at === 1248 ? byte ^ 1 : byte))],
  ];
  it.each(wrong)("%s takes no key that is %s", async (kem, _, spoil) => {
    const key = good(kem);
    expect(key).toHaveLength(publicKeyLength(kem));
    await sealed(kem, key);
    await expect(sealed(kem, owned(spoil(key)))).rejects.toMatchObject({ code: "public_key_invalid" });
  });
});
