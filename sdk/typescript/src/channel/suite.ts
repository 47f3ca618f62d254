/** Suites by their numbers. SPEC channel.md#suites */

/** Curves of key agreement, as Noise writes them. */
export type Curve = "25519" | "P256";
/** Ciphers, as Noise writes them. */
export type Cipher = "AESGCM" | "ChaChaPoly";
/** Patterns of the native profile. */
export type Pattern = "NNpsk0" | "KKpsk0" | "IKpsk1" | "XXpsk3";

/** A suite of profile flowersec-v1. */
export interface V1Suite {
  readonly profile: "v1";
  readonly id: number;
  readonly name: string;
  readonly curve: Curve;
}

/** A suite of the native profile. */
export interface NativeSuite {
  readonly profile: "native";
  readonly id: number;
  /** The Noise protocol's name. */
  readonly name: string;
  readonly pattern: Pattern;
  readonly curve: Curve;
  readonly cipher: Cipher;
  /** True if the suite includes ML-KEM-768. */
  readonly isHybrid: boolean;
  /** True if the ends have static keys. */
  readonly hasStaticKeys: boolean;
}

/** Id of a suite, as a grant's `default_suite` names it. */
export type Suite = V1Suite | NativeSuite;

const PATTERNS: readonly Pattern[] = ["NNpsk0", "KKpsk0", "IKpsk1", "XXpsk3"];
const HYBRID: Readonly<Record<Pattern, string>> = {
  NNpsk0: "NNpsk0+psk2",
  KKpsk0: "KKpsk0+psk2",
  IKpsk1: "IKpsk1+psk2",
  XXpsk3: "XXpsk2+psk3",
};

/** The suite of a number; nothing for a number that means nothing. */
export function suiteById(id: number): Suite | undefined {
  if (id === 1) return { profile: "v1", id, name: "x25519-hkdf-sha256-aes256gcm", curve: "25519" };
  if (id === 2) return { profile: "v1", id, name: "p256-hkdf-sha256-aes256gcm", curve: "P256" };
  const bits = id - 0x100;
  const pattern = PATTERNS[bits >> 4];
  if (!Number.isInteger(id) || bits < 0 || pattern === undefined || (bits & 8) !== 0) return undefined;
  const isHybrid = (bits & 4) !== 0;
  const curve = (bits & 2) !== 0 ? "P256" : "25519";
  const cipher = (bits & 1) !== 0 ? "ChaChaPoly" : "AESGCM";
  const name = `Noise_${isHybrid ? HYBRID[pattern] : pattern}_${curve}_${cipher}_SHA256`;
  return {
    profile: "native",
    id,
    name,
    pattern,
    curve,
    cipher,
    isHybrid,
    hasStaticKeys: pattern !== "NNpsk0",
  };
}

/** Every suite there is. */
export function allSuites(): Suite[] {
  const ids = [1, 2, ...Array.from({ length: 64 }, (_, bits) => 0x100 + bits)];
  return ids.flatMap((id) => suiteById(id) ?? []);
}

/** Length of a public key of the native profile, in bytes. */
export function publicLength(curve: Curve): number {
  return curve === "25519" ? 32 : 33;
}
