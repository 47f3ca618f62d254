/** Reading the members of a line for the driver. */
import type { Bytes } from "../wire/bytes.js";
import { fromHex } from "../wire/hex.js";

/** An error of the driver itself. */
export class Fault extends Error {}

export type Line = { readonly [name: string]: unknown };

export function need(line: Line, name: string): unknown {
  if (line[name] === undefined) throw new Fault(`the member ${name} is missing`);
  return line[name];
}

export function text(line: Line, name: string): string {
  const value = need(line, name);
  if (typeof value !== "string") throw new Fault(`the member ${name} is no text`);
  return value;
}

export function whole(line: Line, name: string): number {
  const value = need(line, name);
  if (typeof value !== "number") throw new Fault(`the member ${name} is no number`);
  return value;
}

export function bytes(line: Line, name: string): Bytes {
  const value = fromHex(text(line, name));
  if (value === undefined) throw new Fault(`the member ${name} is no hexadecimal`);
  return value;
}

export function texts(line: Line, name: string): string[] {
  const value = need(line, name);
  if (!Array.isArray(value) || !value.every((part) => typeof part === "string")) {
    throw new Fault(`the member ${name} is no list of texts`);
  }
  return value;
}

export function headersOf(line: Line): [string, string][] {
  const value = need(line, "headers");
  const isPair = (part: unknown) =>
    Array.isArray(part) && part.length === 2 && part.every((each) => typeof each === "string");
  if (!Array.isArray(value) || !value.every(isPair)) throw new Fault("headers is no list of pairs");
  return value as [string, string][];
}
