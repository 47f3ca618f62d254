/** Opens and seals the bodies of one scheme (`spec/mle.md`, Opening and Sealing). */
import { createHash, randomBytes } from "node:crypto";
import type { SessionStore } from "../server/store.js";
import { type Bytes, utf8 } from "../wire/bytes.js";
import { Check } from "../wire/check.js";
import { SealwayError, wants } from "../wire/error.js";
import { WINDOW_MS } from "../wire/forms.js";
import { type HeaderList, valuesOf } from "../wire/headers.js";
import { ENCS, openContent, sealContent } from "./content.js";
import { membersOf, stringOf } from "./json.js";
import { byKid, type OpeningKey, SealingKey } from "./keys.js";
import { type MLE_PROFILES, type MleMessage, type MleProfile, type MleSide, profileOf } from "./profile.js";
import { MleRefusal } from "./refusal.js";
import { decodePart, parseHeader, splitToken, type TokenHeader } from "./token.js";

/** Options of {@link MleCodec}. */
export interface MleOptions {
  readonly profile: MleProfile | keyof typeof MLE_PROFILES;
  /** Keys that open, all of them live. */
  readonly open?: readonly OpeningKey[];
  /** The recipient's key. */
  readonly seal?: SealingKey;
  /**
   * Claims the tokens of requests, so that each opens once while its claim lives. Without a store a token can be replayed: until
   * its `iat` leaves the window, and for ever in a profile without a time.
   */
  readonly store?: Pick<SessionStore, "claim">;
  /** Largest difference of `iat` from the clock, in milliseconds; the store's as well. Default: 300,000. */
  readonly windowMs?: number;
  /** Longest token, in bytes. Default: 2 MiB. */
  readonly tokenMaxBytes?: number;
  /** The clock, in milliseconds of the epoch. */
  readonly now?: () => number;
}

/** The domain of a token's fingerprint among claims; the scopes of sessions have 1 to 4. */
const FINGERPRINT_DOMAIN = 5;
/** Below this number of milliseconds a time is from before 1973: the sender counts seconds. */
const MILLISECONDS_MIN = 100_000_000_000n;

const check = new Check((message) => new SealwayError("usage", message, { stage: "configuration" }));

/** Opens and seals messages with the keys of one party. */
export class MleCodec {
  readonly profile: MleProfile;
  readonly #keys: ReadonlyMap<string, OpeningKey>;
  readonly #seal: SealingKey | undefined;
  readonly #store: Pick<SessionStore, "claim"> | undefined;
  readonly #windowMs: number;
  readonly #tokenMaxBytes: number;
  readonly #now: () => number;

