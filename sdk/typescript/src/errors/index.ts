/** Remedies for errors of this SDK, for logs and messages. Apart from the client, so that no page need load them. */
import { SealwayError } from "../wire/error.js";

const PIN =
  "this is another service, or an impostor, or its identity keys were replaced: compare the pinned keys with those that the " +
  "service's operator names, by another way than this connection, and change `trust` only if they agree";
const CLOCK = "this machine's clock and the service's are too far apart: set both by NTP";
const LISTENS = "nothing listens there: see whether the service runs, and whether host and port are right";
const TLS =
  "TLS failed: see whether the certificate is of this host, of an authority that this machine trusts, and the port speaks https";
const NAME = "the host's name is not known: see whether the URL is right, and the network there";
const TOKEN = "give a valid token by `authorization`, and a `proof` where it is bound to a key";

/** By the code of an error. */
const REMEDIES: Readonly<Record<string, string>> = {
  network:
    "see whether the URL is right and the network there; a browser tells more in its console (CORS, TLS)",
  timeout: "the service is slow or the connection hangs: see `timeoutMs`, which is for each step",
  redirected: "use the URL that it redirects to, if that is the service's",
  unsealed: "sign in to the network if it asks for that, and see whether the URL is the service's",
  key_untrusted: PIN,
  key_retired: PIN,
  signature_invalid: PIN,
  unconfirmed: PIN,
  clock_skew: CLOCK,
  timestamp_outside_window: CLOCK,
  session_expired: "the next call begins a new session",
  unauthenticated: TOKEN,
  policy: "the service allows this client less: see `clientId` and `authorization`, or ask its operator",
  wire_disabled: "the service serves other wires: see `wire`",
  suite_required: "the service takes other suites: see `suites`",
  suite_downgraded: "somebody in between may have changed the suites: try another network",
  store_unavailable: "try again later; if it stays, the service's operator sees why in its log",
  body_too_large: "raise `answerMax` if so long an answer is expected",
  connection_refused: LISTENS,
  tls_untrusted: TLS,
  unauthorized: TOKEN,
};

/** The system's own codes of the causes of an error, one within the other. */
function systemCodes(error: SealwayError): string {
  const codes: string[] = [];
  let at: unknown = error.cause;
  for (let depth = 0; depth < 8 && typeof at === "object" && at !== null; depth += 1) {
    const { code, cause, errors } = at as { code?: unknown; cause?: unknown; errors?: unknown[] };
    if (typeof code === "string") codes.push(code);
    at = cause ?? errors?.[0];
  }
  return codes.join(" ");
}

/** Returns the remedy for an error, a sentence without a full stop, or `undefined`. It holds no secret. */
export function remedyOf(error: unknown): string | undefined {
  if (!(error instanceof SealwayError)) return undefined;
  if (error.code === "network") {
    const codes = systemCodes(error);
    if (/\bECONNREFUSED\b/.test(codes)) return LISTENS;
    if (/\b(?:ENOTFOUND|EAI_AGAIN)\b/.test(codes)) return NAME;
    if (/CERT|SSL|TLS|EPROTO|UNABLE_TO/.test(codes)) return TLS;
    if (/CONNECT_TIMEOUT|ETIMEDOUT/.test(codes))
      return "no connection in time: see whether host and port are right and a firewall lets it through";
  }
  return Object.hasOwn(REMEDIES, error.code) ? REMEDIES[error.code] : undefined;
}

/** An error as one line: the origin of the service where it is known and not told yet, what happened, and what to do. */
export function explain(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const origin = error instanceof SealwayError ? error.origin : undefined;
  const isTold = origin === undefined || message.includes(new URL(origin).host);
  const remedy = remedyOf(error);
  return [isTold ? message : `${origin}: ${message}`, ...(remedy === undefined ? [] : [remedy])].join("; ");
}
