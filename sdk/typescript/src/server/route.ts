/** Which rule a path is of, and whether it is another spelling of a sealed one (`spec/routes.md`). */
import { SealwayError } from "../wire/error.js";
import { formsOf } from "./canonical.js";
import type { Route } from "./options.js";

/** A route, looked through. */
export interface Rule extends Required<Route> {
  /** The path without its `*`. */
  readonly start: string;
  readonly isPrefix: boolean;
  readonly form: string;
}

const BODY_MAX = 1024 * 1024;
/** Of a path that no rule names. */
const UNNAMED = ruleOf({ path: "/*", sealed: "required" });

/**
 * The rules of routes, in their order.
 *
 * @throws {SealwayError} `configuration`: a path without a canonical form, or a rule that is never reached.
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

/** The longest sealed body that a route takes, in bytes. */
export function longestBody(rules: readonly Rule[]): number {
  return Math.max(BODY_MAX, ...rules.map(({ bodyMax }) => bodyMax));
}

function ruleOf(route: Route): Rule {
  const { path, sealed } = route;
  if (!String(path).startsWith("/") || !["required", "optional", "off"].includes(sealed)) {
    throw wrong(`a route's path begins with / and is sealed "required", "optional" or "off": ${path}`);
  }
  const isPrefix = path.endsWith("*");
  const start = isPrefix ? path.slice(0, -1) : path;
  const [form, bare] = /^[!"$->@-~]+$/.test(start) ? (formsOf(start) ?? []) : [];
  if (form === undefined || bare !== undefined || (form === "" && start !== "/")) {
    throw wrong(
      `a route's path begins with one /, has visible ASCII characters alone, no query, no fragment, no .. segment and no control character, and its escapes are UTF-8: ${path}`,
    );
  }
  return { bodyMax: BODY_MAX, ...route, start, isPrefix, form };
}

function wrong(message: string): SealwayError {
  return new SealwayError("configuration", message, { blame: "caller" });
}

/** The rule of a path, as sent and without its query; none where it is refused. */
// SPEC routes.md#decision
export function ruleFor(rules: readonly Rule[], path: string): Rule | undefined {
  const found = rules.find((rule) => names(rule, path)) ?? UNNAMED;
  if (found.sealed === "required" || !found.isPrefix) return found;
  const hasSealed =
    rules.some(({ sealed }) => sealed === "required") || !rules.some((rule) => rule.path === "/*");
  if (!hasSealed) return found;
  return formsOf(path)?.every((form) => leadsToPlain(rules, form)) === true ? found : undefined;
}

function names({ start, isPrefix }: Rule, path: string): boolean {
  return isPrefix ? path.startsWith(start) : path === start;
}

/** Whether a form is of a rule that is not `required`, and of no such rule that is as narrow. */
function leadsToPlain(rules: readonly Rule[], form: string): boolean {
  let longest = -1;
  for (const rule of rules) {
    if (!matches(rule, form)) continue;
    const length = new TextEncoder().encode(rule.form).length;
    if (rule.sealed === "required" && length >= longest) return false;
    if (rule.sealed !== "required" && rule.isPrefix) longest = Math.max(longest, length);
  }
  return longest >= 0;
}

function matches({ start, isPrefix, form: own }: Rule, form: string): boolean {
  return form === own || (isPrefix && form.startsWith(start.endsWith("/") ? `${own}/` : own));
}
