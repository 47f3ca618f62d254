import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const SRC = fileURLToPath(new URL("../../src/channel/", import.meta.url));
/** What talks to the world: all else takes time and randomness as arguments. */
const SHELL = new Set([
  "benchmark.ts",
  "channel.ts",
  "check.ts",
  "connect.ts",
  "control.ts",
  "identity.ts",
  "reconnect.ts",
  "websocket.ts",
  "index.ts",
]);
const FORBIDDEN =
  /\bDate\b|Math\.random|getRandomValues|randomUUID|\bfetch\(|\bperformance\b|setTimeout|setInterval|WebSocket|\bprocess\b|from "node:|import\(/;
/** Types are not there when it runs. */
const TYPES = /import type [^;]*;/g;

const core = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter(
  (name) => name.endsWith(".ts") && !SHELL.has(name) && name !== "platform.ts",
);

it.each(core)("%s mentions no clock, randomness or network, and nothing that does", (name) => {
  const source = readFileSync(`${SRC}${name}`, "utf8")
    .replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "")
    .replaceAll(TYPES, "");
  expect(source).not.toMatch(FORBIDDEN);
  for (const [, from] of source.matchAll(/import [^;]*? from "([^"]+)"/g)) {
    expect(SHELL.has(from!.replace(/^.*\//, "").replace(/js$/, "ts")), from).toBe(false);
  }
});
