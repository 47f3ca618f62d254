/**
 * The sender of HPKE (RFC 9180) in the modes base and psk, for its exported secrets alone: HKDF-SHA256, AES-256-GCM, and the KEMs of
 * `spec/one-shot.md`, Keys.
 */
import { expand, extract } from "../../crypto/hkdf.js";
import type { MacKey, Provider } from "../../crypto/provider.js";
import { sha3 } from "../../crypto/sha3.js";
import { type Bytes, concat, utf8, wipe } from "../../wire/bytes.js";
import {
  CLIENT_LENGTHS,
  drawServerShareKeys,
  type Part,
  SERVER_LENGTHS,
  type ServerShareKeys,
  serverAgree,
} from "../native/suite.js";

export type Kem = "X-Wing" | "MLKEM768-P256" | "X25519" | "P-256";

/** One KEM; the parts stand in public key, `enc` and secret in this order. */
interface KemTraits {
  readonly id: number;
  readonly parts: readonly Part[];
  /** Label of a hybrid's combiner (draft-ietf-hpke-pq section 4); absent of a DHKEM. */
  readonly label?: string;
}

const TRAITS: Readonly<Record<Kem, KemTraits>> = {
  "X-Wing": { id: 0x647a, parts: ["kem", "x25519"], label: "\\.//^\\" },
  "MLKEM768-P256": { id: 0x0050, parts: ["kem", "p256"], label: "MLKEM768-P256" },
  X25519: { id: 0x0020, parts: ["x25519"] },
  "P-256": { id: 0x0010, parts: ["p256"] },
};

/** All KEMs that this SDK has. */
export const KEMS = Object.keys(TRAITS) as readonly Kem[];

/** KDF and AEAD of all keys of wire 4, as suite ids have them: HKDF-SHA256, AES-256-GCM. */
export const KDF_AEAD: Bytes = Uint8Array.of(0, 1, 0, 2);

const HASH = 32;
/** HMAC takes an empty salt and one of zeros alike; WebCrypto takes only the latter. */
const NO_SALT = new Uint8Array(HASH);

/** True if a name is a KEM of this SDK. */
export function isKem(name: unknown): name is Kem {
  return typeof name === "string" && Object.hasOwn(TRAITS, name);
}

/** The KEM with this id; none if this SDK has none. */
export function kemOf(id: number): Kem | undefined {
  return KEMS.find((kem) => TRAITS[kem].id === id);
}

/** Returns the length of a KEM's public keys in bytes. */
export function publicKeyLength(kem: Kem): number {
  return TRAITS[kem].parts.reduce((sum, part) => sum + CLIENT_LENGTHS[part], 0);
}

const wordOf = (id: number): Bytes => Uint8Array.of(id >> 8, id & 0xff);

/** `LabeledExtract` and `LabeledExpand` to 32 bytes (RFC 9180 section 4) of one suite id. */
class Labeled {
  readonly #provider: Provider;
  readonly #suiteId: Bytes;

  constructor(provider: Provider, ...suiteId: readonly Uint8Array[]) {
    this.#provider = provider;
    this.#suiteId = concat(...suiteId);
  }

  #input(label: string, value: Uint8Array): Bytes {
    return concat(utf8("HPKE-v1"), this.#suiteId, utf8(label), value);
  }

  async extract(salt: Uint8Array, label: string, ikm: Uint8Array): Promise<Bytes> {
    const input = this.#input(label, ikm);
    const prk = await extract(this.#provider, salt, input);
    wipe(input);
    return prk;
  }

  async expand(prk: MacKey, label: string, info: Uint8Array): Promise<Bytes> {
    return expand(prk, concat(wordOf(HASH), this.#input(label, info)), HASH);
  }

  /** Expands a key that is good for nothing else, and wipes it. */
  async expandOnce(prk: Bytes, label: string, info: Uint8Array): Promise<Bytes> {
    const key = await this.#provider.macKey(prk);
    wipe(prk);
    return this.expand(key, label, info);
  }
}

/** Draws what an encapsulation to a public key needs. It is good for one. */
export function drawEncapsulation(
  provider: Provider,
  kem: Kem,
  publicKey: Uint8Array,
): Promise<ServerShareKeys> {
  return drawServerShareKeys(provider, TRAITS[kem].parts, publicKey);
}

/** An encapsulated key: `enc` is sent, and {@link setup} takes and wipes the secret. */
export interface Encapsulation {
  readonly enc: Bytes;
  readonly secret: Bytes;
}

/**
 * Encapsulates to a public key.
 *
 * @throws {SealwayError} `public_key_invalid` (RFC 9180 section 7.1, FIPS 203 section 7.2).
 */
export async function encapsulate(
  provider: Provider,
  kem: Kem,
  publicKey: Uint8Array,
  drawn: ServerShareKeys,
): Promise<Encapsulation> {
  const { id, parts, label } = TRAITS[kem];
  const { share: enc, secret: agreed } = await serverAgree(parts, publicKey, drawn);
  let secret: Bytes;
  if (label === undefined) {
    const labeled = new Labeled(provider, utf8("KEM"), wordOf(id));
    const prk = await labeled.extract(NO_SALT, "eae_prk", agreed);
    secret = await labeled.expandOnce(prk, "shared_secret", concat(enc, publicKey));
  } else {
    // ML-KEM binds its ciphertext and key by itself.
    const [ciphertext, key] = [enc.subarray(SERVER_LENGTHS.kem), publicKey.subarray(CLIENT_LENGTHS.kem)];
    secret = sha3(agreed, ciphertext, key, utf8(label));
  }
  wipe(agreed);
  return { enc, secret };
}

/** A pre-shared key: its public name, 1 to 64 bytes of 0x21 to 0x7e, and 32 bytes. */
export interface Psk {
  readonly id: string;
  readonly key: Uint8Array;
}

/** A context that exports secrets of 32 bytes, by their names. */
export type Export = (context: string) => Promise<Bytes>;

/** Makes the context of a secret that was encapsulated, and wipes the secret. With a PSK its mode is psk, otherwise base. */
export async function setup(
  provider: Provider,
  kem: Kem,
  secret: Bytes,
  info: Uint8Array,
  psk: Psk | undefined,
): Promise<Export> {
  const labeled = new Labeled(provider, utf8("HPKE"), wordOf(TRAITS[kem].id), KDF_AEAD);
  const [idHash, infoHash, prk] = await Promise.all([
    labeled.extract(NO_SALT, "psk_id_hash", utf8(psk?.id ?? "")),
    labeled.extract(NO_SALT, "info_hash", info),
    labeled.extract(secret, "secret", psk?.key ?? new Uint8Array()),
  ]);
  wipe(secret);
  const context = concat(Uint8Array.of(psk === undefined ? 0 : 1), idHash, infoHash);
  const exporter = await labeled.expandOnce(prk, "exp", context);
  const key = await provider.macKey(exporter);
  wipe(exporter);
  return (name) => labeled.expand(key, "sec", utf8(name));
}
