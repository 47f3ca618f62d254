/** Keys that open and keys that seal. A key has one algorithm, so that a token cannot choose another (`spec/mle.md`, Keys). */
import {
  constants,
  createHash,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  publicEncrypt,
  webcrypto,
  X509Certificate,
} from "node:crypto";
import { SealwayError, wants } from "../wire/error.js";
import type { MleEnc } from "./content.js";
import { isAlg, isEnc } from "./profile.js";
import { isKid } from "./token.js";

/** The key management algorithm of an RSA key (RFC 7518 section 4.3): RSAES-OAEP with SHA-256, or with SHA-1. */
export type MleAlg = "RSA-OAEP-256" | "RSA-OAEP";

/** Derivations of a key's name. */
export type KidSource = keyof typeof KID_SOURCES;

interface KeyName {
  /** The name itself: 1 to 256 bytes. */
  readonly kid?: string;
  /** The derivation of the name, in the place of `kid`. */
  readonly kidFrom?: KidSource;
  /** Default: `RSA-OAEP-256`. */
  readonly alg?: MleAlg;
}

/** Options of an {@link OpeningKey}. */
export interface OpeningKeyOptions extends KeyName {
  /** PEM of an RSA key of 2,048 to 8,192 bits, PKCS#8 or PKCS#1, not encrypted. */
  readonly privateKey: string;
  /** PEM of its certificate, for names that derive from it and for tokens with `x5t#S256`. */
  readonly certificate?: string;
}

/** Options of a {@link SealingKey}. */
export interface SealingKeyOptions extends KeyName {
  /** PEM of the recipient's certificate, or of its public key (SubjectPublicKeyInfo). */
  readonly publicKey: string;
  /** Default: `A256GCM`. */
  readonly enc?: MleEnc;
}

interface Public {
  readonly key: KeyObject;
  readonly certificate: X509Certificate | undefined;
}

const KEY_LEN_MAX = 65_536;
/** Moduli of CVE-2017-15361 are powers of 65537 modulo each of these. */
const ROCA_PRIMES = [
  ...[3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103],
  ...[107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167],
];

// SPEC mle.md#kid
const KID_SOURCES = {
  spki_sha256_hex: ({ key }: Public) => sha256(spkiOf(key)).toString("hex"),
  certificate_sha256_hex: (found: Public) => sha256(certificateOf(found).raw).toString("hex"),
  certificate_sha256_base64: (found: Public) => sha256(certificateOf(found).raw).toString("base64"),
  x5t_s256: (found: Public) => sha256(certificateOf(found).raw).toString("base64url"),
  subject_serial_number: (found: Public) => {
    const { serialNumber } = certificateOf(found).toLegacyObject().subject as { serialNumber?: unknown };
    wants(
      typeof serialNumber === "string",
      "kidFrom: the certificate's subject has no serialNumber attribute, or more than one",
    );
    return serialNumber;
  },
  jwk_thumbprint: ({ key }: Public) => {
    const { e, n } = key.export({ format: "jwk" });
    return sha256(Buffer.from(`{"e":"${e}","kty":"RSA","n":"${n}"}`)).toString("base64url");
  },
} as const;

/** A private key that opens tokens. Nothing prints it. */
export class OpeningKey {
  readonly kid: string;
  readonly alg: MleAlg;
  /** Length of an encrypted key, in bytes. */
  readonly modulusLength: number;
  /** SHA-256 of the certificate, if there is one. */
  readonly certificateSha256: Uint8Array | undefined;
  readonly #pkcs8: Buffer;
  #key: Promise<webcrypto.CryptoKey> | undefined;

  /** @throws {SealwayError} `usage`, which holds nothing of the key. */
  constructor(options: OpeningKeyOptions) {
    const { privateKey, certificate } = options;
    const key = parsePrivate(privateKey);
    const found =
      certificate === undefined
        ? { key: createPublicKey(key), certificate }
        : parsePublic(certificate, "certificate");
    wants(
      found.certificate?.checkPrivateKey(key) !== false,
      "certificate: it is not that of the private key",
    );
    wants(
      certificate === undefined || found.certificate,
      "certificate: give a certificate, not a public key",
    );
    this.alg = algOf(options);
    this.kid = kidOf(options, found);
    this.modulusLength = modulusLengthOf(key, "privateKey");
    this.certificateSha256 = found.certificate && sha256(found.certificate.raw);
    this.#pkcs8 = key.export({ type: "pkcs8", format: "der" });
  }

