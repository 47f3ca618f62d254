/** Keys of a service: their algorithms, the shares of an agreement, and what a root signs. */
import { describe, expect, it } from "vitest";
import { nodeProvider as provider } from "../../src/crypto/node.js";
import { isAccepted, isPublicKey, verify } from "../../src/session/native/algorithm.js";
import { openAnswer } from "../../src/session/native/client-call.js";
import { parseKeySet } from "../../src/session/native/key-set.js";
import { SessionKeys } from "../../src/session/native/keys.js";
import { checkKeySet } from "../../src/session/native/root.js";
import { clientShare, drawServerShareKeys, SUITES, serverAgree } from "../../src/session/native/suite.js";
import { concat, utf8 } from "../../src/wire/bytes.js";
import { rejected } from "../rejected.js";
import { keySetOf, Signer } from "../signer.js";

describe("a key of no known length", () => {
  const key = new Uint8Array(66).fill(4);

  it("is no public key; one of ML-DSA is, of any bytes", async () => {
    expect(await isPublicKey(provider, key)).toBe(false);
    expect(await isPublicKey(provider, new Uint8Array(1952))).toBe(true);
    const { publicKey } = await Signer.make();
    expect(await isPublicKey(provider, publicKey)).toBe(true);
    expect(await isPublicKey(provider, key.subarray(0, 65))).toBe(false);
  });

  it("is accepted from nobody, and verifies nothing", async () => {
    expect(isAccepted(undefined, undefined, true)).toBe(false);
    expect(await verify(provider, key, utf8("text"), new Uint8Array(64))).toBe(false);
  });
});

describe("a share", () => {
  it("is offered by default for all suites but those with ML-KEM-1024", () => {
    expect(SUITES).toEqual(["X25519MLKEM768", "SecP256r1MLKEM768", "P256"]);
  });

  it("needs the keys of its suite", async () => {
    expect(await rejected(() => clientShare("P256", {}))).toBe("provider");
  });

  it("has no coefficient of q, also where the encapsulation was drawn for another share", async () => {
    const key = (await provider.kem()).publicKey;
    const drawn = await drawServerShareKeys(provider, ["kem"], key);
    const agreed = (head: readonly number[]) =>
      rejected(() => serverAgree(["kem"], concat(Uint8Array.from(head), key.subarray(3)), drawn));
    // Two coefficients in three bytes, each of q - 1 and of q.
    expect(await agreed([0x00, 0x0d, 0xd0])).toBe("accepted");
    expect(await agreed([0x01, 0x0d, 0xd0])).toBe("public_key_invalid");
    expect(await agreed([0x00, 0x1d, 0xd0])).toBe("public_key_invalid");
  });
});

it("a root's key set without a signature is not trusted", async () => {
  const [root, key] = [await Signer.make(), await Signer.make()];
  const set = await parseKeySet(provider, utf8(JSON.stringify(await keySetOf([key], root))));
  const checked = (more: object) =>
    rejected(() => checkKeySet(provider, { ...set, ...more }, root.publicKey, undefined));
  expect(await checked({})).toBe("accepted");
  expect(await checked({ rootSignature: undefined })).toBe("key_untrusted");
});

it("an answer of wire 4 has a nonce that begins with its kind", async () => {
  const keys = await SessionKeys.of(provider, new Uint8Array(32));
  const id = "0".repeat(32);
  const pending = {
    seal: { wire: 4, id, keys },
    line: { method: "GET", target: "/" },
    stamp: "0",
    nonce: "n".repeat(16),
  } as const;
  const of = (nonce: string) => {
    const headers = [
      ["X-Seal", "4"],
      ["X-Kid", `hpke:${id}`],
      ["X-Idempotency-Key", `1.${nonce}`],
    ] as const;
    return rejected(() => openAnswer(provider, pending, 200, headers, new Uint8Array()));
  };
  for (const kind of ["r-", "p-"]) {
    expect(await of(`${kind}${id}`)).toBe("stream_truncated");
    expect(await of(`x${kind}${id}`)).toBe("answer_mismatch");
  }
});
