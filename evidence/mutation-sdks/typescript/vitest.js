// The part of Vitest's interface that the tests of runner.js use, with Vitest's own `expect`.
import {
  ASYMMETRIC_MATCHERS_OBJECT,
  chai,
  GLOBAL_EXPECT,
  JestAsymmetricMatchers,
  JestChaiExpect,
  JestExtend,
  setState,
} from "@vitest/expect";

chai.use(JestExtend);
chai.use(JestChaiExpect);
chai.use(JestAsymmetricMatchers);

export const expect = (value, message) => chai.expect(value, message);
Object.assign(expect, chai.expect, globalThis[ASYMMETRIC_MATCHERS_OBJECT]);
globalThis[GLOBAL_EXPECT] = expect;
setState({ assertionCalls: 0, isExpectingAssertions: false, expectedAssertionsNumber: null }, expect);

let tests = [];
const names = new Set();
const path = [];

/** Returns the tests that were declared since the last call. */
export function take() {
  const taken = tests;
  tests = [];
  names.clear();
  path.length = 0;
  return taken;
}

export function describe(name, body) {
  path.push(name);
  body();
  path.pop();
}

export function it(name, ...args) {
  const body = args.find((arg) => typeof arg === "function");
  tests.push({ name: unique([...path, name].join(" ")), body: async () => body() });
}

describe.each = (rows) => (name, body) => rows.forEach((row, at) => describe(titled(name, row, at), () => body(...parts(row))));
it.each = (rows) => (name, ...args) => {
  const body = args.find((arg) => typeof arg === "function");
  rows.forEach((row, at) => it(titled(name, row, at), () => body(...parts(row))));
};

const parts = (row) => (Array.isArray(row) ? row : [row]);
const titled = (name, row, at) => `${name.replace("$name", row?.name).replace("%s", String(parts(row)[0]))} #${at}`;

function unique(name) {
  const found = names.has(name) ? unique(`${name}'`) : name;
  names.add(found);
  return found;
}
