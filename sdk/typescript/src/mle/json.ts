/** A strict reader of JSON objects (RFC 8259): each name once, at most 64 deep, numbers as they are written. */
import { fromUtf8 } from "../wire/bytes.js";
import { type MleClass, MleRefusal } from "./refusal.js";

/** Deepest nesting of arrays and objects. */
const DEPTH_MAX = 64;

/**
 * Reads the members of an object: its names without their escapes, and the text of each value.
 *
 * @param refusedAs the class of every defect.
 * @throws {MleRefusal}
 */
// SPEC mle.md#header
export function membersOf(bytes: Uint8Array, refusedAs: MleClass): Map<string, string> {
  const text = fromUtf8(bytes);
  if (text === undefined) throw new MleRefusal(refusedAs, "the text is not UTF-8");
  const found = scan(text);
  if (found === undefined) throw new MleRefusal(refusedAs, "the JSON is nested more than 64 deep");
  if (!isJson(text)) throw new MleRefusal(refusedAs, "the text is not JSON");
  if (!text.trimStart().startsWith("{")) throw new MleRefusal(refusedAs, "the JSON is not an object");
  const members = new Map<string, string>();
  for (const [quoted, value] of found) {
    const name: string = JSON.parse(quoted);
    if (members.has(name)) throw new MleRefusal(refusedAs, "a member is there twice", name);
    members.set(name, value);
  }
  return members;
}

/** Returns the content of a value that is a string. */
export function stringOf(value: string | undefined): string | undefined {
  return value?.startsWith('"') ? (JSON.parse(value) as string) : undefined;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
  } catch {
    return false;
  }
  return !hasHalf(text);
}

/** True if a text that is JSON has half of a surrogate pair, which is no character. */
function hasHalf(text: string): boolean {
  const code = (at: number) => Number.parseInt(text.slice(at + 2, at + 6), 16);
  let at = text.indexOf("\\u");
  while (at >= 0) {
    const isEscape = slashesBefore(text, at) % 2 === 0;
    const isSurrogate = isEscape && code(at) >> 11 === 0xd800 >> 11;
    if (isSurrogate) {
      const isPair =
        code(at) < 0xdc00 && text.startsWith("\\u", at + 6) && code(at + 6) >> 10 === 0xdc00 >> 10;
      if (!isPair) return true;
    }
    at = text.indexOf("\\u", at + (isSurrogate ? 12 : 2));
  }
  return false;
}

/** Finds the members of the outermost object of a text that is yet to be checked; none if it is nested too deep. */
function scan(text: string): [name: string, value: string][] | undefined {
  const members: [string, string][] = [];
  let [depth, begin, last] = [0, 0, ""];
  let name: string | undefined;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    const isClose = char === "}" || char === "]";
    if (char === '"') {
      const end = endOfString(text, at);
      if (depth === 1) last = text.slice(at, end);
      at = end - 1;
    } else if (char === "{" || char === "[") {
      depth += 1;
      if (depth > DEPTH_MAX) return undefined;
    } else if (char === ":" && depth === 1) {
      [name, begin] = [last, at + 1];
    } else if ((char === "," || isClose) && depth === 1 && name !== undefined) {
      members.push([name, text.slice(begin, at).trim()]);
      name = undefined;
    }
    if (isClose) depth -= 1;
  }
  return members;
}

/** Returns the index behind the last quote of a string. */
function endOfString(text: string, begin: number): number {
  for (let at = text.indexOf('"', begin + 1); at >= 0; at = text.indexOf('"', at + 1))
    if (slashesBefore(text, at) % 2 === 0) return at + 1;
  return text.length;
}

function slashesBefore(text: string, at: number): number {
  let slashes = 0;
  while (text[at - 1 - slashes] === "\\") slashes += 1;
  return slashes;
}