  /** @throws {SealwayError} `usage`; for two keys with one name as well. */
  constructor(options: MleOptions) {
    check.object(options, "options");
    check.numbers(options, 1, true, "windowMs", "tokenMaxBytes");
    check.functions(options, "now");
    const { seal, store } = options;
    wants(seal === undefined || seal instanceof SealingKey, "seal: a SealingKey");
    wants(store === undefined || typeof store?.claim === "function", "store: a SessionStore");
    this.profile = profileOf(options.profile);
    this.#keys = byKid(options.open ?? []);
    [this.#seal, this.#store] = [seal, store];
    this.#windowMs = options.windowMs ?? WINDOW_MS;
    this.#tokenMaxBytes = options.tokenMaxBytes ?? 2 * 1024 * 1024;
    this.#now = options.now ?? Date.now;
  }

  /**
   * Opens a body, and claims its token against replays if it is a request's.
   *
   * @param headers those of the message: `keyId`, where it is there, must be the token's `kid`.
   * @throws {MleRefusal} for what is wrong with the message; {@link SealwayError} `nonces_full` and `store_unavailable` of the store.
   */
  // SPEC mle.md#opening
  async open(message: MleMessage, body: Uint8Array, headers: HeaderList = []): Promise<Bytes> {
    const { hasMixedLetters, hasLongIv } = this.profile;
    const token = tokenOf(body, this.profile[message]);
    if (Buffer.byteLength(token) > this.#tokenMaxBytes)
      throw new MleRefusal("size", `the token has more than ${this.#tokenMaxBytes} bytes`);
    const parts = splitToken(token);
    const json = decodePart(parts.header, hasMixedLetters);
    const header = parseHeader(json);
    const key = this.#keyFor(header, this.profile[message]);
    const nowMs = this.#now();
    const iatMs = this.#time(header, message, nowMs);
    const decode = (part: string) => decodePart(part, hasMixedLetters);
    const [encryptedKey, iv] = [decode(parts.encryptedKey), decode(parts.iv)];
    const [ciphertext, tag] = [decode(parts.ciphertext), decode(parts.tag)];
    const { keyLength, ivLength, tagLength } = ENCS[header.enc];
    if (encryptedKey.length !== key.modulusLength)
      throw new MleRefusal(
        "shape",
        `the encrypted key has ${encryptedKey.length} bytes, and ${key.modulusLength} are due`,
      );
    const isLong = hasLongIv === true && ivLength === 12 && iv.length === 16;
    if (iv.length !== ivLength && !isLong) throw new MleRefusal("iv", `the IV has ${iv.length} bytes`);
    if (tag.length !== tagLength)
      throw new MleRefusal("tag", `the tag has ${tag.length} bytes, and ${tagLength} are due`);
    if (message === "request" && valuesOf(headers, "keyId").some((said) => said !== key.kid))
      throw new MleRefusal("kid", "the header keyId is not the kid of the token");
    // Drawn for every token: the work does not show whether it was needed.
    const decoy = randomBytes(keyLength);
    const unwrapped = await key.unwrap(encryptedKey);
    const isRight = unwrapped?.length === keyLength;
    const contentKey = isRight ? unwrapped : decoy;
    // The header as it was received: it is never encoded anew.
    const plaintext = openContent(header.enc, contentKey, iv, Buffer.from(parts.header), ciphertext, tag);
    unwrapped?.fill(0);
    if (!isRight)
      throw new MleRefusal("unwrap", "the encrypted key did not decrypt to a key of the right length");
    if (plaintext === undefined) throw new MleRefusal("tag", "the tag does not verify");
    if (message === "request") {
      // Without a time the claim is stamped ahead, so that no restart's floor covers it.
      const stampMs = iatMs ?? nowMs + Math.floor(this.#windowMs / 2);
      await this.#claim(fingerprint([json, encryptedKey, iv, ciphertext, tag]), stampMs);
    }
    // A copy, since the platform's buffers share their memory.
    const own = new Uint8Array(plaintext);
    plaintext.fill(0);
    return own;
  }

  /**
   * Seals a plaintext to the recipient, and returns the body.
   *
   * @throws {SealwayError} `usage`: no key, algorithms outside of the profile, or a certificate that is not valid now.
   */
  // SPEC mle.md#sealing
  async seal(message: MleMessage, plaintext: Uint8Array): Promise<Bytes> {
    const nowMs = this.#now();
    const { alg, enc, kid, wrap } = this.#sealingKey(message, nowMs);
    const { member, cty } = this.profile[message];
    const { iat: unit } = this.profile;
    const iat = unit && (unit === "seconds" ? Math.floor(nowMs / 1000) : nowMs);
    const json = JSON.stringify({ alg, enc, kid, cty, iat });
    const header = Buffer.from(json).toString("base64url");
    const { keyLength, ivLength } = ENCS[enc];
    const [contentKey, iv] = [randomBytes(keyLength), randomBytes(ivLength)];
    const { ciphertext, tag } = sealContent(enc, contentKey, iv, Buffer.from(header), plaintext);
    const encryptedKey = wrap(contentKey);
    contentKey.fill(0);
    const encoded = [encryptedKey, iv, ciphertext, tag].map((part) =>
      Buffer.from(part).toString("base64url"),
    );
    const token = [header, ...encoded].join(".");
    return utf8(member === undefined ? token : `{${JSON.stringify(member)}:"${token}"}`);
  }

  /**
   * Checks that messages of a direction can be sealed now.
   *
   * @throws {SealwayError} as {@link seal} does.
   */
  checkSeal(message: MleMessage): void {
    this.#sealingKey(message, this.#now());
  }

  #sealingKey(message: MleMessage, nowMs: number) {
    const key = this.#seal;
    wants(key, "seal: a SealingKey, the recipient's");
    const { alg, enc, kid } = key;
    const { algs, encs } = this.profile[message];
    wants(
      algs.includes(alg) && encs.includes(enc),
      `seal: the profile ${this.profile.name} does not allow ${alg} with ${enc} in a message of this direction`,
    );
    wants(key.isValid(nowMs), "seal: the certificate is not valid now");
    return { alg, enc, kid, wrap: (contentKey: Uint8Array) => key.wrap(contentKey) };
  }

  /** Finds the one key that a token may be opened with. Keys are never tried. */
  #keyFor({ alg, enc, kid, x5tS256 }: TokenHeader, { algs, encs }: MleSide): OpeningKey {
    if (!algs.includes(alg)) throw new MleRefusal("alg", "the profile does not allow this alg", alg);
    if (!encs.includes(enc)) throw new MleRefusal("enc", "the profile does not allow this enc", enc);
    const key = kid === undefined ? this.#soleKey() : this.#keys.get(kid);
    if (key === undefined) throw new MleRefusal("kid", "no live key has this kid", kid);
    if (key.alg !== alg) throw new MleRefusal("alg", "the key has another algorithm than alg", alg);
    const { certificateSha256: own } = key;
    if (x5tS256 && !(own && Buffer.from(own).equals(x5tS256)))
      throw new MleRefusal("param", "x5t#S256 is not the hash of the key's certificate");
    return key;
  }

  #soleKey(): OpeningKey | undefined {
    if (!this.profile.isKidOptional) throw new MleRefusal("kid", "kid is absent");
    const [key, ...others] = this.#keys.values();
    if (others.length > 0) throw new MleRefusal("kid", "kid is absent, and not exactly one key is live");
    return key;
  }

