/** Environment of the example programs, the same in all languages. */
import {
  type CallMetrics,
  type Client,
  createClient,
  memoryTrustStore,
  type SessionInfo,
  type Trust,
  type Wire,
} from "../index.js";

/** The call that the examples make. */
export const PURCHASE = { schemeCode: "AEF", amount: 5000 };

/** Ends the program: an argument or a variable cannot be used. */
export function stop(what: string): never {
  console.error(what);
  process.exit(2);
}

export function urlOf(name: string, fallback: string): string {
  const text = process.env[name] || fallback;
  if (!URL.canParse(text) || !/^https?:/.test(text)) stop(`${name} is no http(s) URL: ${text}`);
  return text;
}

export function wholeOf(name: string, text: string, least: number, most: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < least || value > most) {
    stop(`${name} is a whole number from ${least} to ${most}, not ${text}`);
  }
  return value;
}

export interface Environment {
  readonly sessionUrl: string;
  readonly serverUrl: string;
  readonly wire: Wire;
  readonly trust: Trust;
  readonly clientId: string;
}

export function environment(): Environment {
  const sessionUrl = urlOf("SESSION_URL", "http://localhost:3000");
  const wire = wholeOf("SEALWAY_WIRE", process.env["SEALWAY_WIRE"] || "3", 1, 3) as Wire;
  const pins = (process.env["SEALWAY_PINS"] ?? "").split(",").flatMap((pin) => pin.trim() || []);
  for (const pin of pins) {
    if (!/^(?:[0-9a-f]{32}|[A-Za-z0-9+/]{87}=)$/.test(pin))
      stop("SEALWAY_PINS holds what is no key id and no public key");
  }
  if (pins.length === 0 && wire === 3) {
    console.error(
      "SEALWAY_PINS is not set: the first key that answers is trusted. Pin the service's key outside of a trial.",
    );
  }
  return {
    sessionUrl,
    serverUrl: urlOf("SERVER_URL", sessionUrl),
    wire,
    trust: pins.length > 0 ? { pins } : { firstUse: memoryTrustStore() },
    clientId: process.env["SEALWAY_CLIENT_ID"] || "sealway-typescript",
  };
}

export function clientOf(env: Environment, onMetrics?: (metrics: CallMetrics) => void): Client {
  const { sessionUrl: authorityUrl, serverUrl: url, wire, trust, clientId } = env;
  return createClient({ url, authorityUrl, wire, trust, clientId, ...(onMetrics && { onMetrics }) });
}

/** Makes the purchase; anything but 200 is an error. */
export async function purchase(client: Client, env: Environment): Promise<{ status: number; body: object }> {
  const response = await client.fetch(new URL("/transaction/purchase", env.serverUrl), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(PURCHASE),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`the service answered ${response.status}`);
  return { status: response.status, body: JSON.parse(text) as object };
}

/** Ends a session; that a service is gone by then is no failure. */
export async function finish(client: Client): Promise<void> {
  await client.end().catch(() => undefined);
}

export function described(session: SessionInfo): string {
  const suite = session.suite === undefined ? "" : ` by ${session.suite}`;
  return `${session.id} on wire ${session.wire}${suite}, for ${session.expiresInSec} s`;
}

/** Returns an error as one line. */
export function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = "code" in error ? `${String(error.code)}: ` : "";
  return `${code}${error.message}`;
}
