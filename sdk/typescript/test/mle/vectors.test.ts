/** The vectors of `vectors/mle/`: every file, and none of a type that is not known. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { genericJwe, MleCodec, type MleMessage, OpeningKey } from "../../src/mle/index.js";
import { type Json, track } from "../vectors/scenario.js";
import { classOf } from "./forge.js";

const FOLDER = fileURLToPath(new URL("../../../../vectors/mle/", import.meta.url));

/** Runs one scenario, and returns what is wrong. */
async function run(scenario: Json): Promise<string | undefined> {
  const { type, profile, message, now_ms: nowMs, key, body } = scenario as Json;
  const { private_key_pem: privateKey, alg, kid, certificate_pem: certificate } = key;
  const { algs, encs, iat } = scenario["generic"] ?? {};
  const codec = new MleCodec({
    profile: profile === "generic-jwe" ? genericJwe({ algs, encs, ...(iat && { iat }) }) : profile,
    open: [new OpeningKey({ privateKey, alg, kid, ...(certificate && { certificate }) })],
    now: () => nowMs,
  });
  const opening = codec.open(message as MleMessage, Buffer.from(body));
  if (type === "mle-open") {
    const opened = await opening;
    return Buffer.from(opened).toString("base64") === scenario["plaintext_base64"]
      ? undefined
      : "another plaintext";
  }
  if (type !== "mle-refused") return `unknown type ${type}`;
  const found = await classOf(opening);
  return found === scenario["class"] ? undefined : `${found} instead of ${scenario["class"]}`;
}

it("every vector opens or is refused with its class", { timeout: 120_000 }, async () => {
  const files = existsSync(FOLDER) ? readdirSync(FOLDER).filter((name) => name.endsWith(".json")) : [];
  expect(files.length, "vectors/mle is missing or empty").toBeGreaterThan(0);
  const faults: string[] = [];
  const types = new Map<string, number>();
  for (const file of files.sort()) {
    const { scenario, unread } = track(JSON.parse(readFileSync(join(FOLDER, file), "utf8")));
    for (const name of ["name", "comment", "spec"]) scenario[name];
    const fault = await run(scenario).catch(String);
    if (fault !== undefined) faults.push(`${file}: ${fault}`);
    else if (unread().length > 0) faults.push(`${file}: members not read: ${unread().join(" ")}`);
    types.set(scenario["type"], (types.get(scenario["type"]) ?? 0) + 1);
  }
  expect(faults).toEqual([]);
  for (const type of ["mle-open", "mle-refused"]) expect(types.get(type) ?? 0, type).toBeGreaterThan(0);
  console.log(`mle: ${files.length} files, ${JSON.stringify(Object.fromEntries(types))}`);
});
