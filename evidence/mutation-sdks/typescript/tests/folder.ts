/** Runs a folder of vectors, each vector as a test of its own, so that a mutant meets the vectors that reach it alone. */
import { readdirSync, readFileSync } from "node:fs";
import { it } from "vitest";
import { nodeProvider } from "../../src/crypto/node.js";
import type { Provider } from "../../src/crypto/provider.js";
import { type Json, track } from "../vectors/scenario.js";

type Types = Readonly<Record<string, (provider: Provider, s: Json) => Promise<void>>>;

export function eachVector(name: string, types: Types, skipped: readonly string[] = []): void {
  const folder = new URL(`../../../../vectors/${name}/`, import.meta.url);
  for (const file of readdirSync(folder).sort()) {
    it(`${name}/${file}`, async () => {
      const value = JSON.parse(readFileSync(new URL(encodeURIComponent(file), folder), "utf8")) as Json;
      if (skipped.includes(value["type"])) return;
      const run = types[value["type"]];
      if (run === undefined) throw new Error(`unknown type ${value["type"]}`);
      await run(nodeProvider, track(value).scenario);
    });
  }
}
