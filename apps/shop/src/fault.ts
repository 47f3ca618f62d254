import { SealwayError } from "sealway";
import { ConfigError } from "./config.js";
import { PurchaseRefused } from "./purchase.js";

/** What the error card says. */
export interface Fault {
  readonly code: string;
  readonly title: string;
  /** What to do about it. */
  readonly advice: string;
  /** Facts as pairs of name and value. */
  readonly facts: readonly (readonly [string, string])[];
}

type Words = readonly [title: string, advice: string];

const WORDS: Readonly<Record<string, Words>> = {
  unreachable: ["The service cannot be reached", "Is it running? Nothing was sent: try again in a moment."],
  network: [
    "The service cannot be reached",
    "Is it running, and does it allow this page's origin? If a purchase was under way, look whether it was made before you repeat it.",
  ],
  timeout: [
    "The service did not answer in time",
    "It may still have carried the call out: look before you repeat it. If it stays so, look at the service's health.",
  ],
  key_untrusted: [
    "The service shows another key than the trusted one",
    "Either its identity key was replaced, or somebody stands in between. If you know of a new key, clear this page and begin anew.",
  ],
  signature_invalid: ["The service's signature does not verify", "Do not go on: somebody may stand in between."],
  unconfirmed: ["The service does not hold the agreed key", "Do not go on: somebody may stand in between."],
  suite_downgraded: ["The key agreement was tampered with", "Do not go on: somebody may stand in between."],
  key_retired: [
    "The trusted key is not in use any more",
    "Ask who runs the service for the new key. Pin that one; or, if this page trusted at first use and you know of the change, clear the page and begin anew.",
  ],
  session_expired: [
    "The service does not know this session any more",
    "It may have restarted. Nothing was sent twice. Clear this page or start a session, then look whether the call was carried out before you repeat it.",
  ],
  clock_skew: ["The clocks of page and service differ too much", "Set this device's clock, then try again."],
  unsealable: ["The service could not open the call", "Start a new session and try again."],
  replayed: ["The service has seen this call before", "It was carried out once. Send a new one if you want another."],
  unsealed: ["The answer was not sealed", "It was thrown away. Something between this page and the service may have answered."],
  answer_mismatch: ["The answer belongs to another call", "It was thrown away. Something in between may have swapped it."],
  stream_truncated: ["The answer broke off", "It was thrown away. Try again."],
  rate_limited: ["Too many sessions were asked for", "Wait a moment, then try again."],
  policy: ["The service's policy does not allow this", "Ask who runs it."],
  store_unavailable: ["The service cannot reach its store", "Try again in a moment."],
  upstream_unreachable: ["The shop behind the service does not answer", "Try again in a moment."],
  upstream_timeout: ["The shop behind the service is too slow", "Look whether the purchase was made before you repeat it."],
  redirected: ["The service sent the call elsewhere", "Sealed calls follow no redirect. Check the address in config.json."],
  usage: ["The page is set up wrongly", "Correct config.json beside the page and load it again."],
  purchase_refused: [
    "The shop refused a purchase",
    "Its answer was opened; the shop itself says no. Try one purchase to see why.",
  ],
  aborted: ["The call was cancelled", "It may have reached the service. Look before you repeat it."],
};

const STAGES: Readonly<Record<SealwayError["stage"], string>> = {
  configuration: "configuration of this page; nothing was sent",
  agreement: "agreement of a session; the call was not sent",
  call: "the call itself",
};

const EXPLAINED_MAX = 300;

/** Words for whatever was thrown. Messages of the SDK hold no secret; those of anything else are not shown. */
export function faultOf(error: unknown): Fault {
  if (error instanceof ConfigError) return { ...named("usage"), facts: [["Detail", error.message]] };
  if (error instanceof PurchaseRefused) return { ...named("purchase_refused"), facts: [["Status", String(error.status)]] };
  if (error instanceof DOMException && error.name === "AbortError") return { ...named("aborted"), facts: [] };
  if (!(error instanceof SealwayError)) {
    const detail = error instanceof Error ? error.name : typeof error;
    return {
      code: "unexpected",
      title: "Something unexpected happened",
      advice: "Load the page again.",
      facts: [["Detail", detail]],
    };
  }
  const facts: [string, string][] = [
    ["Code", error.code],
    ["Stage", STAGES[error.stage]],
  ];
  if (error.status !== undefined) facts.push(["Status", String(error.status)]);
  if (error.problem?.title !== undefined) facts.push(["Service says", String(error.problem.title).slice(0, EXPLAINED_MAX)]);
  facts.push(["Detail", error.message.slice(0, EXPLAINED_MAX)]);
  return { ...named(error.code), facts };
}

function named(code: string): Omit<Fault, "facts"> {
  const [title, advice] = WORDS[code] ?? ["The call was refused", "Start a new session and try again."];
  return { code, title, advice };
}
