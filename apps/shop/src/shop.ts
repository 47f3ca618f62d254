import type { CallMetrics, Client, SessionInfo } from "sealway";
import { CALLS_MAX, CONCURRENCY_MAX, runBenchmark } from "./benchmark.js";
import { type Config, loadConfig } from "./config.js";
import { RESEND_LABELS, Recorder, type ResendKind } from "./exchange.js";
import { faultOf } from "./fault.js";
import { Journal, type Tone } from "./journal.js";
import { MetricsBook } from "./metrics.js";
import { EMPTY_FORM, PURCHASE_PATH, type PurchaseForm, PurchaseRefused, purchaseBody, receiptOf } from "./purchase.js";
import { INITIAL_STATE, phaseOf, type SessionView, type ShopState, type Task } from "./state.js";
import { bytes, counted, millis, shortened, spoken } from "./text.js";
import { oneShotOf, Trust } from "./trust.js";

const TICK_MS = 1000;
const WARMUP_CALLS = 3;
/** While a benchmark runs the page is drawn at most this often, so that drawing is not what is measured. */
const PROGRESS_EVERY_MS = 120;

/** What the page takes from its surroundings. */
export interface Surroundings {
  /** The monotonic clock, in milliseconds. */
  readonly now: () => number;
  /** The wall clock, in milliseconds of the epoch. */
  readonly wallClock: () => number;
  readonly loadConfig: () => Promise<Config>;
}

const BROWSER: Surroundings = {
  now: () => performance.now(),
  wallClock: () => Date.now(),
  loadConfig: () => loadConfig(document.baseURI),
};

/** The page without a framework: it holds the state, does what is asked, and tells who subscribed. */
export class Shop {
  #state: ShopState = INITIAL_STATE;
  readonly #listeners = new Set<() => void>();
  readonly #around: Surroundings;
  readonly #metrics = new MetricsBook();
  readonly #journal = new Journal();
  readonly #recorder = new Recorder();
  #trust = new Trust([]);
  #client: Client | null = null;
  #session: SessionInfo | null = null;
  #ticker: ReturnType<typeof setInterval> | undefined;
  #abort = new AbortController();
  #benchmarkAbort = new AbortController();
  /** While calls of a benchmark come in, their metrics and lines are gathered and not drawn. */
  #isQuiet = false;

  constructor(around: Partial<Surroundings> = {}) {
    this.#around = { ...BROWSER, ...around };
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly snapshot = (): ShopState => this.#state;

  /** Reads the configuration. Called once, before anything else. */
  async open(): Promise<void> {
    await this.#run("configure", async () => {
      const config = await this.#around.loadConfig();
      this.#trust = new Trust(config.pins);
      this.#set({ config, isPinned: this.#trust.isPinned });
      this.#log("plain", `Service ${config.sessionUrl}`);
      if (this.#trust.isPinned) this.#log("plain", `Trusts ${counted(config.pins.length, "pinned key")}`);
      else this.#log("warn", "No key is pinned: the first key that the service shows will be trusted");
    });
  }

  /** Wipes what there is and stops; the page is gone. */
  close(): void {
    this.clear();
    this.#listeners.clear();
  }

