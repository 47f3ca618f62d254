import { SealwayError } from "sealway";
import { flowingHex } from "./text.js";

const RESEND_TIME_MS = 15_000;
const EXPLAINED_MAX = 300;

type Headers_ = readonly (readonly [string, string])[];

/** A body as it crossed the network. */
export interface WireBody {
  /** Headers that belong to the seal. */
  readonly headers: Headers_;
  /** Of the whole body, in bytes. */
  readonly length: number;
  /** The body in hexadecimal, cut where it is long. */
  readonly hex: string;
}

/** The last sealed purchase: its bytes as sent and received, next to what they say. */
export interface ExchangeView {
  readonly target: string;
  readonly status: number;
  readonly request: WireBody;
  readonly requestText: string;
  readonly answer: WireBody;
  readonly answerText: string;
}

/** The same bytes once more, or with one bit flipped. */
export type ResendKind = "replay" | "tamper";

/** What the service answered to bytes that were sent again. */
export interface Resend {
  readonly kind: ResendKind;
  readonly status: number;
  readonly isRefused: boolean;
  /** What was sent. */
  readonly sent: string;
  readonly facts: readonly (readonly [string, string])[];
}

export const RESEND_LABELS: Readonly<Record<ResendKind, string>> = { replay: "Replay", tamper: "Tamper" };

/** A sealed request as it was sent, to be sent again. */
interface Sent {
  readonly url: string;
  readonly method: string;
  readonly headers: [string, string][];
  readonly body: Uint8Array<ArrayBuffer>;
}

interface Received {
  readonly status: number;
  readonly headers: Headers_;
  readonly body: Uint8Array;
}

/** Stands between a client and the network, and keeps the last exchange while it is on. */
export class Recorder {
  isOn = false;
  #sent: Sent | null = null;
  #received: Promise<Received> | null = null;

  readonly fetch: typeof fetch = async (input, init) => {
    const body = init?.body;
    if (!this.isOn || !(body instanceof Uint8Array)) return fetch(input, init);
    const headers = [...new Headers(init?.headers)];
    this.#sent = { url: String(input), method: init?.method ?? "GET", headers, body: new Uint8Array(body) };
    this.#received = null;
    const answer = await fetch(input, init);
    const { status, headers: received } = answer;
    const whole = answer.clone().arrayBuffer();
    this.#received = whole.then((bytes) => ({ status, headers: [...received], body: new Uint8Array(bytes) }));
    // An answer that breaks off is the client's to report.
    this.#received.catch(() => {});
    return answer;
  };

  wipe(): void {
    this.#sent = null;
    this.#received = null;
  }

  /** What is kept, next to the texts that it carries. */
  async view(requestText: string, answerText: string): Promise<ExchangeView | null> {
    const [sent, received] = [this.#sent, await this.#received];
    if (sent === null || received === null) return null;
    return {
      target: `${sent.method} ${new URL(sent.url).pathname}`,
      status: received.status,
      request: wireBody(sent.headers, sent.body),
      requestText,
      answer: wireBody(received.headers, received.body),
      answerText,
    };
  }

  /** Sends the kept request again, by a plain `fetch`. */
  async resend(kind: ResendKind, signal: AbortSignal): Promise<Resend> {
    const sent = this.#sent;
    if (sent === null) throw new Error("there is nothing to send again");
    const at = sent.body.length >> 1;
    const body = new Uint8Array(sent.body);
    if (kind === "tamper") body[at] = (body[at] ?? 0) ^ 1;
    const answer = await send({ ...sent, body }, signal);
    const [before, after] = [sent.body, body].map((bytes) => flowingHex(bytes.subarray(at, at + 1)));
    return {
      kind,
      status: answer.status,
      isRefused: answer.status >= 400,
      sent:
        kind === "replay"
          ? `The same ${body.length} bytes, with the same headers.`
          : `The same ${body.length} bytes with one bit flipped: byte ${at + 1} was ${before} and is ${after}.`,
      facts: factsOf(answer.text),
    };
  }
}

async function send(sent: Sent, signal: AbortSignal): Promise<{ status: number; text: string }> {
  const { host } = new URL(sent.url);
  const limit = AbortSignal.timeout(RESEND_TIME_MS);
  try {
    const { method, headers, body } = sent;
    const both = AbortSignal.any([signal, limit]);
    const answer = await fetch(sent.url, { method, headers, body, redirect: "manual", cache: "no-store", signal: both });
    return { status: answer.status, text: await answer.text() };
  } catch (error) {
    if (signal.aborted) throw error;
    if (limit.aborted) throw new SealwayError("timeout", `${host} did not answer in time`);
    throw new SealwayError("network", `${host} cannot be reached`);
  }
}

function wireBody(headers: Headers_, body: Uint8Array): WireBody {
  const own = headers.filter(([name]) => name.startsWith("x-") || name === "content-type");
  return { headers: own, length: body.length, hex: flowingHex(body) };
}

/** Code and sentence of a refusal; nothing of a body that is sealed. */
function factsOf(text: string): [string, string][] {
  try {
    const { code, title, error } = JSON.parse(text) as Record<string, unknown>;
    const said: [string, unknown][] = [
      ["Code", code ?? error],
      ["Service says", title],
    ];
    return said.flatMap(([name, value]) => (typeof value === "string" ? [[name, value.slice(0, EXPLAINED_MAX)]] : []));
  } catch {
    return [];
  }
}
