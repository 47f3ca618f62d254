/** Suites of wire 3, and the shares of a key agreement (`spec/session-3.md`, Suites). KEMs of wire 4 agree by the same parts. */
import type { AgreementKey, KemKey, Provider } from "../../crypto/provider.js";
import { type Bytes, concat, wipe } from "../../wire/bytes.js";
import { SealwayError } from "../../wire/error.js";

export type Suite = "X25519MLKEM768" | "SecP256r1MLKEM768" | "P256" | "SecP384r1MLKEM1024" | "MLKEM1024";

type KemPart = "kem" | "kem1024";
type CurvePart = "x25519" | "p256" | "p384";

/** An agreement within a suite or a KEM. */
export type Part = KemPart | CurvePart;

/** The parts of each suite, in the order in which their shares and secrets stand. */
export const PARTS: Readonly<Record<Suite, readonly Part[]>> = {
  X25519MLKEM768: ["kem", "x25519"],
  SecP256r1MLKEM768: ["p256", "kem"],
  P256: ["p256"],
  SecP384r1MLKEM1024: ["p384", "kem1024"],
  MLKEM1024: ["kem1024"],
};

/** All suites that this SDK has. */
export const ALL_SUITES = Object.keys(PARTS) as readonly Suite[];

/** The suites that a client offers by default, in order of preference: all that this SDK has but those with ML-KEM-1024. */
export const SUITES = ALL_SUITES.slice(0, 3);

const CURVE_LENGTHS: Readonly<Record<CurvePart, number>> = { x25519: 32, p256: 65, p384: 97 };
/** Bytes of a part's share: of who has the decapsulation key, and of who encapsulates. */
export const CLIENT_LENGTHS: Readonly<Record<Part, number>> = { ...CURVE_LENGTHS, kem: 1184, kem1024: 1568 };
export const SERVER_LENGTHS: Readonly<Record<Part, number>> = { ...CURVE_LENGTHS, kem: 1088, kem1024: 1568 };
const KEM_Q = 3329;

/** True if a name is a suite of this SDK. */
export function isSuite(name: string): name is Suite {
  return Object.hasOwn(PARTS, name);
}

/** The suite of a session: the first of the client's list that is in the server's. */
export function chosenSuite(client: readonly string[], server: readonly string[]): string | undefined {
  return client.find((suite) => server.includes(suite));
}

const isKem = (part: Part): part is KemPart => part.startsWith("kem");

/** The keys of one init; a suite uses its own. */
type Keys<Kem> = { [K in KemPart]?: Kem } & { [C in CurvePart]?: AgreementKey };

/** The private keys of a client. */
export type ShareKeys = Readonly<Keys<KemKey>>;

/** An encapsulation that was made for a client's key, and the server's private keys. */
export type ServerShareKeys = Readonly<Keys<{ readonly ciphertext: Bytes; readonly secret: Bytes }>>;

/** Draws what a client's share of a suite needs. */
export async function drawShareKeys(provider: Provider, suite: Suite): Promise<ShareKeys> {
  const keys: Keys<KemKey> = {};
  for (const part of PARTS[suite]) {
    if (isKem(part)) keys[part] = await provider[part]();
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
    const secret = isKem(part)
      ? await have(keys[part]).decapsulate(bytes)
      : await have(keys[part]).agree(bytes);
    if (secret === undefined) throw refuse();
    secrets.push(secret);
  }
  const secret = concat(...secrets);
  wipe(...secrets);
  return secret;
}

/** FIPS 203 section 7.2: every coefficient of an encapsulation key is below q. */
function isKemKey(key: Uint8Array): boolean {
  for (let at = 0; at < key.length - 32; at += 3) {
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
  const keys: Keys<{ ciphertext: Bytes; secret: Bytes }> = {};
  for (const [part, bytes] of split(parts, share, CLIENT_LENGTHS)) {
    if (!isKem(part)) keys[part] = await provider[part]();
    else if (isKemKey(bytes)) keys[part] = await provider.encapsulate(bytes);
    else throw refuse();
  }
  return keys;
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
    if (isKem(part)) {
      if (!isKemKey(bytes)) throw refuse();
      const kem = have(keys[part]);
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
