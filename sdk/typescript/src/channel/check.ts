/** Checks of the options of channels and of calls on them. */
import { Check } from "../wire/check.js";
import type { ChannelOptions } from "./connect.js";
import { ChannelError } from "./error.js";
import { Identity } from "./identity.js";
import { Secret } from "./secret.js";

/** Checks whose errors are `setting_invalid`. */
export const check = new Check((message) => new ChannelError("connect", "setting_invalid", message));

const ofGrants = new Check((message) => new ChannelError("grant", "grant_invalid", message));

/** @throws ChannelError `setting_invalid`, with the option's name. */
export function checkOptions(options: ChannelOptions): void {
  check.object(options, "options");
  check.numbers(options, 1, false, "connectTimeoutMs", "handshakeTimeoutMs", "peerTimeoutMs");
  check.numbers(options, 0, true, "padTo");
  check.functions(options, "told", "nowS");
  check.texts(options, "instance", "origin");
  check.signal(options.signal);
  const { identity, liveness } = options;
  const what = "what Identity.draw or Identity.parse returns, or leave it out";
  check.needs(identity === undefined || identity instanceof Identity, "identity", identity, what);
  if (liveness === undefined) return;
  check.object(liveness, "liveness", "{ pingEveryMs, silentMaxMs }, or leave it out");
  for (const [name, value] of Object.entries(liveness)) {
    const holds = value === undefined || (typeof value === "number" && value > 0);
    check.needs(holds, `liveness.${name}`, value, "milliseconds above 0, or leave it out");
  }
}

/** Members that a grant and direct info share. */
interface Endpoint {
  readonly channelId: string;
  readonly psk: Secret;
  readonly defaultSuite: number;
  readonly initExpiresS: number;
}

/**
 * @param what says which function makes such a thing.
 * @throws ChannelError `grant_invalid`, with the member's name.
 */
export function checkEndpoint(given: Endpoint, name: string, what: string, url: string): void {
  ofGrants.object(given, name, what);
  const { channelId, psk, defaultSuite, initExpiresS } = given;
  const address = (given as unknown as Record<string, unknown>)[url];
  ofGrants.needs(typeof address === "string" && address !== "", url, address, "a ws:// or wss:// URL");
  ofGrants.needs(typeof channelId === "string" && channelId !== "", "channelId", channelId, "its text");
  ofGrants.needs(psk instanceof Secret && psk.length === 32, "psk", psk, "a Secret of 32 bytes");
  ofGrants.needs(typeof defaultSuite === "number", "defaultSuite", defaultSuite, "a suite's number");
  const isTime = Number.isSafeInteger(initExpiresS) && initExpiresS >= 0;
  ofGrants.needs(isTime, "initExpiresS", initExpiresS, "seconds of the epoch");
}
