/** Profiles: what the messages of each scheme may be (`spec/mle.md`, Profiles). */
import { SealwayError, wants } from "../wire/error.js";
import { ENCS, type MleEnc } from "./content.js";
import type { MleAlg } from "./keys.js";

/** The direction of a message. */
export type MleMessage = "request" | "answer";

/** The unit of the header parameter `iat`. */
export type IatUnit = "seconds" | "milliseconds";

/** The rules of one direction. */
export interface MleSide {
  readonly algs: readonly MleAlg[];
  readonly encs: readonly MleEnc[];
  /** Member that is the token, the sole one of the body; without a name the body is the token and nothing else. */
  readonly member?: string | undefined;
  readonly isIatRequired?: boolean;
  /** The parameter `cty` of messages that are sealed; it is never read. */
  readonly cty?: string | undefined;
}

/** The rules for the messages of one scheme. */
export interface MleProfile {
  readonly name: string;
  readonly request: MleSide;
  readonly answer: MleSide;
  /** Reads `+` and `/` as `-` and `_`: Mastercard's library for Node sends `/`. */
  readonly hasMixedLetters?: boolean;
  /** Opens AES-GCM with IVs of 16 bytes too: Mastercard's libraries send them. */
  readonly hasLongIv?: boolean;
  /** Without a unit `iat` is ignored, and none is sent. */
  readonly iat?: IatUnit | undefined;
  /** Tokens without `kid` are opened by the only key that there is. */
  readonly isKidOptional?: boolean;
}

const RSA: readonly MleAlg[] = ["RSA-OAEP-256"];
const MASTERCARD: MleSide = {
  algs: RSA,
  encs: ["A256GCM", "A128GCM", "A192GCM", "A128CBC-HS256"],
  member: "encryptedData",
  cty: "application/json",
};
const VISA: MleSide = { algs: RSA, encs: ["A128GCM", "A256GCM"], member: "encData" };

/** The profiles of schemes, by name. */
export const MLE_PROFILES = {
  "mastercard-jwe": {
    name: "mastercard-jwe",
    request: MASTERCARD,
    answer: MASTERCARD,
    hasMixedLetters: true,
    hasLongIv: true,
  },
  visa: { name: "visa", request: { ...VISA, isIatRequired: true }, answer: VISA, iat: "milliseconds" },
  "visa-acceptance": {
    name: "visa-acceptance",
    request: { algs: RSA, encs: ["A256GCM"], member: "encryptedRequest", isIatRequired: true },
    answer: { algs: [...RSA, "RSA-OAEP"], encs: ["A256GCM", "A128GCM"], member: "encryptedResponse" },
    iat: "seconds",
  },
} as const satisfies Readonly<Record<string, MleProfile>>;

/** The choices of a profile of your own. */
export interface GenericJweOptions {
  /** Default: `RSA-OAEP-256`. */
  readonly algs?: readonly MleAlg[];
  /** Default: `A256GCM`. */
  readonly encs?: readonly MleEnc[];
  /** The unit of `iat`, which requests then must have. Default: no time. */
  readonly iat?: IatUnit;
  /** The member that is the token in requests, and in answers. Default: the bare token. */
  readonly requestMember?: string;
  readonly answerMember?: string;
  readonly cty?: string;
  /** Opens tokens without `kid` where exactly one key is live. Default: false. */
  readonly isKidOptional?: boolean;
}

/**
 * Makes the profile `generic-jwe`: strict base64url, IVs of the standard's lengths.
 *
 * @throws {SealwayError} `usage`.
 */
export function genericJwe(options: GenericJweOptions = {}): MleProfile {
  const { algs = RSA, encs = ["A256GCM"], iat, requestMember, answerMember, cty, isKidOptional } = options;
  wants(algs.length > 0 && algs.every(isAlg), "algs: a list of RSA-OAEP-256 and RSA-OAEP");
  wants(encs.length > 0 && encs.every(isEnc), `encs: a list of ${Object.keys(ENCS).join(", ")}`);
  wants([undefined, "seconds", "milliseconds"].includes(iat), "iat: seconds or milliseconds");
  for (const name of [requestMember, answerMember])
    wants(name === undefined || name !== "", "requestMember, answerMember: a name");
  const side = { algs: [...algs], encs: [...encs], cty };
  return {
    name: "generic-jwe",
    request: { ...side, member: requestMember, isIatRequired: iat !== undefined },
    answer: { ...side, member: answerMember },
    iat,
    isKidOptional: isKidOptional ?? false,
  };
}

/** True if a text names an algorithm of RSA keys, letter case included. */
export function isAlg(name: unknown): name is MleAlg {
  return name === "RSA-OAEP-256" || name === "RSA-OAEP";
}

/** True if a text names a content encryption algorithm, letter case included. */
export function isEnc(name: unknown): name is MleEnc {
  return typeof name === "string" && Object.hasOwn(ENCS, name);
}

/**
 * Returns the profile of a name, or the profile itself.
 *
 * @throws {SealwayError} `usage`.
 */
export function profileOf(profile: MleProfile | keyof typeof MLE_PROFILES): MleProfile {
  if (typeof profile === "object" && profile !== null) return profile;
  if (Object.hasOwn(MLE_PROFILES, profile)) return MLE_PROFILES[profile];
  const names = Object.keys(MLE_PROFILES).join(", ");
  throw new SealwayError("usage", `profile: ${names}, or what genericJwe() makes`, {
    stage: "configuration",
  });
}
