/** What the clients cost a page. */
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { expect, it } from "vitest";

it.each([
  ["client of sessions", "index.ts", 16.25],
  ["one-shot client", "one-shot/index.ts", 14.25],
])("the %s is under its bound, without lazily loaded parts", async (name, file, boundKib) => {
  const made = await build({
    entryPoints: [fileURLToPath(new URL(`../src/${file}`, import.meta.url))],
    bundle: true,
    minify: true,
    splitting: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    outdir: "/",
    write: false,
    metafile: true,
    logLevel: "error",
  });
  const sizes = new Map(
    made.outputFiles.map(({ path, contents }) => [path.slice(1), gzipSync(contents, { level: 9 }).length]),
  );
  // What the entry needs at once: itself and what it imports, and these import.
  const eager = new Set<string>();
  const visit = (path: string): void => {
    if (eager.has(path)) return;
    eager.add(path);
    for (const each of made.metafile.outputs[path]?.imports ?? []) {
      if (each.kind === "import-statement") visit(each.path);
    }
  };
  const entry = Object.keys(made.metafile.outputs).find(
    (path) => made.metafile.outputs[path]?.entryPoint !== undefined,
  );
  visit(entry ?? "");
  // A page that meets keys of ES256 alone loads no lattices.
  const sources = [...eager].flatMap((path) => Object.keys(made.metafile.outputs[path]?.inputs ?? {}));
  expect(sources.filter((path) => /@noble|ml-dsa|kem\.ts/.test(path))).toEqual([]);
  const named = [...eager].map((path) => sizes.get(path.split("/").at(-1) ?? "") ?? 0);
  const total = named.reduce((sum, size) => sum + size, 0);
  console.log(
    `${name}: ${total} bytes of gzip in ${eager.size} files; lazily: ${sizes.size - eager.size} files`,
  );
  expect(total).toBeGreaterThan(2000);
  expect(total).toBeLessThan(boundKib * 1024);
});
