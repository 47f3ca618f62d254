/** Starts the server that the tests talk to: `SEALWAY_BIN`, else the one that was built in this repository. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const SECRET = "a-secret-of-tests-alone-0123456789";

export interface Running {
  readonly url: string;
  readonly secret: string;
  readonly secretFile: string;
  /** The id of its identity key. */
  readonly pin: string;
  stop(): Promise<void>;
}

export function binary(): string {
  const built = fileURLToPath(new URL("../../../target/debug/sealway", import.meta.url));
  const path = process.env["SEALWAY_BIN"] || built;
  if (!existsSync(path)) throw new Error(`${path} is not there: build sealway, or set SEALWAY_BIN`);
  return path;
}

/**
 * Sessions, the authority's endpoints, and the demo service behind a sealed route, on one port; pages of `origin` may use it.
 * `sessions` are more lines of that section.
 */
export async function startSealway(origin = "http://127.0.0.1:1", sessions: string[] = []): Promise<Running> {
  const folder = mkdtempSync(join(tmpdir(), "sealway-ts-"));
  const secretFile = join(folder, "peers.secret");
  writeFileSync(secretFile, `${SECRET}\n`, { mode: 0o600 });
  const { url, stop } = await startServe(
    folder,
    `listeners: [{ address: "127.0.0.1:0" }]
routes:
  - match: { path_prefix: ["/session/", "/v1/", "/v3/"], path: ["/.well-known/sealway-keys", "/health", "/ready"] }
    sessions: {}
  - match: { path_prefix: "/transaction/" }
    sealed: required
    upstream: shop
upstreams:
  shop: { servers: ["demo:"] }
sessions:
  identity: { allow_generated: true, key_file: "identity.keys" }
  authority_secret_file: "peers.secret"
${sessions.map((line) => `  ${line}\n`).join("")}cors: { origins: ["${origin}"] }
telemetry: { log_format: json, log_level: info }
`,
  );
  const set = await (await fetch(`${url}/.well-known/sealway-keys`)).json();
  return { url, secret: SECRET, secretFile, pin: set.keys[0].key_id, stop };
}

/** Serves a configuration that logs in JSON, in a folder that is removed at the end. */
export async function startServe(
  folder: string,
  config: string,
): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const file = join(folder, "serve.yaml");
  writeFileSync(file, config);
  const child = spawn(binary(), ["serve", "--config", file], { stdio: ["ignore", "ignore", "pipe"] });
  const stop = async (): Promise<void> => {
    await stopped(child);
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const at = await listening(child, /"message":"serving".*"addresses":"\[([0-9.:]+)/, "stderr");
    return { url: `http://${at}`, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Waits until a program says where it listens. */
export function listening(child: ChildProcess, form: RegExp, where: "stdout" | "stderr"): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = "";
    const timer = setTimeout(() => reject(new Error(`it does not say where it listens: ${said}`)), 45_000);
    child[where]?.on("data", (part) => {
      said = (said + part).slice(-20_000);
      const found = form.exec(said)?.[1];
      if (found === undefined) return;
      clearTimeout(timer);
      resolve(found);
    });
    child.on("exit", (code) => reject(new Error(`it ended with ${code}: ${said}`)));
  });
}

export function stopped(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    child.on("exit", () => resolve());
    child.kill("SIGTERM");
    setTimeout(() => child.kill("SIGKILL"), 5000).unref();
  });
}
