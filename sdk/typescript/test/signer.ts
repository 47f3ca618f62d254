/** Identity keys and roots of all algorithms, made for a test. */
import * as crypto from "node:crypto";
import { ml_dsa65, ml_dsa87 } from "@noble/post-quantum/ml-dsa.js";
import { nodeProvider as provider } from "../src/crypto/node.js";
import type { SigningPart } from "../src/crypto/provider.js";
import type { SignatureAlgorithm } from "../src/session/native/algorithm.js";
import { keyIdOf } from "../src/session/native/key-set.js";
import { toBase64 } from "../src/wire/base64.js";
import { type Bytes, concat, utf8 } from "../src/wire/bytes.js";
import { fields } from "../src/wire/fields.js";

/** A key of one part, with its public half as the wire has it. */
interface PartKey {
  readonly publicKey: Bytes;
  sign(message: Uint8Array): Bytes;
}

function ecKey(namedCurve: string, length: number, hash: string): PartKey {
  const pair = crypto.generateKeyPairSync("ec", { namedCurve });
  const key = { key: pair.privateKey, dsaEncoding: "ieee-p1363" as const };
  return {
    publicKey: Uint8Array.from(pair.publicKey.export({ format: "der", type: "spki" }).subarray(-length)),
    sign: (message) => Uint8Array.from(crypto.sign(hash, message, key)),
  };
}

function mlDsaKey(library: typeof ml_dsa65): PartKey {
  const { publicKey, secretKey } = library.keygen();
  return {
    publicKey: Uint8Array.from(publicKey),
    sign: (message) => Uint8Array.from(library.sign(message, secretKey)),
  };
}

const MAKE: Readonly<Record<SigningPart, () => PartKey>> = {
  ES256: () => ecKey("prime256v1", 65, "sha256"),
  ES384: () => ecKey("secp384r1", 97, "sha384"),
  "ML-DSA-65": () => mlDsaKey(ml_dsa65),
  "ML-DSA-87": () => mlDsaKey(ml_dsa87),
};

/** A key pair of an algorithm. */
export class Signer {
  readonly algorithm: SignatureAlgorithm;
  readonly publicKey: Bytes;
  readonly parts: readonly PartKey[];
  readonly id: string;

  private constructor(algorithm: SignatureAlgorithm, parts: PartKey[], publicKey: Bytes, id: string) {
    this.algorithm = algorithm;
    this.parts = parts;
    this.publicKey = publicKey;
    this.id = id;
  }

  static async make(algorithm: SignatureAlgorithm = "ES256"): Promise<Signer> {
    return Signer.of(
      algorithm,
      algorithm.split("+").map((part) => MAKE[part as SigningPart]()),
    );
  }

  /** A key of given parts. */
  static async of(algorithm: SignatureAlgorithm, parts: PartKey[]): Promise<Signer> {
    const publicKey = concat(...parts.map((part) => part.publicKey));
    return new Signer(algorithm, parts, publicKey, await keyIdOf(provider, publicKey));
  }

  sign(message: Uint8Array): Bytes {
    const signed = this.parts.length > 1 ? concat(fields(this.algorithm), message) : message;
    return concat(...this.parts.map((part) => part.sign(signed)));
  }
}

/** A key set as the wire has it, signed by a root if there is one. */
export async function keySetOf(
  keys: readonly Pick<Signer, "id" | "publicKey" | "algorithm">[],
  root?: Signer,
  issuedMs = 1,
  expiresMs = 4_000_000_000_000,
  notBeforeMs = 0,
  notAfterMs = expiresMs,
): Promise<object> {
  const each = keys.map((key) => fields(key.id, key.publicKey, notBeforeMs, notAfterMs));
  const hash = await provider.sha256(fields(issuedMs, expiresMs, fields(...each)));
  const listed = keys.map((key) => ({
    key_id: key.id,
    alg: key.algorithm,
    public_key: toBase64(key.publicKey),
    not_before_ms: notBeforeMs,
    not_after_ms: notAfterMs,
  }));
  const signed = root && {
    root_key_id: root.id,
    root_signature: toBase64(root.sign(concat(utf8("sealway/3 keys"), hash))),
  };
  return { issued_ms: issuedMs, expires_ms: expiresMs, keys: listed, ...signed };
}