  /** Decrypts an encrypted key of the right length, off the main thread; none if that fails. */
  async unwrap(encryptedKey: Uint8Array): Promise<Uint8Array | undefined> {
    const { subtle } = webcrypto;
    const algorithm = { name: "RSA-OAEP", hash: this.alg === "RSA-OAEP" ? "SHA-1" : "SHA-256" };
    this.#key ??= subtle.importKey("pkcs8", this.#pkcs8, algorithm, false, ["decrypt"]);
    const key = await this.#key;
    try {
      return new Uint8Array(await subtle.decrypt({ name: "RSA-OAEP" }, key, encryptedKey));
    } catch {
      return undefined;
    }
  }
}

/** A public key that seals tokens for one recipient, with one pair of algorithms. */
export class SealingKey {
  readonly kid: string;
  readonly alg: MleAlg;
  readonly enc: MleEnc;
  readonly #key: KeyObject;
  readonly #certificate: X509Certificate | undefined;

  /** @throws {SealwayError} `usage`. */
  constructor(options: SealingKeyOptions) {
    const { publicKey, enc = "A256GCM" } = options;
    const found = parsePublic(publicKey, "publicKey");
    wants(isEnc(enc), "enc: a content encryption algorithm of spec/mle.md");
    modulusLengthOf(found.key, "publicKey");
    this.alg = algOf(options);
    this.enc = enc;
    this.kid = kidOf(options, found);
    [this.#key, this.#certificate] = [found.key, found.certificate];
  }

  /** Encrypts a content key. */
  wrap(contentKey: Uint8Array): Uint8Array {
    const oaepHash = this.alg === "RSA-OAEP" ? "sha1" : "sha256";
    const padding = constants.RSA_PKCS1_OAEP_PADDING;
    return publicEncrypt({ key: this.#key, padding, oaepHash }, contentKey);
  }

  /** True if the key came without a certificate, or in one that is valid at this time. */
  isValid(nowMs: number): boolean {
    if (this.#certificate === undefined) return true;
    const { validFrom, validTo } = this.#certificate;
    return Date.parse(validFrom) <= nowMs && nowMs < Date.parse(validTo) + 1000;
  }
}

/**
 * Returns keys by their names.
 *
 * @throws {SealwayError} `usage` if two have one name.
 */
export function byKid(keys: readonly OpeningKey[]): ReadonlyMap<string, OpeningKey> {
  const found = new Map<string, OpeningKey>();
  for (const key of keys) {
    wants(key instanceof OpeningKey, "open: a list of OpeningKey");
    wants(!found.has(key.kid), `open: two keys have the kid ${JSON.stringify(key.kid)}`);
    found.set(key.kid, key);
  }
  return found;
}

function algOf({ alg = "RSA-OAEP-256" }: KeyName): MleAlg {
  wants(isAlg(alg), "alg: RSA-OAEP-256 or RSA-OAEP");
  return alg;
}

function kidOf({ kid, kidFrom }: KeyName, found: Public): string {
  wants((kid === undefined) !== (kidFrom === undefined), "kid: give either kid or kidFrom");
  wants(
    kidFrom === undefined || Object.hasOwn(KID_SOURCES, kidFrom),
    `kidFrom: one of ${Object.keys(KID_SOURCES).join(", ")}`,
  );
  const name = kidFrom === undefined ? kid : KID_SOURCES[kidFrom](found);
  wants(typeof name === "string" && isKid(name), "kid: a text of 1 to 256 bytes");
  return name;
}

function parsePrivate(pem: string): KeyObject {
  const labels = labelsOf(pem, "privateKey");
  wants(
    !labels.includes("ENCRYPTED PRIVATE KEY") && !pem.includes("Proc-Type:"),
    "privateKey: it is encrypted: decrypt it first",
  );
  const own = labels.filter((label) => label.endsWith("PRIVATE KEY"));
  wants(own.length === 1, `privateKey: the PEM text holds ${own.length} private keys: give one`);
  return parsed(() => createPrivateKey(pemOf(pem, own[0] ?? "")), "privateKey");
}

function parsePublic(pem: string, option: string): Public {
  const labels = labelsOf(pem, option);
  wants(
    !labels.some((label) => label.endsWith("PRIVATE KEY")),
    `${option}: it holds a private key: give a certificate or a public key`,
  );
  const own = labels.filter((label) => label === "CERTIFICATE" || label === "PUBLIC KEY");
  wants(
    own.length === 1,
    `${option}: the PEM text holds ${own.length} certificates and public keys: give one`,
  );
  return parsed(() => {
    if (own[0] === "PUBLIC KEY") return { key: createPublicKey(pem), certificate: undefined };
    const certificate = new X509Certificate(pem);
    return { key: certificate.publicKey, certificate };
  }, option);
}

function labelsOf(pem: unknown, option: string): string[] {
  wants(
    typeof pem === "string" && pem.length <= KEY_LEN_MAX,
    `${option}: a PEM text of at most 65,536 bytes`,
  );
  return [...pem.matchAll(/-----BEGIN ([A-Z0-9 ]+)-----/g)].map(([, label]) => label ?? "");
}

/** The block of a label: what stands beside it is not the platform's to choose from. */
function pemOf(pem: string, label: string): string {
  const begin = pem.indexOf(`-----BEGIN ${label}-----`);
  const end = pem.indexOf(`-----END ${label}-----`, begin);
  return end < 0 ? "" : pem.slice(begin, end + `-----END ${label}-----`.length);
}

function parsed<T>(run: () => T, option: string): T {
  try {
    return run();
  } catch {
    // The platform's error may quote its input.
    throw new SealwayError("usage", `${option}: the PEM text cannot be read`, { stage: "configuration" });
  }
}

/** Checks an RSA key, and returns the length of its modulus in bytes. */
// SPEC mle.md#keys
function modulusLengthOf(key: KeyObject, option: string): number {
  wants(key.asymmetricKeyType === "rsa", `${option}: an RSA key is due; RSASSA-PSS keys sign`);
  const { modulusLength: bits = 0, publicExponent: exponent = 0n } = key.asymmetricKeyDetails ?? {};
  wants(bits >= 2048 && bits <= 8192, `${option}: an RSA key of ${bits} bits; 2048 to 8192 are due`);
  wants(
    exponent % 2n === 1n && exponent >= 3n && exponent < 2n ** 32n,
    `${option}: the public exponent is even, 1, or longer than 32 bits`,
  );
  const { n = "" } = (key.type === "private" ? createPublicKey(key) : key).export({ format: "jwk" });
  const modulus = BigInt(`0x${Buffer.from(n, "base64url").toString("hex")}`);
  wants(!isRoca(modulus), `${option}: the RSA key has the structure of CVE-2017-15361 (ROCA)`);
  return Math.ceil(bits / 8);
}

/** True if a modulus has the fingerprint of CVE-2017-15361; an honest one has it with a probability below 2⁻²⁷. */
export function isRoca(modulus: bigint): boolean {
  return ROCA_PRIMES.every((prime) => {
    const rest = Number(modulus % BigInt(prime));
    let power = 1;
    for (let steps = 0; power !== rest && steps < prime; steps += 1)
      power = (power * (65537 % prime)) % prime;
    return power === rest;
  });
}

function certificateOf({ certificate }: Public): X509Certificate {
  wants(certificate, "kidFrom: this name derives from a certificate, and there is none");
  return certificate;
}

function spkiOf(key: KeyObject): Buffer {
  return key.export({ type: "spki", format: "der" });
}

function sha256(bytes: Uint8Array): Buffer {
  return createHash("sha256").update(bytes).digest();
}
