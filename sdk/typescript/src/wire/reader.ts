/** Reads the members of a message of wire 3, one after the other. */
import { fromBase64 } from "./base64.js";
import { type Bytes, utf8 } from "./bytes.js";
import { SealwayError } from "./error.js";
import { isWhole, type Members, membersOf, parseJson } from "./json.js";

/** A refusal's code where a message is not what it should be: of an answer all faults are one. */
export type FaultCode = "field_invalid" | "answer_mismatch";

export class Reader {
  readonly #members: Members;
  readonly #code: FaultCode;

  constructor(members: Members, code: FaultCode) {
    this.#members = members;
    this.#code = code;
  }

  /**
   * Of a body.
   *
   * @throws {SealwayError} `json_invalid` and `field_invalid`, or `code` for both.
   */
  static of(body: Uint8Array, code: FaultCode): Reader {
    try {
      const members = membersOf(parseJson(body));
      if (members) return new Reader(members, code);
    } catch (error) {
      if (code === "field_invalid") throw error;
    }
    throw fault(code);
  }

  /** A member that may be absent; `null` is as absent. `read` gives none for a value that is not of its form. */
  optional<T>(name: string, read: (value: unknown) => T | undefined): T | undefined {
    const value = Object.hasOwn(this.#members, name) ? this.#members[name] : undefined;
    if (value === undefined || value === null) return undefined;
    const found = read(value);
    if (found === undefined) throw fault(this.#code, name);
    return found;
  }

  /** A member that must be there. */
  required<T>(name: string, read: (value: unknown) => T | undefined): T {
    const found = this.optional(name, read);
    if (found === undefined) throw fault(this.#code, name);
    return found;
  }
}

/** Returns the error of a message, or of its member `field`, that is not of its form. */
export function fault(code: FaultCode, field?: string): SealwayError {
  const what =
    field === undefined ? "the message is no JSON object" : `the member ${field} is not of its form`;
  return new SealwayError(code, what, field === undefined ? {} : { field });
}

/** A text of a form. */
export function textOf(form: RegExp): (value: unknown) => string | undefined {
  return (value) => (typeof value === "string" && form.test(value) ? value : undefined);
}

/** A text of at most so many bytes that is not empty: a transcript could not tell that from none. */
export function shortText(lengthMax: number): (value: unknown) => string | undefined {
  return (value) =>
    typeof value === "string" && value !== "" && utf8(value).length <= lengthMax ? value : undefined;
}

/** Bytes in base64, so many. */
export function bytesOf(most = Infinity, least = 1): (value: unknown) => Bytes | undefined {
  return (value) => {
    const found = typeof value === "string" ? fromBase64(value) : undefined;
    return found && found.length >= least && found.length <= most ? found : undefined;
  };
}

/** A whole number up to `top`. */
export function wholeUpTo(top: number): (value: unknown) => number | undefined {
  return (value) => (isWhole(value, top) ? value : undefined);
}

/** Different texts of a form, so many. */
export function namesOf(form: RegExp, least: number, most: number): (value: unknown) => string[] | undefined {
  return (value) => {
    if (!Array.isArray(value) || value.length < least || value.length > most) return undefined;
    if (!value.every((part) => typeof part === "string" && form.test(part))) return undefined;
    return new Set(value).size === value.length ? (value as string[]) : undefined;
  };
}
