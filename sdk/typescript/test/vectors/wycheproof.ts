/** Key agreements and signatures of Wycheproof through a provider, in Node and in a browser. */
import type { Provider } from "../../src/crypto/provider.js";
import { verify } from "../../src/session/native/algorithm.js";
import { type Bytes, hex } from "../../src/wire/bytes.js";
import { unhex } from "./scenario.js";

/** A file of them. */
export interface Agreements {
  readonly from: string;
  readonly tests: readonly (readonly [
    id: number,
    result: string,
    publicHex: string,
    privateHex: string,
    sharedHex: string,
  ])[];
}

/** Runs all, and says which went wrong. */
export async function runAgreements(
  provider: Provider,
  curve: "p256" | "p384" | "x25519",
  file: Agreements,
): Promise<{ ran: number; faults: string[] }> {
  const faults: string[] = [];
  for (const [id, result, publicHex, privateHex, sharedHex] of file.tests) {
    const key = await provider[curve](unhex(privateHex));
    const secret = await key.agree(unhex(publicHex));
    const got = secret === undefined ? "refused" : hex(secret);
    // The wires take uncompressed points alone, and no secret of zeros.
    const isForm = curve === "x25519" ? !/^0*$/.test(sharedHex) : publicHex.startsWith("04");
    const isRefused = result === "invalid" || !isForm;
    if (got !== (isRefused ? "refused" : sharedHex)) faults.push(`${curve} ${id}: ${got}`);
  }
  return { ran: file.tests.length, faults };
}

/** A file of signatures: id, result, public key, message and signature of each. */
export interface Signatures {
  readonly from: string;
  readonly tests: readonly (readonly [
    id: number,
    result: string,
    publicHex: string,
    messageHex: string,
    signatureHex: string,
  ])[];
}

/** Verifies all, and says which went wrong. The public key names the algorithm. */
export async function runSignatures(
  provider: Provider,
  file: Signatures,
): Promise<{ ran: number; faults: string[] }> {
  const faults: string[] = [];
  for (const [id, result, ...hexes] of file.tests) {
    const [publicKey, message, signature] = hexes.map(unhex) as [Bytes, Bytes, Bytes];
    const got = (await verify(provider, publicKey, message, signature)) ? "valid" : "invalid";
    if (got !== result) faults.push(`${id}: ${got}`);
  }
  return { ran: file.tests.length, faults };
}
