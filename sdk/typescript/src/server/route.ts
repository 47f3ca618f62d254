/** Routes of paths, and the detection of other spellings of sealed paths (`spec/routes.md`). */
import { SealwayError, wants } from "../wire/error.js";
import { formsOf } from "./canonical.js";
import type { Route } from "./options.js";

/** A checked route. */
export interface Rule extends Route {
  /** The path without its `*`. */
  readonly start: string;
  readonly isPrefix: boolean;
  readonly form: string;
}

/** Applies to paths without a route. */
const UNNAMED = ruleOf({ path: "/*", mode: "required" });

/**
 * The rules of routes, in their order.
 *
 * @throws {SealwayError} `usage`: a path without a canonical form, or a rule that is never reached.
 */
// SPEC routes.md#rules
export function rulesOf(routes: readonly Route[]): readonly Rule[] {
  const rules: Rule[] = [];
  for (const route of routes) {
    const rule = ruleOf(route);
    const earlier = rules.find((each) => names(each, rule.start) && (each.isPrefix || !rule.isPrefix));
    if (earlier !== undefined) {
      throw wrong(
        `the route ${rule.path} is never reached: ${earlier.path} before it names all its paths; put ${rule.path} first`,
      );
    }
    rules.push(rule);
  }
  return rules;
}

function ruleOf(route: Route): Rule {
  const { path, mode } = route;
  wants(
    !("sealed" in route) && !("bodyMax" in route),
    "routes: use mode for sealed, bodyMaxBytes for bodyMax",
  );
  if (!String(path).startsWith("/") || !["required", "optional", "off"].includes(mode)) {
    throw wrong(`a route's path begins with / and its mode is "required", "optional" or "off": ${path}`);
  }
  const isPrefix = path.endsWith("*");
  const start = isPrefix ? path.slice(0, -1) : path;
  const [form, bare] = /^[!"$->@-~]+$/.test(start) ? (formsOf(start) ?? []) : [];
  if (form === undefined || bare !== undefined || (form === "" && start !== "/")) {
    throw wrong(
      `a route's path begins with one /, has visible ASCII characters alone, no query, no fragment, no .. segment and no control character, and its escapes are UTF-8: ${path}`,
    );
  }
  return { ...route, start, isPrefix, form };
}

function wrong(message: string): SealwayError {
  return new SealwayError("usage", message, { stage: "configuration" });
}

/** The rule of a path, as sent and without its query; none where it is refused. */
// SPEC routes.md#decision
export function ruleFor(rules: readonly Rule[], path: string): Rule | undefined {
  const found = rules.find((rule) => names(rule, path)) ?? UNNAMED;
  if (found.mode === "required" || !found.isPrefix) return found;
  const hasSealed =
    rules.some(({ mode }) => mode === "required") || !rules.some((rule) => rule.path === "/*");
  if (!hasSealed) return found;
  return formsOf(path)?.every((form) => leadsToPlain(rules, form)) === true ? found : undefined;
}

function names({ start, isPrefix }: Rule, path: string): boolean {
  return isPrefix ? path.startsWith(start) : path === start;
}

/** True if a form matches a rule that is not `required`, and no `required` rule that is as narrow. */
function leadsToPlain(rules: readonly Rule[], form: string): boolean {
  let longest = -1;
  for (const rule of rules) {
    if (!matches(rule, form)) continue;
    const length = new TextEncoder().encode(rule.form).length;
    if (rule.mode === "required" && length >= longest) return false;
    if (rule.mode !== "required" && rule.isPrefix) longest = Math.max(longest, length);
  }
  return longest >= 0;
}

function matches({ start, isPrefix, form: own }: Rule, form: string): boolean {
  return form === own || (isPrefix && form.startsWith(start.endsWith("/") ? `${own}/` : own));
}
