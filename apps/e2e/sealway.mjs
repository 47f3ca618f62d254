// Starts the real binary with a configuration of its own in a temporary folder, and stops it by its process.

import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { access, constants, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const START_MS = 20_000;

async function binary() {
  const file = process.env.SEALWAY_BIN ?? path.join(ROOT, "target/debug/sealway");
  await access(file, constants.X_OK).catch(() => {
    throw new Error(`${file} is no program: build it with \`cargo build -p sealway-cli\`, or set SEALWAY_BIN`);
  });
  return file;
}

/**
 * `origins` may call; `ttlSec` is the life of each session; with `oneShot` it serves requests without a session too, over a store
 * in a file. Gives `url`, `pins`, `kids`, and `stop`, `start` for an outage.
 */
export async function sealway({ origins, ttlSec = 1800, oneShot = false, store = oneShot ? "file" : "memory" }) {
  const program = await binary();
  const folder = await mkdtemp(path.join(tmpdir(), "sealway-pages-"));
  if (oneShot) {
    const add = ["one-shot-keys", "add", "one-shot.keys", "--use", "hpke", "--kem", "x-wing"];
    await promisify(execFile)(program, add, { cwd: folder });
  }
  let child;
  let port = 0;

  async function start() {
    const config = `
listeners:
  - address: "127.0.0.1:${port}"
routes:
  - match: { path_prefix: ["/session/", "/v1/session/", "/v3/"], path: ["/.well-known/sealway-keys", "/health"] }
    sessions: {}
  - match: { path_prefix: "/transaction/" }
    sealed: ${oneShot ? "[session, hpke]" : "required"}
    upstream: shop
upstreams:
  shop: { servers: ["demo:"] }
sessions:
  identity: { allow_generated: true }
  ttl: { min_sec: ${Math.min(ttlSec, 300)}, max_sec: 3600, default_sec: ${ttlSec} }
${store === "file" ? '  store: "file:sessions.redb"\n  allow_generated_kek: true\n' : ""}${oneShot ? "one_shot: { keys: one-shot.keys }\n" : ""}cors:
  origins: ${JSON.stringify(origins)}
telemetry: { log_format: json, log_level: info }
`;
    await writeFile(path.join(folder, "serve.yaml"), config);
    child = spawn(program, ["serve", "--config", "serve.yaml"], { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
    let log = "";
    port = await new Promise((resolve, reject) => {
      const failed = () => reject(new Error(`sealway does not serve:\n${log}`));
      const timer = setTimeout(failed, START_MS);
      child.once("exit", failed);
      child.stderr.on("data", (chunk) => {
        log = (log + chunk).slice(-20_000);
        const found = log.match(/"message":"serving".*?"addresses":"\[[0-9.]+:(\d+)/);
        if (!found) return;
        clearTimeout(timer);
        child.off("exit", failed);
        resolve(Number(found[1]));
      });
    });
  }

  async function stop() {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
  }

  await start();
  const url = `http://127.0.0.1:${port}`;
  return {
    url,
    start,
    stop,
    /** The key ids that the service has now. */
    async pins() {
      const { keys } = await (await fetch(`${url}/.well-known/sealway-keys`)).json();
      return keys.map((key) => key.key_id);
    },
    /** The names of the keys for requests without a session. */
    async kids() {
      const { keys } = await (await fetch(`${url}/.well-known/sealway-hpke-keys`)).json();
      const name = (config) => createHash("sha256").update(Buffer.from(config, "base64")).digest("hex").slice(0, 32);
      return keys.map(({ config }) => `hpke:${name(config)}`);
    },
    async close() {
      if (child.exitCode === null && child.signalCode === null) await stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
