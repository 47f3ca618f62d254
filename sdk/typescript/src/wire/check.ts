/** Checks of options, outside of the client of sessions, whose size counts. */

/** Describes a value without showing a text, which may be a secret. */
function shown(value: unknown): string {
  if (typeof value === "number") return String(value);
  if (value === null || value === undefined) return value === null ? "null" : "absent";
  return value === "" ? "empty" : Array.isArray(value) ? "an array" : `of the type ${typeof value}`;
}

/** Checks options one after the other; what is wrong is the error that `wrong` makes, with the option's name and what it should be. */
export class Check {
  readonly #wrong: (message: string) => Error;

  constructor(wrong: (message: string) => Error) {
    this.#wrong = wrong;
  }

  /** A value that must be there. */
  needs(holds: boolean, name: string, value: unknown, what: string): void {
    if (!holds) throw this.#wrong(`${name} is ${shown(value)}: give ${what}`);
  }

  /** An object that must be there. */
  object(value: unknown, name: string, what = "an object"): void {
    this.needs(typeof value === "object" && value !== null && !Array.isArray(value), name, value, what);
  }

  /** Members that are functions, or absent. */
  functions<T extends object>(members: T, ...names: (keyof T & string)[]): void {
    for (const name of names) {
      const value = members[name];
      this.needs(
        value === undefined || typeof value === "function",
        name,
        value,
        "a function, or leave it out",
      );
    }
  }

  /** Members that are texts with something in them, or absent. */
  texts<T extends object>(members: T, ...names: (keyof T & string)[]): void {
    for (const name of names) {
      const value = members[name];
      const holds = value === undefined || (typeof value === "string" && value !== "");
      this.needs(holds, name, value, "a text, or leave it out");
    }
  }

  /** Members that are numbers from `least` up, fractions among them unless `isWhole`, or absent. */
  numbers<T extends object>(
    members: T,
    least: number,
    isWhole: boolean,
    ...names: (keyof T & string)[]
  ): void {
    for (const name of names) {
      const value = members[name];
      const holds = typeof value === "number" && value >= least && (!isWhole || Number.isSafeInteger(value));
      const what = `a ${isWhole ? "whole " : ""}number from ${least} up, or leave it out`;
      this.needs(value === undefined || holds, name, value, what);
    }
  }

  /** A signal that takes something back, or none. */
  signal(value: unknown): void {
    const holds =
      value === undefined ||
      typeof (value as { addEventListener?: unknown } | null)?.addEventListener === "function";
    this.needs(holds, "signal", value, "an AbortSignal, or leave it out");
  }
}
