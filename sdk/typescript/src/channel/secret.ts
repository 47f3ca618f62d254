import type { Bytes } from "./encoding.js";

/** Bytes that nobody is shown: whatever prints, inspects or serializes this sees a word in their place. */
export class Secret {
  readonly #bytes: Bytes;

  /** Takes the bytes over: they are wiped with it. */
  constructor(bytes: Bytes) {
    this.#bytes = bytes;
  }

  /** The bytes themselves, for cryptography alone. */
  reveal(): Bytes {
    return this.#bytes;
  }

  /** Length in bytes. */
  get length(): number {
    return this.#bytes.length;
  }

  /** Overwrites the bytes. What the engine has copied elsewhere is out of reach. */
  wipe(): void {
    this.#bytes.fill(0);
  }

  toString(): string {
    return "Secret(redacted)";
  }

  toJSON(): string {
    return "redacted";
  }

  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return this.toString();
  }
}