  /** Returns the time of a token in milliseconds, if the profile has times and the token has one. */
  #time({ iat }: TokenHeader, message: MleMessage, nowMs: number): number | undefined {
    const { iat: unit } = this.profile;
    if (unit === undefined) return undefined;
    if (iat === undefined) {
      if (this.profile[message].isIatRequired) throw new MleRefusal("iat", "iat is absent");
      return undefined;
    }
    if (iat < MILLISECONDS_MIN !== (unit === "seconds"))
      throw new MleRefusal("iat", `iat is in another unit: the profile has ${unit}`);
    const iatMs = Number(iat) * (unit === "seconds" ? 1000 : 1);
    const offsetMs = iatMs - nowMs;
    if (Math.abs(offsetMs) > this.#windowMs)
      throw new MleRefusal("iat", `iat is ${offsetMs} ms from the clock, outside of the window`);
    return iatMs;
  }

  async #claim(key: Uint8Array, stampMs: number): Promise<void> {
    // A tag that verifies says nothing of the sender: anybody can make a token.
    const outcome = await this.#store?.claim({ key, sealed: false, stampMs });
    if (outcome === "replayed") throw new MleRefusal("replayed", "the token was received before");
    if (outcome === "outside_window") throw new MleRefusal("iat", "iat is outside of the store's window");
    if (outcome === "full") throw new SealwayError("nonces_full", "the store takes no more claims");
  }
}

/**
 * Takes the token out of a body.
 *
 * @throws {MleRefusal} `json` unless the token is the sole member of its object: what stands beside it is not protected.
 */
// SPEC mle.md#bodies
export function tokenOf(body: Uint8Array, { member }: MleSide): string {
  if (member === undefined) return Buffer.from(body).toString("latin1");
  const members = membersOf(body, "json");
  const token = stringOf(members.get(member));
  if (members.size === 1 && token !== undefined) return token;
  throw new MleRefusal("json", "the body is not an object whose sole member is the text", member);
}

/** Returns the first 16 bytes of SHA-256 over the decoded parts, each behind its length. */
function fingerprint(parts: readonly Uint8Array[]): Uint8Array {
  const hash = createHash("sha256").update(Uint8Array.of(FINGERPRINT_DOMAIN));
  for (const part of parts) {
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(part.length));
    hash.update(length).update(part);
  }
  return new Uint8Array(hash.digest().subarray(0, 16));
}
