// Packs the package, installs it into an empty folder as a stranger would, and runs what the README shows there.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const binary = process.env.SEALWAY_BIN || fileURLToPath(new URL("../../target/debug/sealway", import.meta.url));
if (!existsSync(binary)) throw new Error(`${binary} is not there: build sealway, or set SEALWAY_BIN`);
const folder = mkdtempSync(join(tmpdir(), "sealway-package-"));
const npm = (cwd, ...args) => {
  // What comes over a network may fail once.
  for (let left = args[0] === "install" ? 3 : 1; left > 0; left--) {
    const done = spawnSync("npm", args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
    if (done.status === 0) return done.stdout;
  }
  throw new Error(`npm ${args.join(" ")} failed`);
};
const readme = readFileSync(join(here, "README.md"), "utf8");
const shown = (name) => new RegExp("```js file=" + name + "\\n([\\s\\S]*?)```").exec(readme)[1];

let demo;
try {
  const [packed] = JSON.parse(npm(here, "pack", "--json", "--pack-destination", folder));
  console.log(`${packed.filename}: ${packed.size} bytes, ${packed.entryCount} files`);
  npm(folder, "init", "-y");
  npm(folder, "pkg", "set", "type=module");
  npm(folder, "install", "--prefer-offline", "--no-audit", "--no-fund", join(folder, packed.filename), "typescript@7.0.2", "@types/node@20.19.9");
  writeFileSync(join(folder, "call.js"), shown("call.js"));
  writeFileSync(
    join(folder, "types.ts"),
    `import { createClient, type SessionInfo } from "sealway";
import { sealedFetch, MemoryStore } from "sealway/server";
const client = createClient({ url: "https://example.test", trust: { pins: [] } });
export const info: Promise<SessionInfo> = client.connect();
export const handler = sealedFetch({ store: new MemoryStore(), routes: [] }, () => new Response("ok"));
`,
  );
  const checked = spawnSync(
    "npx",
    ["tsc", "--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2023,dom,dom.iterable", "--types", "node", "types.ts"],
    { cwd: folder, encoding: "utf8" },
  );
  if (checked.status !== 0) throw new Error(`its types do not hold: ${checked.stdout}`);
  demo = spawn(binary, ["demo", "--port", "0"], { stdio: ["ignore", "pipe", "ignore"] });
  const [, url, pin] = await new Promise((resolve, reject) => {
    let said = "";
    demo.stdout.on("data", (part) => {
      said += part;
      const found = /call POST (http:\/\/[^/]+)\/\S+ --pin (\w+)/.exec(said);
      if (found !== null) resolve(found);
    });
    demo.on("exit", () => reject(new Error(`the demo ended: ${said}`)));
  });
  const called = spawnSync(process.execPath, ["call.js", pin], {
    cwd: folder,
    encoding: "utf8",
    env: { ...process.env, SESSION_URL: url },
  });
  if (called.status !== 0 || !called.stdout.includes("SUCCESS")) throw new Error(`call.js: ${called.stdout}${called.stderr}`);
  console.log(`call.js of the README: ${called.stdout.split("\n", 1)[0]}`);
  console.log("the package installs, its types hold, and the README's call goes through");
} finally {
  demo?.kill("SIGTERM");
  rmSync(folder, { recursive: true, force: true });
}
