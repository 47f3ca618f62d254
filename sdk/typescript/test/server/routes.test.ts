/** The rule sets, targets and decisions of `vectors/routes`. */
import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { Gate, MemoryStore, type Route } from "../../src/server/index.js";

type Named = { readonly exact?: string; readonly prefix?: string; readonly sealed: Route["mode"] };
type Vector = { readonly name: string; readonly rules: readonly Named[] } & (
  | { readonly type: "routes"; readonly cases: readonly { target: string; decision: string }[] }
  | { readonly type: "routes-rejected"; readonly rule: number; readonly reason: "path" | "unreachable" }
);

const FOLDER = new URL("../../../../vectors/routes/", import.meta.url);
const all = readdirSync(FOLDER).map(
  (file) => JSON.parse(readFileSync(new URL(file, FOLDER), "utf8")) as Vector,
);
const sets = all.flatMap((each) => (each.type === "routes" ? [each] : []));
const rejected = all.flatMap((each) => (each.type === "routes-rejected" ? [each] : []));

const gateOf = (rules: readonly Named[], onRefusal?: (refused: { code: string }) => void) => {
  const routes = rules.map(({ exact, prefix, sealed }) => ({ path: exact ?? `${prefix}*`, mode: sealed }));
  return new Gate({ store: new MemoryStore(), routes, ...(onRefusal && { onRefusal }) });
};

/** From what is done with a plain request, and with one that carries a header of a seal. */
function deciding(rules: readonly Named[]): (target: string) => Promise<string> {
  let code = "";
  const gate = gateOf(rules, (refused) => {
    code = refused.code;
  });
  return async (target) => {
    const open = (headers: [string, string][]) =>
      gate.open({ method: "POST", target, headers, body: undefined });
    if ((await open([])).kind === "plain") {
      return (await open([["X-Kid", "S-x"]])).kind === "plain" ? "plain" : "optional";
    }
    return code === "disguised_path" ? "refused" : "sealed";
  };
}

it.each(sets)("each target has the decision of its vector: $name", async ({ rules, cases }) => {
  const decision = deciding(rules);
  const wrong: string[] = [];
  for (const { target, decision: meant } of cases) {
    const made = await decision(target);
    if (made !== meant) wrong.push(`${target}: ${made}, not ${meant}`);
  }
  expect(wrong).toEqual([]);
});

it.each(rejected)("a wrong rule is an error that names it: $name", ({ rules, rule, reason }) => {
  gateOf(rules.slice(0, rule));
  expect(() => gateOf(rules)).toThrow(reason === "path" ? /a route's path begins with/ : /never reached/);
});

it("plays all vectors", () => {
  expect(sets.length + rejected.length).toBe(all.length);
  expect(sets.flatMap(({ cases }) => cases).length).toBeGreaterThan(300);
});
