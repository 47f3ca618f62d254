/** Headers of requests for handlers, and of answers inside and outside the seal. */
import { mayBeInner } from "../session/native/inner.js";
import { utf8 } from "../wire/bytes.js";
import { type HeaderList, SEALING } from "../wire/headers.js";
import type { StoredSession } from "./store.js";

/** The caller of a sealed request, as the authority authenticated it. */
export interface Caller {
  readonly sessionId: string;
  readonly wire: number;
  readonly clientId: string | undefined;
  readonly auth: string;
  readonly subject: string | undefined;
  readonly tenant: string | undefined;
}

/**
 * These say where a request came from (`stripped_headers` of `spec/registry.toml`). Outside a seal anybody on the path could have
 * written them; inside they mean nothing.
 */
const OF_ORIGIN =
  /^(?:forwarded|x-real-ip|x-client-ip|x-cluster-client-ip|true-client-ip|cf-connecting-ip|fastly-client-ip|client-cert|client-cert-chain|x-arr-clientcert|(?:x-forwarded-|x-client-cert|x-ssl-client-|ssl-client-|x-amzn-mtls-).*)$/;
const OF_THE_WAY = new Set(["via", "traceparent", "tracestate"]);
/** Taken from outside where the seal has none. */
const FROM_OUTSIDE = new Set(["host", "user-agent", "accept-language"]);
const HOP = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "upgrade",
  "http2-settings",
]);
/** On wires 1 and 2 these ask for what a sealed answer cannot be: it has no headers, so it cannot say that it is encoded or a part. */
const OF_ANSWERS =
  /^(?:accept|accept-encoding|range|if-range|if-match|if-none-match|if-modified-since|if-unmodified-since)$/;
/** Proxies between service and client need these. */
const BETWEEN = /^(?:set-cookie|retry-after|server-timing|vary|access-control-[a-z-]+)$/;

/** True if a header that was set earlier stays with an answer, so that a page can read a refusal (CORS). */
export function isOfPages(name: string): boolean {
  return /^(?:vary|access-control-[a-z-]+)$/i.test(name);
}

export function callerOf(session: StoredSession): Caller {
  const { id: sessionId, wire, clientId, auth, subject, tenant } = session;
  return { sessionId, wire, clientId, auth, subject, tenant };
}

function callerHeaders(caller: Caller): [string, string][] {
  const { clientId, auth, subject, tenant } = caller;
  const known = [
    ["x-sealway-auth", auth],
    ["x-sealway-client-id", clientId],
    ["x-sealway-subject", subject],
    ["x-sealway-tenant", tenant],
  ] as const;
  return known.flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, headerText(value)]],
  );
}

/** A text as a header carries it, two texts never alike: what is not visible ASCII, `%`, and spaces at its ends are percent-encoded. */
function headerText(text: string): string {
  const encoded = (byte: number) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  return text.replace(/^ | $|[^\x20-\x7e]+|%/g, (part) => Array.from(utf8(part), encoded).join(""));
}

/** A name as a reader may take it: many pass headers on as variables, where a hyphen is an underscore. */
function alike(name: string): string {
  return name.toLowerCase().replaceAll("_", "-");
}

/** True if a header names the origin of a request, in any spelling. */
export function isOfOrigin(name: string): boolean {
  return OF_ORIGIN.test(alike(name));
}

/**
 * Says if a server removes a header from outside of a seal, on plain routes too: `x-sealway-…` always, origin headers unless the proxy
 * in front is trusted. Of those the exact spelling alone passes: a proxy passes on a spelling that it does not know.
 */
export function isStripped(name: string, trustForwarded: boolean): boolean {
  return isClaimed(name) || (isOfOrigin(name) && !(trustForwarded && OF_ORIGIN.test(name.toLowerCase())));
}

/** The headers that a handler sees, and who asks. Without `inner` ones all stood outside. */
export function handlerHeaders(
  inner: HeaderList | undefined,
  outer: HeaderList,
  caller: Caller,
  trustForwarded: boolean,
): [string, string][] {
  const own =
    inner === undefined ? outerHeaders(outer, trustForwarded) : requestHeaders(inner, outer, trustForwarded);
  return [...own, ...callerHeaders(caller)];
}

/** Of the headers inside a seal and of those outside, the ones that a handler sees. */
export function requestHeaders(
  inner: HeaderList,
  outer: HeaderList,
  trustForwarded: boolean,
): [string, string][] {
  const inside = inner.flatMap(([name, value]): [string, string][] =>
    OF_THE_WAY.has(alike(name)) || isOfOrigin(name) || isClaimed(name) ? [] : [[name, value]],
  );
  const names = new Set(inside.map(([name]) => alike(name)));
  const outside = outer.flatMap(([key, value]): [string, string][] => {
    const name = key.toLowerCase();
    const isTaken = OF_THE_WAY.has(name) || (OF_ORIGIN.test(name) && !isStripped(name, trustForwarded));
    return isTaken || (FROM_OUTSIDE.has(name) && !names.has(name)) ? [[name, value]] : [];
  });
  return [...inside, ...outside];
}

/** The headers that a handler sees of a request whose headers all stood outside. */
function outerHeaders(outer: HeaderList, trustForwarded: boolean): [string, string][] {
  const kept = outer.flatMap(([key, value]): [string, string][] => {
    const name = key.toLowerCase();
    const isBody = name.startsWith("content-") || name === "transfer-encoding" || name === "expect";
    const isOver = isBody || OF_ANSWERS.test(name) || HOP.has(name) || SEALING.has(name);
    return isOver || isStripped(name, trustForwarded) ? [] : [[name, value]];
  });
  return [...kept, ["content-type", "application/json"]];
}

/** True if only the middleware may set a header, in any spelling. */
export function isClaimed(name: string): boolean {
  return alike(name).startsWith("x-sealway-");
}

/** An answer's headers as they stand within a seal, and those of them that stand outside too. */
export function answerHeaders(headers: HeaderList): { inner: [string, string][]; outer: [string, string][] } {
  const lower = headers.map(([name, value]): [string, string] => [name.toLowerCase(), value]);
  const inner = lower.filter(([name]) => mayBeInner(name));
  const outer = lower.filter(([name]) => BETWEEN.test(name));
  return { inner, outer: [...outer, ["cache-control", "no-store, no-transform"]] };
}
