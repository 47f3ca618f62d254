// Builds the page once more, into a temporary folder, and compares it byte for byte with the dist/ that is committed.

import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "vite";

const root = fileURLToPath(new URL(".", import.meta.url));
const committed = path.join(root, "dist");
const fresh = await mkdtemp(path.join(tmpdir(), "sealway-dist-"));

async function files(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const names = entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)));
  return new Map(await Promise.all(names.sort().map(async (name) => [name, await readFile(path.join(folder, name))])));
}

try {
  await build({ root, logLevel: "warn", build: { outDir: fresh, emptyOutDir: true } });
  const [is, should] = await Promise.all([files(committed), files(fresh)]);
  const names = new Set([...is.keys(), ...should.keys()]);
  const wrong = [...names].filter((name) => !(is.has(name) && should.has(name) && is.get(name).equals(should.get(name))));
  for (const [name, content] of is)
    console.log(`${name}: ${content.length} bytes, ${gzipSync(content, { level: 9 }).length} gzip`);
  if (wrong.length > 0) {
    console.error(`dist/ is not what the sources give: ${wrong.join(", ")}. Run \`npm run build\` here and commit dist/.`);
    process.exitCode = 1;
  } else {
    console.log(`dist/ is what the sources give: ${is.size} files`);
  }
} finally {
  await rm(fresh, { recursive: true, force: true });
}
