/** Runs a folder of vectors with vitest: every file of it, and none that is not known. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { nodeProvider } from "../../src/crypto/node.js";
import type { Provider } from "../../src/crypto/provider.js";
import { givenWebProvider } from "./given.js";
import { type Json, track } from "./scenario.js";

const VECTORS = fileURLToPath(new URL("../../../../vectors/", import.meta.url));

export function runFolder(
  folder: string,
  types: Readonly<Record<string, (provider: Provider, s: Json) => Promise<void>>>,
  skipped: readonly string[] = [],
): void {
  const files = readdirSync(join(VECTORS, folder)).sort();
  describe.each([nodeProvider, givenWebProvider])("vectors of %s".replace("%s", folder), (provider) => {
    const ran = new Map<string, number>();
    it(`all pass with ${provider.name}`, { timeout: 300_000 }, async () => {
      const faults: string[] = [];
      for (const file of files) {
        const value = JSON.parse(readFileSync(join(VECTORS, folder, file), "utf8")) as Json;
        const count = () => ran.set(value["type"], (ran.get(value["type"]) ?? 0) + 1);
        if (skipped.includes(value["type"])) {
          count();
          continue;
        }
        const run = types[value["type"]];
        if (run === undefined) {
          faults.push(`${file}: unknown type ${value["type"]}`);
          continue;
        }
        const { scenario, unread } = track(value);
        for (const name of ["type", "name", "comment", "spec"]) scenario[name];
        try {
          await run(provider, scenario);
          if (unread().length > 0) throw new Error(`members not read: ${unread().join(" ")}`);
          count();
        } catch (error) {
          faults.push(`${file}: ${error instanceof Error ? error.message : String(error)}`);
        }
      }
      expect(faults).toEqual([]);
      for (const type of [...Object.keys(types), ...skipped])
        expect(ran.get(type) ?? 0, type).toBeGreaterThan(0);
      const note = skipped.length > 0 ? `; skipped: ${skipped.join(", ")}` : "";
      console.log(
        `${folder} with ${provider.name}: ${files.length} files, ${JSON.stringify(Object.fromEntries(ran))}${note}`,
      );
    });
  });
}
