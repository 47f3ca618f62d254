/** The packages' types, as a program sees them that has neither the DOM's library nor `@types/node`, or only the latter. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TSC = join(ROOT, "node_modules", ".bin", "tsc");
let folder = "";

function check(types: string, ...entries: string[]): string {
  const uses = entries.map((entry, at) => `import * as x${at} from "${entry}"; export { x${at} };`);
  writeFileSync(join(folder, "uses.ts"), uses.join("\n"));
  const options = ["--ignoreConfig", "--noEmit", "--strict", "--module", "nodenext", "--target", "es2022"];
  const done = spawnSync(TSC, [...options, "--lib", "es2022", "--types", types, "uses.ts"], {
    cwd: folder,
    encoding: "utf8",
  });
  // What others have wrong in theirs is not ours.
  return done.stdout.replaceAll(/^(?:node_modules.(?!sealway)|\s).*\n/gm, "");
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sealway-types-"));
  const dist = join(folder, "dist");
  const built = spawnSync(TSC, ["-p", "tsconfig.build.json", "--outDir", dist], { cwd: ROOT });
  expect(built.status).toBe(0);
  for (const [name, from] of [
    ["sealway", "."],
    ["sealway-channel", "channel"],
    ["sealway-broker", "broker"],
  ] as const) {
    const own = join(folder, "node_modules", name);
    mkdirSync(own, { recursive: true });
    cpSync(join(ROOT, from, "package.json"), join(own, "package.json"));
    cpSync(dist, join(own, "dist"), { recursive: true });
  }
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("clients, channels and calls need no types of the platform", { timeout: 120_000 }, () => {
  expect(
    check("", "sealway", "sealway/one-shot", "sealway-channel", "sealway-channel/rpc", "sealway/errors"),
  ).toBe("");
});

it("parts for Node need the types of Node, and not those of the DOM", { timeout: 120_000 }, () => {
  for (const name of ["@types/node", "undici-types", "@grpc", "protobufjs", "long"]) {
    cpSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name), { recursive: true });
  }
  expect(
    check(
      "node",
      ...[
        "sealway",
        "sealway/one-shot",
        "sealway/server",
        "sealway/redis",
        "sealway/mle",
        "sealway-channel",
        "sealway-broker",
      ],
    ),
  ).toBe("");
});
