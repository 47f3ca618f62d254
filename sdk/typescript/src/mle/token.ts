/** Tokens: the compact form of a JWE (RFC 7516 section 7.1), and its protected header, both read strictly. */

import type { MleEnc } from "./content.js";
import { membersOf, stringOf } from "./json.js";
import type { MleAlg } from "./keys.js";
import { isAlg, isEnc } from "./profile.js";
import { MleRefusal } from "./refusal.js";

/** Longest protected header, in bytes of its JSON. */
const HEADER_LEN_MAX = 4096;
/** Longest name of a key, in bytes. */
export const KID_LEN_MAX = 256;
const IAT_MAX = 2n ** 64n - 1n;

/** The protected header, as far as it decides something. */
export interface TokenHeader {
  readonly alg: MleAlg;
  readonly enc: MleEnc;
  readonly kid: string | undefined;
  /** In the unit of the profile. */
  readonly iat: bigint | undefined;
  readonly x5tS256: Uint8Array | undefined;
}

/** The parts of a token, still encoded. */
export interface TokenParts {
  readonly header: string;
  readonly encryptedKey: string;
  readonly iv: string;
  readonly ciphertext: string;
  readonly tag: string;
}

/**
 * Splits a token at its dots.
 *
 * @throws {MleRefusal} `shape`; `size` for the header.
 */
// SPEC mle.md#compact-form
export function splitToken(token: string): TokenParts {
  let dots = 0;
  for (let at = token.indexOf("."); at >= 0 && dots < 5; at = token.indexOf(".", at + 1)) dots += 1;
  if (dots !== 4) throw new MleRefusal("shape", "the token has not five parts");
  const [header = "", encryptedKey = "", iv = "", ciphertext = "", tag = ""] = token.split(".");
  if (header.length > Math.ceil(HEADER_LEN_MAX / 3) * 4) throw tooLong();
  return { header, encryptedKey, iv, ciphertext, tag };
}

/**
 * Decodes base64url without padding, in its one spelling; or with the letters `+` and `/` as well.
 *
 * @throws {MleRefusal} `base64`.
 */
export function decodePart(part: string, hasMixedLetters = false): Buffer {
  const text = hasMixedLetters ? part.replaceAll("+", "-").replaceAll("/", "_") : part;
  const bytes = Buffer.from(text, "base64url");
  // The platform skips what it does not know; another spelling does not come back.
  if (bytes.toString("base64url") === text) return bytes;
  throw new MleRefusal("base64", "a part of the token is not canonical base64url without padding");
}

/**
 * Reads the JSON of a protected header.
 *
 * @throws {MleRefusal} `size`, `header`, and the class of a parameter that is not as it should be.
 */
// SPEC mle.md#header
export function parseHeader(json: Uint8Array): TokenHeader {
  if (json.length > HEADER_LEN_MAX) throw tooLong();
  const members = membersOf(json, "header");
  const present = (...names: string[]) => names.find((name) => members.has(name));
  const extension = present("crit", "b64");
  if (extension) throw new MleRefusal("crit", "the profile has no such parameter", extension);
  if (members.has("zip")) throw new MleRefusal("zip", "compressed content is not opened");
  const material = present("jku", "jwk", "x5u", "x5c", "x5t");
  if (material) throw new MleRefusal("param", "a token may not bring or name key material", material);
  const alg = stringOf(members.get("alg"));
  if (!isAlg(alg) && !isOtherAlg(alg)) throw new MleRefusal("alg", "alg is not supported", alg ?? "");
  const enc = stringOf(members.get("enc"));
  if (!isEnc(enc)) throw new MleRefusal("enc", "enc is not supported", enc ?? "");
  const isAgreement = alg === "ECDH-ES";
  const foreign = present(...(isAgreement ? [] : ["epk", "apu", "apv"]), "iv", "tag", "p2s", "p2c");
  if (foreign) throw new MleRefusal("param", "a parameter does not belong to alg", foreign);
  for (const name of ["typ", "cty"]) {
    const isText = !members.has(name) || stringOf(members.get(name)) !== undefined;
    if (!isText) throw new MleRefusal("header", "a parameter is not a string", name);
  }
  if (isAgreement) checkAgreement(members);
  const header = { enc, kid: kidOf(members), iat: iatOf(members), x5tS256: x5tOf(members) };
  if (!isAlg(alg)) throw new MleRefusal("alg", "no key has this alg", alg);
  return { alg, ...header };
}

/** Algorithms that the specification has and this SDK has no keys for. */
function isOtherAlg(alg: string | undefined): boolean {
  return ["A128KW", "A256KW", "dir", "ECDH-ES"].includes(alg ?? "");
}

function kidOf(members: ReadonlyMap<string, string>): string | undefined {
  if (!members.has("kid")) return undefined;
  const kid = stringOf(members.get("kid"));
  if (kid === undefined) throw new MleRefusal("kid", "kid is not a string");
  if (isKid(kid)) return kid;
  throw new MleRefusal("kid", "kid is empty or longer than 256 bytes");
}

/** True if a text can name a key: 1 to 256 bytes. */
export function isKid(text: string): boolean {
  return text !== "" && Buffer.byteLength(text) <= KID_LEN_MAX;
}

/** Reads digits alone: a sign, a fraction, an exponent or a string has two readings. */
function iatOf(members: ReadonlyMap<string, string>): bigint | undefined {
  const digits = members.get("iat");
  if (digits === undefined) return undefined;
  const iat = /^[0-9]{1,20}$/.test(digits) ? BigInt(digits) : undefined;
  if (iat === undefined || iat > IAT_MAX) throw new MleRefusal("iat", "iat is not a whole number", digits);
  return iat;
}

function x5tOf(members: ReadonlyMap<string, string>): Uint8Array | undefined {
  const value = members.get("x5t#S256");
  if (value === undefined) return undefined;
  const hash = bytesOf(value);
  if (hash?.length !== 32) throw new MleRefusal("param", "x5t#S256 is not 32 bytes in base64url");
  return hash;
}

/** Checks the ephemeral key of `ECDH-ES` (RFC 7518 section 4.6.1), although no key for it can be loaded. */
function checkAgreement(members: ReadonlyMap<string, string>): void {
  const point = membersOf(Buffer.from(members.get("epk") ?? ""), "epk");
  const is = (name: string, text: string) => stringOf(point.get(name)) === text;
  if (!is("kty", "EC") || !is("crv", "P-256") || point.has("d"))
    throw new MleRefusal("epk", "epk is not a public key on P-256");
  for (const name of ["x", "y"])
    if (bytesOf(point.get(name))?.length !== 32)
      throw new MleRefusal("epk", "a coordinate of epk is not 32 bytes", name);
  for (const name of ["apu", "apv"])
    if (members.has(name) && bytesOf(members.get(name)) === undefined)
      throw new MleRefusal("epk", "a parameter is not base64url", name);
}

/** Returns the bytes of a value that is a string of base64url. */
function bytesOf(value: string | undefined): Buffer | undefined {
  const text = stringOf(value);
  if (text === undefined) return undefined;
  const bytes = Buffer.from(text, "base64url");
  return bytes.toString("base64url") === text ? bytes : undefined;
}

function tooLong(): MleRefusal {
  return new MleRefusal("size", "the header is longer than 4096 bytes");
}
