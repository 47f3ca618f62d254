/** One sealed call, told step by step, with what it cost. `--json` prints one line of JSON at the end and nothing else. */
import type { CallMetrics } from "../index.js";
import { clientOf, described, environment, finish, PURCHASE, purchase, reason, stop } from "./environment.js";

const args = process.argv.slice(2);
if (args.some((arg) => arg !== "--json")) stop("usage: single [--json]");
const isJson = args.includes("--json");
const env = environment();
const say = (text: string): void => {
  if (!isJson) console.log(text);
};

function summary(metrics: readonly CallMetrics[]): void {
  say(`\n${"=".repeat(60)}\nPerformance Metrics Summary\n${"=".repeat(60)}`);
  const row = (name: string, ms: number): void => say(`  ${name.padEnd(32)}${ms.toFixed(3).padStart(10)} ms`);
  for (const each of metrics) {
    say(`\n${each.method} ${each.path}`);
    row("Total Round-Trip", each.totalMs);
    row("HTTP Request Time", each.httpMs);
    row(
      "Client Crypto Operations",
      each.crypto.reduce((sum, { ms }) => sum + ms, 0),
    );
    for (const { name, ms } of each.crypto) row(`  - ${name}`, ms);
    const total = each.serverTiming.find(({ name }) => name === "total");
    if (total !== undefined) row("Server Timing", total.ms);
    for (const { name, ms } of each.serverTiming) row(`  - ${name}`, ms);
  }
  say(`\n${"=".repeat(60)}`);
}

function timings(metrics: readonly CallMetrics[]): object {
  return Object.fromEntries(
    metrics.map((each) => [
      each.endpoint,
      {
        total_ms: each.totalMs,
        http_ms: each.httpMs,
        crypto: Object.fromEntries(each.crypto.map(({ name, ms }) => [name, ms])),
        server: Object.fromEntries(each.serverTiming.map(({ name, ms }) => [name, ms])),
      },
    ]),
  );
}

const metrics: CallMetrics[] = [];
const client = clientOf(env, (each) => metrics.push(each));
try {
  say(`1. Agreeing a session with ${env.sessionUrl} as ${env.clientId}.`);
  const session = await client.connect();
  say(`   ${described(session)}.`);
  if (session.keyId !== undefined) say(`   The service signed with its identity key ${session.keyId}.`);
  say(`2. Sealing a purchase for ${env.serverUrl}: ${JSON.stringify(PURCHASE)}`);
  const { status, body } = await purchase(client, env);
  say(`3. The answer, opened: ${status} ${JSON.stringify(body)}`);
  summary(metrics);
  const told = timings(metrics);
  await finish(client);
  if (isJson) {
    const { id, suite } = session;
    const head = { program: "single", language: "typescript", wire: env.wire, suite: suite ?? null };
    console.log(JSON.stringify({ ...head, session_id: id, status, body, timings: told }));
  }
} catch (error) {
  console.error(`failed: ${reason(error)}`);
  process.exitCode = 1;
}
