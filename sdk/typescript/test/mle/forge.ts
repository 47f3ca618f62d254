/** Keys with certificates, and tokens that may be wrong in one place each. */
import { execFileSync } from "node:child_process";
import { constants, createPublicKey, publicEncrypt, randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ENCS, sealContent } from "../../src/mle/content.js";
import type { MleAlg, MleEnc, MleRefusal } from "../../src/mle/index.js";

/** A key pair in PEM, with a certificate. */
export interface Pair {
  readonly privateKey: string;
  readonly certificate: string;
  readonly publicKey: string;
}

/** Makes a key pair by openssl; `more` are arguments of `openssl req`. */
export function makePair(subject = "/CN=shop/serialNumber=1718", ...more: string[]): Pair {
  const folder = mkdtempSync(join(tmpdir(), "sealway-mle-"));
  try {
    const [key, certificate] = [join(folder, "key.pem"), join(folder, "certificate.pem")];
    const newKey = more.length > 0 ? more : ["-newkey", "rsa:2048"];
    const args = ["req", "-x509", "-nodes", "-subj", subject, "-keyout", key, "-out", certificate, ...newKey];
    execFileSync("openssl", args, { stdio: "pipe" });
    const pem = readFileSync(certificate, "utf8");
    const publicKey = createPublicKey(pem).export({ type: "spki", format: "pem" }).toString();
    return { privateKey: readFileSync(key, "utf8"), certificate: pem, publicKey };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export function base64url(bytes: Uint8Array | string): string {
  return Buffer.from(bytes).toString("base64url");
}

/** What a token is made of; each part can be replaced. */
export interface Lies {
  readonly header?: string | Record<string, unknown>;
  readonly enc?: MleEnc;
  readonly alg?: MleAlg;
  readonly contentKey?: Uint8Array;
  readonly iv?: Uint8Array;
  readonly aad?: string;
  readonly plaintext?: string;
  /** Changes the five encoded parts. */
  readonly parts?: (parts: string[]) => string[];
}

/** Makes a token for the holder of a public key. */
export function forge(publicKey: string, kid: string, lies: Lies = {}): string {
  const { enc = "A256GCM", alg = "RSA-OAEP-256", plaintext = '{"pan":"4111"}' } = lies;
  const { header = { alg, enc, kid } } = lies;
  const { contentKey = randomBytes(ENCS[enc].keyLength), iv = randomBytes(ENCS[enc].ivLength) } = lies;
  const encoded = base64url(typeof header === "string" ? header : JSON.stringify(header));
  const rightKey = contentKey.length === ENCS[enc].keyLength ? contentKey : Buffer.alloc(ENCS[enc].keyLength);
  const aad = Buffer.from(lies.aad ?? encoded);
  const { ciphertext, tag } = sealContent(enc, rightKey, iv, aad, Buffer.from(plaintext));
  const oaepHash = alg === "RSA-OAEP" ? "sha1" : "sha256";
  const padding = constants.RSA_PKCS1_OAEP_PADDING;
  const encryptedKey = publicEncrypt({ key: publicKey, padding, oaepHash }, contentKey);
  const parts = [encoded, ...[encryptedKey, iv, ciphertext, tag].map(base64url)];
  return (lies.parts?.(parts) ?? parts).join(".");
}

/** Returns the class of a refusal. */
export async function classOf(opening: Promise<unknown>): Promise<string> {
  return opening.then(
    () => "opened",
    (error: Partial<MleRefusal>) => error.class ?? String(error),
  );
}
