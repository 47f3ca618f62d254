/**
 * What channels cost: handshakes of both profiles, records, and streams that are opened, beside the platform's bare AES-GCM.
 * Medians of rounds that are interleaved; nothing leaves the process. Run `npm run bench:channel` after a build.
 */
import { Channel } from "./channel.js";
import type { Bytes } from "./encoding.js";
import { Handshake, type Role } from "./handshake.js";
import { Secret } from "./secret.js";
import { channelSettings, drawRandoms } from "./settings.js";
import { suiteById } from "./suite.js";
import { Socket, type WebSocketLike } from "./websocket.js";

const NOW_S = 1_900_000_000;
const ROUNDS = 7;
const ROUND_MS = 60;

async function shaken(id: number) {
  const side = (role: Role): Handshake => {
    const psk = new Secret(new Uint8Array(32).fill(7));
    const given = { channelId: "benchmark", psk, suite: suiteById(id)!, initExpiresS: NOW_S };
    return new Handshake(
      role,
      channelSettings(given),
      drawRandoms((bytes) => crypto.getRandomValues(bytes)),
    );
  };
  const [client, server] = [side("client"), side("server")];
  await server.begin();
  let message = await client.begin();
  for (let isServers = true; message !== undefined; isServers = !isServers) {
    message = (await (isServers ? server : client).read(message, NOW_S)).send;
  }
  return { client: client.records(), server: server.records() };
}

/** Two WebSockets that are each other's ends. */
function joined(): [WebSocketLike, WebSocketLike] {
  const listeners: ((event: unknown) => void)[][] = [[], []];
  const end = (own: 0 | 1): WebSocketLike => ({
    ...{ binaryType: "", readyState: 1, bufferedAmount: 0, close: () => undefined },
    addEventListener: (type, listener) => {
      if (type === "message") listeners[own]!.push(listener);
    },
    send: (data) => {
      const message = { data: typeof data === "string" ? data : data.slice().buffer };
      queueMicrotask(() => {
        for (const listener of listeners[1 - own]!) listener(message);
      });
    },
  });
  return [end(0), end(1)];
}

async function channels(id: number) {
  const records = await shaken(id);
  const [a, b] = joined();
  const liveness = { pingEveryMs: 20_000, silentMaxMs: 45_000 };
  const make = (raw: WebSocketLike, role: Role): Channel =>
    new Channel({ socket: new Socket(raw), ...records[role] }, role, id >= 0x100, liveness, () =>
      performance.now(),
    );
  return { client: make(a, "client"), server: make(b, "server") };
}

interface Case {
  readonly name: string;
  /** Bytes that one run moves. */
  readonly bytes?: number;
  readonly run: () => Promise<unknown>;
}

/** Microseconds a run: the median of interleaved rounds, and the best of them, which says more on a busy machine. */
async function measure(cases: readonly Case[]): Promise<void> {
  const took = cases.map(() => [] as number[]);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, { run }] of cases.entries()) {
      const begun = performance.now();
      let runs = 0;
      while (performance.now() - begun < ROUND_MS || runs === 0) {
        await run();
        runs++;
      }
      took[i]!.push(((performance.now() - begun) * 1000) / runs);
    }
  }
  for (const [i, { name, bytes }] of cases.entries()) {
    const sorted = took[i]!.sort((a, b) => a - b);
    const told = [sorted[Math.floor(ROUNDS / 2)]!, sorted[0]!].map((us) => {
      const rate = `${(1e6 / us).toFixed(0)}/s`;
      const bulk = bytes === undefined ? "" : `${(bytes / us).toFixed(1)} MB/s`;
      return `${us.toFixed(1).padStart(10)} µs${rate.padStart(10)}${bulk.padStart(13)}`;
    });
    console.log(`${name.padEnd(62)}${told.join("   best")}`);
  }
}

function sizeName(bytes: number): string {
  return bytes >= 1 << 20 ? `${bytes >> 20} MiB` : bytes >= 1024 ? `${bytes >> 10} KiB` : `${bytes} B`;
}

async function recordCases(size: number): Promise<Case[]> {
  const data: Bytes = new Uint8Array(size).fill(1);
  const cases: Case[] = [];
  for (const [name, id] of [
    ["v1", 1],
    ["native", 0x100],
    ["native, ChaChaPoly", 0x101],
  ] as const) {
    const { client, server } = await shaken(id);
    const whole = Math.min(size, client.sealer.contentMax);
    const parts = Array.from({ length: Math.ceil(size / whole) }, (_, i) =>
      data.subarray(i * whole, (i + 1) * whole),
    );
    const run = async (): Promise<void> => {
      for (const bytes of parts)
        await server.opener.open(await client.sealer.seal({ kind: "data", bytes }, 0));
    };
    cases.push({ name: `seal and open ${sizeName(size)}, ${name}`, bytes: size, run });
  }
  const key = await crypto.subtle.importKey("raw", new Uint8Array(32), "AES-GCM", false, [
    "encrypt",
    "decrypt",
  ]);
  const [iv, additionalData] = [new Uint8Array(12), new Uint8Array(18)];
  const bare = async (): Promise<void> => {
    const sealed = await crypto.subtle.encrypt({ name: "AES-GCM", iv, additionalData }, key, data);
    await crypto.subtle.decrypt({ name: "AES-GCM", iv, additionalData }, key, sealed);
  };
  cases.push({ name: `seal and open ${sizeName(size)}, bare WebCrypto`, bytes: size, run: bare });
  return cases;
}

const suites = [1, 2, 0x100, 0x104, 0x102, 0x106];
await measure(
  suites.map((id) => ({ name: `handshake, both sides, ${suiteById(id)!.name}`, run: () => shaken(id) })),
);
// v1's longest record has a mebibyte with its header and tag; native ones have 64 KiB, of which there are several.
for (const size of [256, 1024, 4096, 16_384, 65_536, 262_144, 1 << 20])
  await measure(await recordCases(size === 1 << 20 ? size - 34 : size));
for (const id of [1, 0x100]) {
  const { client, server } = await channels(id);
  void (async () => {
    for await (const { stream } of server.incoming()) {
      void stream
        .read()
        .then(() => stream.end())
        .catch(() => undefined);
    }
  })();
  const run = async (): Promise<void> => {
    const stream = await client.open({ kind: "cat", v: 1 });
    await stream.end();
    while ((await stream.read()) !== undefined);
  };
  const places = Array.from({ length: 16 });
  const many = async (): Promise<unknown> => await Promise.all(places.map(run));
  const name = id === 1 ? "v1" : "native";
  await measure([
    { name: `open_stream and end it, ${name}`, run },
    { name: `16 times open_stream at once, ${name}`, run: many },
  ]);
}
process.exit(0);
