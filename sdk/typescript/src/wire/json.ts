/** JSON as the wires read it (`spec/session.md`, Encodings): bounded in depth, its numbers within a double. */
import { fromUtf8 } from "./bytes.js";
import { SealwayError } from "./error.js";

const DEPTH_MAX = 127;

function refuse(): SealwayError {
  return new SealwayError("json_invalid", "not JSON, or nested too deep");
}

/** Looks at what `JSON.parse` lets pass: nesting without end, and numbers that become infinite. */
function check(text: string): void {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (char === '"') {
      at = endOfString(text, at);
    } else if (char === "[" || char === "{") {
      depth += 1;
      if (depth > DEPTH_MAX) throw refuse();
    } else if (char === "]" || char === "}") {
      depth -= 1;
    } else if (char !== undefined && /[0-9]/.test(char)) {
      const begin = at;
      while (/[0-9.eE+-]/.test(text[at + 1] ?? "")) at += 1;
      if (Number(text.slice(begin, at + 1)) === Number.POSITIVE_INFINITY) throw refuse();
    }
  }
}

function endOfString(text: string, begin: number): number {
  let at = begin + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at;
}

/**
 * Reads JSON.
 *
 * @throws {SealwayError} `json_invalid` for text that is none, 128 levels and more, a byte order mark, and what is not UTF-8.
 */
export function parseJson(body: Uint8Array): unknown {
  const text = fromUtf8(body);
  if (text === undefined) throw refuse();
  check(text);
  try {
    return JSON.parse(text);
  } catch {
    throw refuse();
  }
}

/** A JSON object's members. Of a repeated one the last counts. */
export type Members = { readonly [name: string]: unknown };

/** The members of a value that is an object; none of any other. */
export function membersOf(value: unknown): Members | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Members)
    : undefined;
}

/** True if a value is a whole number from 0 to `top`. */
export function isWhole(value: unknown, top: number): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= top;
}
