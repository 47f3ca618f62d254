/** Names of the headers of the wires (`spec/registry.toml`), and how they are read. */
import { SealwayError } from "./error.js";

/** Headers as they stand in a message: names have no case and may stand twice. */
export type HeaderList = readonly (readonly [name: string, value: string])[];

export const X_KID = "X-Kid";
export const X_IDEMPOTENCY_KEY = "X-Idempotency-Key";
export const X_SEAL = "X-Seal";
export const X_SEALED = "X-Sealed";

/** All headers of sealing, lower case: none of them reaches a handler. */
export const SEALING: ReadonlySet<string> = new Set(
  "x-kid x-idempotency-key x-clientid x-nonce x-timestamp x-enc-alg x-iv x-tag x-aad x-seal x-sealed".split(
    " ",
  ),
);

/** All values under a name. */
export function valuesOf(headers: HeaderList, name: string): string[] {
  const wanted = name.toLowerCase();
  return headers.filter(([key]) => key.toLowerCase() === wanted).map(([, value]) => value);
}

/** The first value under a name. */
export function firstOf(headers: HeaderList, name: string): string | undefined {
  return valuesOf(headers, name)[0];
}

/**
 * The value of a header that a wire needs: there, once, of visible ASCII, spaces and tabs.
 *
 * @throws {SealwayError} `header_missing`, `header_invalid`.
 */
export function required(headers: HeaderList, name: string): string {
  const value = optional(headers, name);
  if (value) return value;
  throw new SealwayError("header_missing", `the header ${name} is missing`, { field: name });
}

/**
 * The value of a header that may be absent: once, of visible ASCII, spaces and tabs.
 *
 * @throws {SealwayError} `header_invalid`.
 */
export function optional(headers: HeaderList, name: string): string | undefined {
  const found = valuesOf(headers, name);
  // Two readers could take two values from a header that is there twice.
  if (found.length > 1 || !/^[\t\x20-\x7e]*$/.test(found[0] ?? "")) throw invalid(name);
  return found[0];
}

/** The refusal of a header's form. */
export function invalid(name: string): SealwayError {
  return new SealwayError("header_invalid", `the header ${name} is not of its form`, { field: name });
}
