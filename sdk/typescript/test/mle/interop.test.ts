/** Messages of the command line, which is another implementation, and back. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { MleCodec, type MleEnc, type MleOptions, OpeningKey, SealingKey } from "../../src/mle/index.js";
import { binary } from "../sealway.js";
import { makePair } from "./forge.js";

const pair = makePair();
let folder = "";
const file = (name: string) => join(folder, name);
const sealway = (input: Uint8Array | string, ...args: string[]) =>
  execFileSync(binary(), ["mle", ...args], { input, stdio: ["pipe", "pipe", "pipe"] });

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sealway-mle-"));
  writeFileSync(file("key.pem"), pair.privateKey);
  writeFileSync(file("certificate.pem"), pair.certificate);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it.each([
  ["mastercard-jwe", "A256GCM"],
  ["mastercard-jwe", "A192GCM"],
  ["mastercard-jwe", "A128CBC-HS256"],
  ["visa", "A128GCM"],
  ["visa-acceptance", "A256GCM"],
] as const)("%s with %s goes both ways", async (profile: MleOptions["profile"], enc: MleEnc) => {
  const kidFrom = "spki_sha256_hex";
  const seal = new SealingKey({ publicKey: pair.certificate, kidFrom, enc });
  const codec = new MleCodec({ profile, seal, open: [new OpeningKey({ ...pair, kidFrom })] });
  const text = '{"pan":"4111111111111111","amount":12.50,"name":"Zoë"}';
  const shared = ["--profile", String(profile), "--kid-from", kidFrom];
  for (const message of ["request", "answer"] as const) {
    const flags = [...shared, "--message", message];
    const theirs = sealway(text, "encrypt", ...flags, "--enc", enc, "--key", file("certificate.pem"));
    expect(Buffer.from(await codec.open(message, theirs)).toString()).toBe(text);
    const ours = await codec.seal(message, Buffer.from(text));
    expect(sealway(ours, "decrypt", ...flags, "--key", file("key.pem")).toString()).toBe(text);
  }
});

it("the names of a key are those of the command line", () => {
  const said = sealway("", "keys", file("certificate.pem")).toString();
  for (const kidFrom of [
    ...(["spki_sha256_hex", "certificate_sha256_hex", "certificate_sha256_base64"] as const),
    ...(["x5t_s256", "subject_serial_number", "jwk_thumbprint"] as const),
  ]) {
    const { kid } = new SealingKey({ publicKey: pair.certificate, kidFrom });
    expect(said).toMatch(new RegExp(`${kidFrom}\\W+${kid.replace(/[+]/g, "\\+")}`));
  }
});
