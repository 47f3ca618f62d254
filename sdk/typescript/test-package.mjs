// Packs the packages, installs them into an empty folder as a user does, and runs the programs of their READMEs there.
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
const shown = (name, folder = "") =>
  new RegExp("```js file=" + name + "\\n([\\s\\S]*?)```").exec(readFileSync(join(here, folder, "README.md"), "utf8"))[1];
const pack = (from) => {
  const [packed] = JSON.parse(npm(join(here, from), "pack", "--json", "--pack-destination", folder));
  console.log(`${packed.filename}: ${packed.size} bytes, ${packed.entryCount} files`);
  return join(folder, packed.filename);
};
const install = (...packages) => npm(folder, "install", "--prefer-offline", "--no-audit", "--no-fund", ...packages);

let demo;
try {
  npm(folder, "init", "-y");
  npm(folder, "pkg", "set", "type=module");
  install(pack("."));
  const foreign = ["ws", "@grpc", "redis", "ioredis"].filter((name) => existsSync(join(folder, "node_modules", name)));
  if (foreign.length > 0) throw new Error(`a client of sessions installs ${foreign}`);
  install(pack("channel"), pack("broker"), "typescript@7.0.2", "@types/node@20.19.9");
  writeFileSync(join(folder, "call.js"), shown("call.js"));
  writeFileSync(
    join(folder, "types.ts"),
    `import { createClient, type SessionInfo } from "sealway";
import { sealedFetch, MemoryStore } from "sealway/server";
export { KeyRetired, sealOnce } from "sealway/one-shot";
export { mleFetch } from "sealway/mle";
export { attach } from "sealway-channel";
export { Rpc } from "sealway-channel/rpc";
export { BrokerClient } from "sealway-broker";
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
  writeFileSync(join(folder, "echo.js"), shown("echo.js", "channel"));
  const echoed = spawnSync(process.execPath, ["echo.js"], { cwd: folder, encoding: "utf8" });
  if (echoed.status !== 0 || !echoed.stdout.includes("channel")) throw new Error(`echo.js: ${echoed.stdout}${echoed.stderr}`);
  const command = spawnSync("npx", ["sealway-broker", "--help"], { cwd: folder, encoding: "utf8" });
  if (command.status !== 0) throw new Error(`sealway-broker: ${command.stdout}${command.stderr}`);
  console.log("the packages install, their types hold, and the programs of their READMEs run");
} finally {
  demo?.kill("SIGTERM");
  rmSync(folder, { recursive: true, force: true });
}
