/** What the test in a browser runs there. */
import type { Provider } from "../../src/crypto/provider.js";
import { createClient, memoryTrustStore } from "../../src/index.js";
import { COMPAT } from "../vectors/compat.js";
import { givenWebProvider } from "../vectors/given.js";
import { NATIVE } from "../vectors/native.js";
import { ONE_SHOT, SERVER_ALONE } from "../vectors/one-shot.js";
import { type Json, track } from "../vectors/scenario.js";
import { type Agreements, runAgreements } from "../vectors/wycheproof.js";

const TYPES: Readonly<
  Record<string, Readonly<Record<string, (provider: Provider, s: Json) => Promise<void>>>>
> = {
  session: COMPAT,
  session3: NATIVE,
  "one-shot": ONE_SHOT,
};

async function vectors(folder: string): Promise<{ ran: Record<string, number>; faults: string[] }> {
  const all = (await (await fetch(`/vectors/${folder}`)).json()) as Json[];
  const ran: Record<string, number> = {};
  const faults: string[] = [];
  for (const value of all) {
    const isSkipped = folder === "one-shot" && SERVER_ALONE.includes(value["type"]);
    const run = TYPES[folder]?.[value["type"]];
    const { scenario } = track(value);
    try {
      if (run === undefined && !isSkipped) throw new Error("unknown type");
      await run?.(givenWebProvider, scenario);
      ran[value["type"]] = (ran[value["type"]] ?? 0) + 1;
    } catch (error) {
      faults.push(`${value["name"]}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return { ran, faults };
}

async function agreements(curve: "p256" | "p384" | "x25519") {
  return runAgreements(
    givenWebProvider,
    curve,
    (await (await fetch(`/wycheproof/${curve}.json`)).json()) as Agreements,
  );
}

async function purchase(url: string, pin: string) {
  const client = createClient({
    url,
    trust: pin === "" ? { firstUse: memoryTrustStore() } : { pins: [pin] },
  });
  const response = await client.fetch("/transaction/purchase", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ schemeCode: "AEF", amount: 5000 }),
  });
  const body = await response.json();
  const suite = client.session?.suite;
  await client.end();
  return { status: response.status, body, suite };
}

Object.assign(globalThis, { sealwayTest: { vectors, agreements, purchase } });
