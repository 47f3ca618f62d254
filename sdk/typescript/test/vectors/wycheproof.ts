/** Key agreements of Wycheproof through a provider, in Node and in a browser. */
import type { Provider } from "../../src/crypto/provider.js";
import { hex } from "../../src/wire/bytes.js";
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
  curve: "p256" | "x25519",
  file: Agreements,
): Promise<{ ran: number; faults: string[] }> {
  const faults: string[] = [];
  for (const [id, result, publicHex, privateHex, sharedHex] of file.tests) {
    const key = await provider[curve](unhex(privateHex));
    const secret = await key.agree(unhex(publicHex));
    const got = secret === undefined ? "refused" : hex(secret);
    // The wires take 65 bytes alone, and no secret of zeros.
    const isForm = curve === "x25519" ? !/^0*$/.test(sharedHex) : publicHex.length === 130;
    const isRefused = result === "invalid" || !isForm;
    if (got !== (isRefused ? "refused" : sharedHex)) faults.push(`${curve} ${id}: ${got}`);
  }
  return { ran: file.tests.length, faults };
}
