/** Key agreements and signatures of the platform on inputs that were made to break them. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { nodeProvider } from "../src/crypto/node.js";
import { givenWebProvider } from "./vectors/given.js";
import { runAgreements, runSignatures } from "./vectors/wycheproof.js";

const fileOf = (name: string) =>
  JSON.parse(readFileSync(new URL(`wycheproof/${name}.json`, import.meta.url), "utf8"));

describe.each([nodeProvider, givenWebProvider])("Wycheproof with $name", (provider) => {
  it.each([
    ["p256", 300],
    ["p384", 790],
    ["x25519", 300],
  ] as const)("agrees or rejects as expected on %s", { timeout: 300_000 }, async (curve, least) => {
    const { ran, faults } = await runAgreements(provider, curve, fileOf(curve));
    expect(faults).toEqual([]);
    expect(ran).toBeGreaterThanOrEqual(least);
  });

  it("verifies or rejects as expected by ES384", async () => {
    const { ran, faults } = await runSignatures(provider, fileOf("es384"));
    expect(faults).toEqual([]);
    expect(ran).toBe(280);
  });
});
