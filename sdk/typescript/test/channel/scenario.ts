import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Bytes } from "../../src/channel/encoding.js";
import { Secret } from "../../src/channel/secret.js";

const ROOT = fileURLToPath(new URL("../../../../vectors/", import.meta.url));

/** A scenario whose members are to be read, all of them. */
export class Scenario {
  readonly file: string;
  readonly type: string;
  readonly #members: Map<string, unknown>;

  constructor(file: string, value: object) {
    this.file = file;
    this.#members = new Map(Object.entries(value));
    for (const told of ["name", "comment", "spec"]) this.#members.delete(told);
    this.type = this.text("type");
  }

  take(name: string): unknown {
    if (!this.#members.has(name)) throw new Error(`${this.file} has no member ${name}`);
    const value = this.#members.get(name);
    this.#members.delete(name);
    return value;
  }

  text(name: string): string {
    return this.take(name) as string;
  }

  number(name: string): number {
    return this.take(name) as number;
  }

  bytes(name: string): Bytes {
    return hex(this.text(name));
  }

  secret(name: string): Secret {
    return new Secret(this.bytes(name));
  }

  list(name: string): Scenario[] {
    const values = this.take(name) as object[];
    return values.map((value, i) => new Scenario(`${this.file} ${name} ${i}`, { type: name, ...value }));
  }

  object(name: string): Scenario {
    return new Scenario(`${this.file} ${name}`, { type: name, ...(this.take(name) as object) });
  }

  has(name: string): boolean {
    return this.#members.has(name);
  }

  /** What nobody has read is what nobody has tested. */
  done(): void {
    if (this.#members.size > 0)
      throw new Error(`${this.file}: nobody read ${[...this.#members.keys()].join(", ")}`);
  }
}

/** Every scenario of a folder of vectors. */
export function scenarios(folder: string): Scenario[] {
  return readdirSync(`${ROOT}${folder}`)
    .sort()
    .map(
      (file) => new Scenario(file, JSON.parse(readFileSync(`${ROOT}${folder}/${file}`, "utf8")) as object),
    );
}

export function hex(digits: string): Bytes {
  return new Uint8Array(Buffer.from(digits, "hex"));
}

export function digits(bytes: Uint8Array | undefined): string {
  return Buffer.from(bytes ?? []).toString("hex");
}
