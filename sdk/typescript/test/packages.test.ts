/** The three packages as they are packed: each holds what it imports, and depends on nothing else. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

function run(folder: string, command: string, ...args: string[]): string {
  const done = spawnSync(command, args, { cwd: folder, encoding: "utf8" });
  expect(done.status, done.stderr).toBe(0);
  return done.stdout;
}

it.each([
  [".", ["@noble/curves", "@noble/post-quantum"]],
  ["channel", ["@noble/ciphers", "@noble/curves", "@noble/hashes", "@noble/post-quantum", "ws"]],
  ["broker", ["@grpc/grpc-js", "@grpc/proto-loader"]],
])("the package in %s has only the dependencies %j", (name, expected) => {
  const folder = join(ROOT, name);
  if (name !== ".") run(folder, process.execPath, "../stage.mjs");
  const { dependencies, exports, bin = {} } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const [packed] = JSON.parse(run(folder, "npm", "pack", "--dry-run", "--json", "--ignore-scripts"));
  const files = new Set<string>(packed.files.map(({ path }: { path: string }) => path));
  const entries = Object.values<string | Record<string, string>>({ ...exports, ...bin }).flatMap((entry) =>
    Object.values(typeof entry === "string" ? [entry] : entry),
  );
  for (const entry of entries) expect(files).toContain(entry.replace(/^\.\//, ""));
  const imported = new Set<string>();
  for (const file of files) {
    if (!/\.(?:js|d\.ts)$/.test(file)) continue;
    const text = readFileSync(join(folder, file), "utf8");
    for (const [, fixed, lazy] of text.matchAll(
      /^(?:import|export|\}) .*?from "([^"]+)";$|import\("([^"]+)"\)/gm,
    )) {
      const from = fixed ?? lazy ?? "";
      if (from.startsWith(".")) expect(files).toContain(join(dirname(file), from));
      else if (!from.startsWith("node:") && file.endsWith(".js"))
        imported.add(/^(?:@[^/]+\/)?[^/]+/.exec(from)?.[0] ?? from);
    }
  }
  expect(Object.keys(dependencies)).toEqual(expected);
  expect([...imported].sort()).toEqual(expected);
});
