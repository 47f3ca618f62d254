/** Reading of vectors (`vectors/README.md`), in Node and in a browser. */
import { utf8 } from "../../src/wire/bytes.js";
import { fromHex } from "../../src/wire/hex.js";

/** Members that have been looked at, by their paths. */
export type Json = Record<string, any>;

/** Wraps a scenario so that members which nobody reads are found. */
export function track(value: Json): { scenario: Json; unread: () => string[] } {
  const all = new Set<string>();
  const wrap = (node: unknown, path: string): unknown => {
    if (Array.isArray(node)) return node.map((part, at) => wrap(part, `${path}[${at}]`));
    if (typeof node !== "object" || node === null) return node;
    for (const name of Object.keys(node)) all.add(`${path}.${name}`);
    const made: Json = {};
    for (const [name, part] of Object.entries(node)) made[name] = wrap(part, `${path}.${name}`);
    return new Proxy(made, {
      get(target, name) {
        all.delete(`${path}.${String(name)}`);
        return target[String(name)];
      },
    });
  };
  const scenario = wrap(value, "") as Json;
  return { scenario, unread: () => [...all] };
}

export function unhex(text: string): Uint8Array<ArrayBuffer> {
  const bytes = fromHex(text);
  if (bytes === undefined) throw new Error(`no hexadecimal digits: ${text}`);
  return bytes;
}

/** Bytes as a vector holds them. */
export function bytesOf(value: Json): Uint8Array<ArrayBuffer> {
  if ("text" in value) return utf8(value["text"]);
  if ("hex" in value) return unhex(value["hex"]);
  if ("repeat" in value) return new Uint8Array(value["count"]).fill(unhex(value["repeat"])[0] as number);
  throw new Error("bytes of no known form");
}

/** A text as bytes that are characters. */
export function textOf(value: Json): string {
  return Array.from(bytesOf(value), (byte) => String.fromCharCode(byte)).join("");
}

/** JSON with its members in order of their names. */
export function ordered(value: unknown): string {
  return JSON.stringify(value, (_, part) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}

/** Fails unless both are the same, as JSON. */
export function same(what: string, got: unknown, wanted: unknown): void {
  if (ordered(got) !== ordered(wanted)) {
    throw new Error(`${what}: ${ordered(got)?.slice(0, 300)} instead of ${ordered(wanted)?.slice(0, 300)}`);
  }
}

/** Headers as a set: names without case. */
export function headerSet(headers: readonly (readonly [string, string])[]): string[] {
  return headers.map(([name, value]) => `${name.toLowerCase()}: ${value}`).sort();
}

/** Fails unless `run` is refused with this code; gives the refusal. */
export async function refused(code: string, run: () => unknown): Promise<Json> {
  try {
    await run();
  } catch (error) {
    const found = error as Json;
    if (found["code"] !== code)
      throw new Error(`refused with ${found["code"] ?? String(error)} instead of ${code}`);
    return found;
  }
  throw new Error(`accepted instead of refused with ${code}`);
}
