/** Key agreements of the platform on inputs that were made to break them. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { nodeProvider } from "../src/crypto/node.js";
import { givenWebProvider } from "./vectors/given.js";
import { type Agreements, runAgreements } from "./vectors/wycheproof.js";

describe.each([nodeProvider, givenWebProvider])("Wycheproof with $name", (provider) => {
  it.each(["p256", "x25519"] as const)("agrees or rejects as expected on %s", async (curve) => {
    const file = JSON.parse(
      readFileSync(new URL(`wycheproof/${curve}.json`, import.meta.url), "utf8"),
    ) as Agreements;
    const { ran, faults } = await runAgreements(provider, curve, file);
    expect(faults).toEqual([]);
    expect(ran).toBeGreaterThan(300);
  });
});
