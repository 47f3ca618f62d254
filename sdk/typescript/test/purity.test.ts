/** The core reaches no clock, no randomness and no network: it is given what it needs. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const SRC = fileURLToPath(new URL("../src/", import.meta.url));
/** The seam's two sides to the platform, which draw what the shell asks for, and to libraries. */
const PLATFORM = new Set(["crypto/web.ts", "crypto/node.ts", "crypto/kem.ts", "crypto/ml-dsa.ts"]);
const FORBIDDEN =
  /\bDate\b|Math\.random|getRandomValues|randomUUID|\bfetch\(|\bperformance\b|setTimeout|setInterval|XMLHttpRequest|WebSocket|\bprocess\b|from "node:|import\(/;

function sources(folder: string): string[] {
  return readdirSync(join(SRC, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => `${folder}/${name}`);
}

function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, "").replaceAll(/\/\/.*$/gm, "");
}

describe("the pure core", () => {
  const files = ["wire", "crypto", "session", "exchange"]
    .flatMap(sources)
    .filter((name) => !PLATFORM.has(name));

  it.each(files)("%s mentions no clock, randomness or network", (name) => {
    expect(withoutComments(readFileSync(join(SRC, name), "utf8"))).not.toMatch(FORBIDDEN);
  });

  it.each(files)("%s imports the core alone", (name) => {
    const imports = [...readFileSync(join(SRC, name), "utf8").matchAll(/from "([^"]+)"/g)].map(
      ([, from]) => from,
    );
    for (const from of imports) {
      expect(from).toMatch(/^\.{1,2}\//);
      expect(from).not.toMatch(/\/(?:client|server|channel|rpc|broker|driver|examples)\//);
      expect(from).not.toMatch(/crypto\/(?:web|node|kem|ml-dsa)\.js$/);
    }
  });
});
