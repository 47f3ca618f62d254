/** One sealed request, from its headers to its answer: drives the exchange with a body, a store and a clock. */
import { nodeProvider } from "../crypto/node.js";
import { Exchange } from "../exchange/exchange.js";
import { Rejection } from "../exchange/rejection.js";
import { Cut } from "./cut.js";
import type { GateAnswer, GateRequest, OpenCall } from "./gate.js";
import { callerOf, handlerHeaders } from "./headers.js";
import { Reader } from "./open.js";
import type { ServerSettings } from "./options.js";
import type { Reservation } from "./room.js";
import { seal } from "./seal.js";

/** Settings of one request: those of its route, and the room of its client. */
export interface Rules {
  readonly path: string;
  /** The longest sealed body, in bytes. */
  readonly bodyMax: number;
  /** True if a handler sees a body when all of it is there. */
  readonly holdsWhole: boolean;
  readonly holding: Reservation;
  /** Reports a refusal that comes after the handler was asked, and gives its answer. */
  readonly refuse: (rejection: Rejection) => GateAnswer;
}

/**
 * Opens a request, for a handler that is asked once.
 *
 * @throws errors for {@link Rejection.of}; the caller then gives the room back.
 */
export async function serve(
  settings: ServerSettings,
  rules: Rules,
  incoming: GateRequest,
): Promise<OpenCall> {
  const { store, trustForwarded, now } = settings;
  const { session, opening, reader } = await begin(settings, rules, incoming);
  const first = await reader.next();
  const opened = await opening.open(first);
  reader.opened(first);
  const claim = await opened.readmit(await store.get(session.id), now());
  const plain = await opened.release(await store.claim(claim), now());
  // Its own end first: that is known while the store is away.
  const isOver = async () =>
    now() >= session.expiresMs || now() >= ((await store.get(session.id))?.expiresMs ?? 0);
  const cut = new Cut(opening.isWhole ? undefined : isOver);
  const caller = callerOf(session);
  const hasBody = !first.isLast || plain.first.length > 0;
  cut.begin();
  return {
    caller,
    signal: cut.signal,
    headers: handlerHeaders(plain.inner, incoming.headers, caller, trustForwarded),
    body: hasBody ? reader.plain(plain.first, first, cut) : undefined,
    seal: (...answer) => seal({ settings, reply: plain.reply, reader, cut, refuse: rules.refuse }, ...answer),
    drop: () => {
      cut.drop();
      reader.release();
    },
  };
}

/** From the headers to the body that is awaited. */
async function begin(settings: ServerSettings, rules: Rules, { method, target, headers, body }: GateRequest) {
  const { store, anonymousPaths, bodyTimeoutMs, now } = settings;
  const { path, bodyMax, holding, holdsWhole } = rules;
  const exchange = Exchange.begin({ method, target }, headers, now(), settings);
  const found = await store.get(exchange.sessionId);
  const { session, opening, stream } = await exchange.session(nodeProvider, found);
  if (opening.isAnonymous && !anonymousPaths.includes(path))
    throw new Rejection("policy", "an anonymous session may not go here");
  const whole = Math.min(bodyMax, holding.max);
  const lengthMax = opening.bodyMax(whole, holdsWhole ? whole : bodyMax);
  const bounds = { lengthMax, timeoutMs: bodyTimeoutMs, holding, holdsWhole };
  return { session, opening, reader: new Reader(stream, body, bounds) };
}
