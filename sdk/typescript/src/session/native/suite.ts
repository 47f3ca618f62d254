/** Suites of wire 3, and the shares of a key agreement (`spec/session-3.md`, Suites). KEMs of wire 4 agree by the same parts. */
import type { AgreementKey, KemKey, Provider } from "../../crypto/provider.js";
import { type Bytes, concat, wipe } from "../../wire/bytes.js";
import { SealwayError } from "../../wire/error.js";

export type Suite = "X25519MLKEM768" | "SecP256r1MLKEM768" | "P256";

/** An agreement within a suite or a KEM. */
export type Part = "kem" | "x25519" | "p256";

/** The parts of each suite, in the order in which their shares and secrets stand. */
export const PARTS: Readonly<Record<Suite, readonly Part[]>> = {
  X25519MLKEM768: ["kem", "x25519"],
  SecP256r1MLKEM768: ["p256", "kem"],
  P256: ["p256"],
};

/** All suites that this SDK has, the one liked most first. */
export const SUITES = Object.keys(PARTS) as readonly Suite[];

/** Bytes of a part's share: of who has the decapsulation key, and of who encapsulates. */
export const CLIENT_LENGTHS: Readonly<Record<Part, number>> = { kem: 1184, x25519: 32, p256: 65 };
export const SERVER_LENGTHS: Readonly<Record<Part, number>> = { kem: 1088, x25519: 32, p256: 65 };
const KEM_Q = 3329;

/** True if a name is a suite of this SDK. */
export function isSuite(name: string): name is Suite {
  return Object.hasOwn(PARTS, name);
}

/** The suite of a session: the first of the client's list that is in the server's. */
export function chosenSuite(client: readonly string[], server: readonly string[]): string | undefined {
  return client.find((suite) => server.includes(suite));
}

/** The private keys of one init; a suite uses its own. */
export interface ShareKeys {
  readonly kem?: KemKey;
  readonly x25519?: AgreementKey;
  readonly p256?: AgreementKey;
}

/** An encapsulation that was made for a client's key, and the server's private keys. */
export interface ServerShareKeys {
  readonly kem?: { readonly ciphertext: Bytes; readonly secret: Bytes };
  readonly x25519?: AgreementKey;
  readonly p256?: AgreementKey;
}

/** Draws what a client's share of a suite needs. */
export async function drawShareKeys(provider: Provider, suite: Suite): Promise<ShareKeys> {
  const keys: { kem?: KemKey; x25519?: AgreementKey; p256?: AgreementKey } = {};
  for (const part of PARTS[suite]) {
    if (part === "kem") keys.kem = await provider.kem();
    else keys[part] = await provider[part]();
  }
  return keys;
}

function refuse(): SealwayError {
  return new SealwayError("public_key_invalid", "a share is not one of its suite");
}

function have<T>(value: T | undefined): T {
  if (value === undefined) throw new SealwayError("provider", "the suite's key is missing");
  return value;
}

function split(
  parts: readonly Part[],
  share: Uint8Array,
  lengths: Readonly<Record<Part, number>>,
): [Part, Uint8Array][] {
  let at = 0;
  const pieces = parts.map((part): [Part, Uint8Array] => {
    const bytes = share.subarray(at, at + lengths[part]);
    at += lengths[part];
    return [part, bytes];
  });
  if (at !== share.length) throw refuse();
  return pieces;
}

/** The client's share. */
export function clientShare(suite: Suite, keys: ShareKeys): Bytes {
  return concat(...PARTS[suite].map((part) => have(keys[part]).publicKey));
}

/**
 * The secret, from the server's share. Wipe it.
 *
 * @throws {SealwayError} `public_key_invalid`.
 */
export async function clientAgree(suite: Suite, share: Uint8Array, keys: ShareKeys): Promise<Bytes> {
  const secrets: Bytes[] = [];
  for (const [part, bytes] of split(PARTS[suite], share, SERVER_LENGTHS)) {
    const secret =
      part === "kem" ? await have(keys.kem).decapsulate(bytes) : await have(keys[part]).agree(bytes);
    if (secret === undefined) throw refuse();
    secrets.push(secret);
  }
  const secret = concat(...secrets);
  wipe(...secrets);
  return secret;
}

/** FIPS 203 section 7.2: every coefficient of an encapsulation key is below q. */
function isKemKey(key: Uint8Array): boolean {
  for (let at = 0; at < 1152; at += 3) {
    const [a, b, c] = [key[at] as number, key[at + 1] as number, key[at + 2] as number];
    if (a + 256 * (b & 15) >= KEM_Q || (b >> 4) + 16 * c >= KEM_Q) return false;
  }
  return true;
}

/**
 * Draws the server's part for a client's share.
 *
 * @throws {SealwayError} `public_key_invalid`.
 */
export async function drawServerShareKeys(
  provider: Provider,
  parts: readonly Part[],
  share: Uint8Array,
): Promise<ServerShareKeys> {
  const keys: {
    kem?: { ciphertext: Bytes; secret: Bytes };
    x25519?: AgreementKey;
    p256?: AgreementKey;
  } = {};
  for (const [part, bytes] of split(parts, share, CLIENT_LENGTHS)) {
    if (part !== "kem") keys[part] = await provider[part]();
    else if (isKemKey(bytes)) keys.kem = await provider.encapsulate(bytes);
    else throw refuse();
  }
  return keys;
}

/**
 * Checks a client's share without agreeing on anything.
 *
 * @throws {SealwayError} `public_key_invalid`.
 */
export async function checkClientShare(provider: Provider, suite: Suite, share: Uint8Array): Promise<void> {
  for (const [part, bytes] of split(PARTS[suite], share, CLIENT_LENGTHS)) {
    if (part === "kem" && !isKemKey(bytes)) throw refuse();
    if (part === "p256" && !(await provider.isPoint(bytes))) throw refuse();
    if (part === "x25519") {
      // Only an agreement shows a point of small order.
      const secret = await (await provider.x25519()).agree(bytes);
      if (secret === undefined) throw refuse();
      wipe(secret);
    }
  }
}

/**
 * The server's share and the secret, from a client's share. Wipe the secret.
 *
 * @throws {SealwayError} `public_key_invalid`.
 */
export async function serverAgree(
  parts: readonly Part[],
  share: Uint8Array,
  keys: ServerShareKeys,
): Promise<{ share: Bytes; secret: Bytes }> {
  const shares: Bytes[] = [];
  const secrets: Bytes[] = [];
  for (const [part, bytes] of split(parts, share, CLIENT_LENGTHS)) {
    if (part === "kem") {
      if (!isKemKey(bytes)) throw refuse();
      const kem = have(keys.kem);
      shares.push(kem.ciphertext);
      secrets.push(kem.secret);
    } else {
      const key = have(keys[part]);
      const secret = await key.agree(bytes);
      if (secret === undefined) throw refuse();
      shares.push(key.publicKey);
      secrets.push(secret);
    }
  }
  const secret = concat(...secrets);
  wipe(...secrets);
  return { share: concat(...shares), secret };
}
