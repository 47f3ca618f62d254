/** Where the service is and which identity keys are trusted. */
export interface Config {
  /** Where sessions are agreed, without a slash at the end. */
  readonly sessionUrl: string;
  /** Where sealed calls go, without a slash at the end. */
  readonly serverUrl: string;
  /** Key ids or base64 public keys; empty means trust at first use. */
  readonly pins: readonly string[];
  /** Kids or key configurations for purchases without a session; absent where the page offers none. */
  readonly oneShotPins?: readonly string[];
}

/** The ports of the two development servers, behind which no service answers. */
const DEV_PORTS = new Set(["4200", "4201"]);
const DEV_SERVICE_PORT = "3000";
const CONFIG_BYTES_MAX = 16 * 1024;
const CONFIG_TIME_MS = 5000;
const PINS_MAX = 16;

/** A `config.json` that cannot be used; the message names the member. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

/** The service of a page at `pageUrl` that says nothing else: its own origin, or port 3000 for a development server. */
export function defaultService(pageUrl: string): string {
  const url = new URL(pageUrl);
  if (url.protocol !== "http:" && url.protocol !== "https:") return `http://localhost:${DEV_SERVICE_PORT}`;
  if (DEV_PORTS.has(url.port)) return `http://${url.hostname}:${DEV_SERVICE_PORT}`;
  return url.origin;
}

/** Reads what a `config.json` says; throws `ConfigError` at a member that is not of its form. */
export function parseConfig(text: string, pageUrl: string): Config {
  let members: unknown;
  try {
    members = JSON.parse(text);
  } catch {
    throw new ConfigError("config.json is not JSON");
  }
  if (typeof members !== "object" || members === null || Array.isArray(members)) {
    throw new ConfigError("config.json is not an object");
  }
  const { session_url, server_url, pins, one_shot_pins } = members as Record<string, unknown>;
  const sessionUrl = serviceUrl("session_url", session_url, defaultService(pageUrl), pageUrl);
  return {
    sessionUrl,
    serverUrl: serviceUrl("server_url", server_url, sessionUrl, pageUrl),
    pins: readPins("pins", pins, "leave it out to trust at first use"),
    ...(one_shot_pins !== undefined && {
      oneShotPins: readPins("one_shot_pins", one_shot_pins, "leave it out to offer no purchase without a session"),
    }),
  };
}

function serviceUrl(name: string, value: unknown, fallback: string, pageUrl: string): string {
  if (value === undefined || value === null || value === "") return fallback;
  if (typeof value !== "string" || !URL.canParse(value, pageUrl)) throw new ConfigError(`${name} is not a URL`);
  const url = new URL(value, pageUrl);
  if (url.protocol !== "http:" && url.protocol !== "https:") throw new ConfigError(`${name} is not an http(s) URL`);
  if (url.search || url.hash || url.username) throw new ConfigError(`${name} has more than origin and path`);
  return url.href.replace(/\/+$/, "");
}

function readPins(name: string, value: unknown, remedy: string): readonly string[] {
  if (value === undefined || value === null) return [];
  const isPin = (pin: unknown): pin is string => typeof pin === "string" && pin !== "" && pin.length <= 128;
  if (!Array.isArray(value) || !value.every(isPin)) throw new ConfigError(`${name} is not a list of key ids or keys`);
  if (value.length > PINS_MAX) throw new ConfigError(`${name} has more than ${PINS_MAX} keys`);
  // An empty list is a mistake that must not turn pinning off in silence.
  if (value.length === 0) throw new ConfigError(`${name} is empty: ${remedy}`);
  return value;
}

/** Fetches `config.json` beside the page. Where there is none (404, or a page in its place) the defaults hold. */
export async function loadConfig(pageUrl: string, get: typeof fetch = fetch): Promise<Config> {
  const address = new URL("config.json", pageUrl);
  const nothing = parseConfig("{}", pageUrl);
  if (address.protocol !== "http:" && address.protocol !== "https:") return nothing;
  let answer: Response;
  try {
    answer = await get(address, { cache: "no-cache", signal: AbortSignal.timeout(CONFIG_TIME_MS) });
  } catch {
    throw new ConfigError("config.json cannot be read: the page's own server does not answer");
  }
  if (answer.status === 404 || answer.headers.get("content-type")?.startsWith("text/html")) return linked(nothing, pageUrl);
  if (!answer.ok) throw new ConfigError(`config.json cannot be read: status ${answer.status}`);
  const text = await answer.text();
  if (text.length > CONFIG_BYTES_MAX) throw new ConfigError("config.json is too long");
  return linked(parseConfig(text, pageUrl), pageUrl);
}

/** The pin of a link, `#pin=<key id>`, as `sealway demo` prints one. Pins of the page's own configuration go before it. */
export function linked(config: Config, pageUrl: string): Config {
  const pin = /^#pin=([0-9a-f]{32})$/.exec(new URL(pageUrl).hash)?.[1];
  return pin === undefined || config.pins.length > 0 ? config : { ...config, pins: [pin] };
}
