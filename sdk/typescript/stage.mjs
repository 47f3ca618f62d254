// Copies to ./dist what the entries of the package in the working folder import of the common build (../dist).
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

const { bin = {}, exports } = JSON.parse(readFileSync("package.json", "utf8"));
const entries = [...Object.values(bin), ...Object.values(exports).flatMap(({ default: file = [] }) => file)];
const staged = new Set();

function stage(file) {
  if (staged.has(file) || !existsSync(join("..", file))) return;
  staged.add(file);
  mkdirSync(dirname(file), { recursive: true });
  copyFileSync(join("..", file), file);
  if (file.endsWith(".js")) stage(file.replace(/js$/, "d.ts"));
  for (const [, path] of readFileSync(file, "utf8").matchAll(/(?:from |import\()"(\.[^"]+)"/g))
    stage(join(dirname(file), path));
}

rmSync("dist", { recursive: true, force: true });
for (const entry of entries) stage(normalize(entry));
copyFileSync("../LICENSE", "LICENSE");