  /** Agrees a new session; one that there was is wiped first. */
  async initialise(): Promise<void> {
    await this.#run("initialise", async (isCurrent, signal) => {
      this.#dropSession();
      await this.#clientOf().connect(signal);
      if (isCurrent()) this.#say(`Session started. It lasts ${spoken(this.#session?.remainingMs() ?? 0)}.`);
    });
  }

  /** Ends the session at the service, then wipes it here, whether or not the service was reached. */
  async end(): Promise<void> {
    if (this.#client === null) return;
    const client = this.#client;
    await this.#run("end", async (isCurrent) => {
      try {
        await client.end();
        if (isCurrent()) {
          this.#log("plain", "Session ended at the service; keys wiped");
          this.#say("Session ended.");
        }
      } finally {
        if (isCurrent()) this.#dropSession();
      }
    });
  }

  /** Makes a sealed purchase; `form` has passed `checkForm`. */
  purchase(form: PurchaseForm = EMPTY_FORM): Promise<void> {
    return this.#purchase("purchase", form, () => this.#clientOf().fetch);
  }

  /** Makes a purchase that is sealed to a key of the service, without a session; `form` has passed `checkForm`. */
  purchaseOnce(form: PurchaseForm = EMPTY_FORM): Promise<void> {
    return this.#purchase("purchase-once", form, () => {
      const onMetrics = (metrics: CallMetrics) => this.#state.task === "purchase-once" && this.#onMetrics(metrics);
      return oneShotOf(this.#configOf(), onMetrics, this.#recorder.fetch).fetch;
    });
  }

  async #purchase(task: Task, form: PurchaseForm, sealed: () => typeof fetch): Promise<void> {
    await this.#run(task, async (isCurrent, signal) => {
      this.#set({ receipt: null, exchange: null, resends: [] });
      this.#recorder.wipe();
      this.#recorder.isOn = true;
      const response = await this.#call(sealed(), form, signal).finally(() => {
        this.#recorder.isOn = false;
      });
      const text = await response.text();
      const exchange = await this.#recorder.view(purchaseBody(form), text);
      if (!isCurrent()) return;
      const receipt = receiptOf(response.status, text);
      this.#set({ receipt, exchange });
      this.#log(receipt.ok ? "good" : "bad", `Opened the answer: status ${receipt.status}, ${bytes(text.length)}`);
      const transaction = receipt.fields.find(([name]) => name === "Transaction")?.[1];
      this.#say(
        receipt.ok
          ? `Purchase made. Transaction ${transaction ?? "without a number"}.`
          : `Purchase refused with status ${receipt.status}.`,
      );
    });
  }

  /** Sends the bytes of the last purchase again: as they are, or with one bit flipped. */
  async resend(kind: ResendKind): Promise<void> {
    if (this.#state.exchange === null) return;
    await this.#run(kind, async (isCurrent, signal) => {
      const resend = await this.#recorder.resend(kind, signal);
      if (!isCurrent()) return;
      this.#set({ resends: [...this.#state.resends.filter((other) => other.kind !== kind), resend] });
      const outcome = `${RESEND_LABELS[kind]} ${resend.isRefused ? "refused" : "accepted"} with status ${resend.status}`;
      this.#log(resend.isRefused ? "good" : "bad", outcome);
      this.#say(`${outcome}.`);
    });
  }

  /** Makes `calls` purchases, `concurrency` at a time; both are brought within their bounds. */
  async benchmark(calls: number, concurrency: number): Promise<void> {
    await this.#run("benchmark", async (isCurrent) => {
      const wanted = within(calls, CALLS_MAX);
      const callers = within(concurrency, CONCURRENCY_MAX);
      this.#benchmarkAbort = new AbortController();
      const signal = AbortSignal.any([this.#benchmarkAbort.signal, this.#abort.signal]);
      this.#log("plain", `Benchmark: ${wanted} calls, ${callers} at a time, after ${WARMUP_CALLS} to warm up`);
      this.#set({ benchmark: { wanted, progress: { done: 0, failed: 0, seconds: 0 }, result: null } });
      this.#say(`Benchmark of ${wanted} calls started.`);
      let drawn = this.#around.now();
      this.#isQuiet = true;
      const result = await runBenchmark({
        calls: wanted,
        concurrency: callers,
        warmup: WARMUP_CALLS,
        now: this.#around.now,
        signal,
        call: async (inner) => {
          const response = await this.#call(this.#clientOf().fetch, EMPTY_FORM, inner);
          await response.text();
          if (!response.ok) throw new PurchaseRefused(response.status);
        },
        onProgress: (progress) => {
          if (!isCurrent() || this.#around.now() - drawn < PROGRESS_EVERY_MS) return;
          drawn = this.#around.now();
          this.#set({ benchmark: { wanted, progress, result: null } });
        },
      }).finally(() => {
        if (isCurrent()) this.#isQuiet = false;
      });
      if (!isCurrent()) return;
      const { done, failed, seconds } = result;
      this.#set({ benchmark: { wanted, progress: { done, failed, seconds }, result }, metrics: this.#metrics.rows() });
      const rate = `${result.throughputPerS.toFixed(1)} a second`;
      const outcome = result.cancelled ? "cancelled" : failed > 0 || result.fault !== undefined ? "failed" : "done";
      this.#log(
        outcome === "done" ? "good" : "warn",
        `Benchmark ${outcome}: ${done} of ${wanted} calls, ${failed} failed, ${rate}`,
      );
      this.#say(`Benchmark ${outcome}: ${done} of ${wanted} calls, ${rate}.`);
      if (result.fault !== undefined) throw result.fault;
    });
  }

  /** Breaks off a benchmark; what was measured until then stays. */
  cancelBenchmark(): void {
    this.#benchmarkAbort.abort();
  }

  dismissFault(): void {
    this.#set({ fault: null });
  }

  /** Wipes session keys, the key met at first use, metrics, answer and console, and breaks off whatever is under way. */
  clear(): void {
    this.#abort.abort();
    this.#abort = new AbortController();
    this.#isQuiet = false;
    this.#dropSession();
    this.#trust.forget();
    this.#metrics.wipe();
    this.#journal.wipe();
    this.#recorder.wipe();
    const { config, isPinned, clearings } = this.#state;
    const announcement = "Cleared: session, metrics, answer and console are wiped.";
    this.#set({ ...INITIAL_STATE, config, isPinned, clearings: clearings + 1, announcement });
  }

  #dropSession(): void {
    this.#client?.clear();
    this.#client = null;
    this.#session = null;
    clearInterval(this.#ticker);
    this.#ticker = undefined;
    this.#set({ session: null });
  }

  #call(sealed: typeof fetch, form: PurchaseForm, signal: AbortSignal): Promise<Response> {
    return sealed(`${this.#state.config?.serverUrl ?? ""}${PURCHASE_PATH}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: purchaseBody(form),
      signal,
    });
  }

  #clientOf(): Client {
    if (this.#client !== null) return this.#client;
    const config = this.#configOf();
    // A client that was dropped may still speak: what it says is of a session that is gone.
    const isMine = () => this.#client === client;
    const events = {
      onMetrics: (metrics: CallMetrics) => isMine() && this.#onMetrics(metrics),
      onSession: (session: SessionInfo | undefined) => isMine() && session !== undefined && this.#onSession(session),
    };
    const client: Client = this.#trust.client(config, events, this.#recorder.fetch);
    this.#client = client;
    return client;
  }

  #configOf(): Config {
    const { config } = this.#state;
    if (config === null) throw new Error("the page is not open");
    return config;
  }

  #onMetrics(call: CallMetrics): void {
    this.#metrics.add(call);
    if (this.#isQuiet) return;
    const tone: Tone = call.status >= 200 && call.status < 300 ? "plain" : "bad";
    const sizes = `sent ${bytes(call.requestBytes)}, received ${bytes(call.responseBytes)}`;
    this.#log(tone, `${call.method} ${call.path} ${call.status}, ${millis(call.totalMs)} ms, ${sizes}`);
    this.#set({ metrics: this.#metrics.rows() });
  }

  #onSession(session: SessionInfo): void {
    this.#session = session;
    const key = session.keyId ? `, signed by key ${shortened(session.keyId, 6)}` : "";
    this.#log("good", `Session ${shortened(session.id)} agreed: wire ${session.wire}, ${session.suite ?? "P-256"}${key}`);
    clearInterval(this.#ticker);
    this.#ticker = setInterval(() => this.#tick(), TICK_MS);
    this.#tick();
  }

  #tick(): void {
    const session = this.#session;
    if (session === null) return;
    const remainingMs = Math.max(0, session.remainingMs());
    const before = this.#state.session;
    const view: SessionView = {
      phase: phaseOf(remainingMs, session.expiresInSec * 1000),
      id: session.id,
      wire: session.wire,
      suite: session.suite ?? "P-256",
      keyId: session.keyId ?? "",
      auth: session.auth ?? "none",
      lifeMs: session.expiresInSec * 1000,
      remainingMs,
    };
    this.#set({ session: view });
    if (view.id !== before?.id || view.phase === before.phase) return;
    if (view.phase === "ending") this.#say(`The session ends in ${spoken(remainingMs)}.`);
    if (view.phase === "over") {
      clearInterval(this.#ticker);
      this.#log("warn", "The session is over; the next call starts another");
      this.#say("The session is over. The next call starts another.");
    }
  }

  /** Does one thing at a time. What comes back after the page was cleared is dropped. */
  async #run(task: Task, work: (isCurrent: () => boolean, signal: AbortSignal) => Promise<void>): Promise<void> {
    if (this.#state.task !== null) return;
    const { signal } = this.#abort;
    const isCurrent = () => !signal.aborted;
    this.#set({ task, fault: null });
    try {
      await work(isCurrent, signal);
    } catch (error) {
      if (isCurrent()) {
        const fault = faultOf(error);
        this.#log("bad", `${fault.title} (${fault.code})`);
        this.#set({ fault });
      }
    } finally {
      if (isCurrent()) this.#set({ task: null });
    }
  }

  #log(tone: Tone, text: string): void {
    this.#journal.add(this.#around.wallClock(), tone, text);
    this.#set({ journal: this.#journal.entries() });
  }

  #say(announcement: string): void {
    this.#set({ announcement });
  }

  #set(change: Partial<ShopState>): void {
    this.#state = { ...this.#state, ...change };
    for (const listener of this.#listeners) listener();
  }
}

function within(value: number, max: number): number {
  return Math.min(max, Math.max(1, Math.floor(value) || 1));
}
