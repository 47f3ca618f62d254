import { afterAll, beforeAll, expect, it } from "vitest";
import { Attempts, ChannelError, Connector, Listener } from "../../src/channel/index.js";
import { Rpc, type RpcError } from "../../src/rpc/index.js";
import { RelayFixture } from "./relay.js";

const fixture = new RelayFixture();
beforeAll(async () => {
  await fixture.start();
  await fixture.control();
});
afterAll(() => fixture.stop());

const [ECHO, STUCK] = [1, 2];

// A call is never sent again by itself: nobody knows whether it was handled.
it("a call fails with its code when the relay is lost, and the next uses a new channel", async () => {
  const over = new AbortController();
  const attempting = { backoff: { firstMs: 20, maxMs: 200 }, signal: over.signal };
  const listener = new Listener(fixture.grants("calls", "server"), {}, attempting);
  const told = { begun: 0, aborted: 0 };
  const handlers = {
    [ECHO]: (payload: unknown) => payload,
    [STUCK]: (_: unknown, { signal }: { signal: AbortSignal }) => {
      told.begun++;
      signal.addEventListener("abort", () => told.aborted++);
      return new Promise(() => undefined);
    },
  };
  const serving = (async () => {
    for (;;) {
      const channel = await listener.accept();
      void (async () => {
        for await (const { stream } of channel.incoming()) Rpc.over(stream, { handlers });
      })();
    }
  })().catch((error: ChannelError) => error.code);
  const failures: string[] = [];
  const connector = new Connector(
    fixture.grants("calls", "client"),
    { peerTimeoutMs: 2000 },
    { ...attempting, failed: (why) => failures.push(why.code) },
  );

  const first = await connector.channel();
  const calls = await Rpc.open(first);
  const stuck = calls.call(STUCK, {}).catch((error: unknown) => error);
  await expect.poll(() => told.begun).toBe(1);
  await fixture.stopRelay();
  const why = (await stuck) as RpcError;
  expect(why).toMatchObject({ code: "transport_error", stage: "rpc", isPassing: true });
  expect(why.cause).toBeInstanceOf(ChannelError);
  expect(why.cause).toBe(await first.over());
  await expect(calls.call(ECHO, 1)).rejects.toMatchObject({ code: "transport_error" });
  await expect.poll(() => told.aborted, { timeout: 5000 }).toBe(1);

  // Those who ask meanwhile wait for the same attempts.
  const next = [connector.channel(), connector.channel()];
  await expect.poll(() => failures.length, { timeout: 10_000 }).toBeGreaterThan(0);
  expect(failures).toContain("connection_refused");
  await fixture.startRelay();
  const [channel, same] = await Promise.all(next);
  expect(channel).toBe(same);
  expect(channel).not.toBe(first);
  expect(await (await Rpc.open(channel!)).call(ECHO, 7)).toBe(7);
  expect(told.begun).toBe(1);
  over.abort();
  await channel!.close();
  expect(await serving).toBe("cancelled");
});

it("waits are random below bounds that double up to the last", async () => {
  const [waits, bounds]: [number[], number[]] = [[], []];
  const attempts = new Attempts({
    sleep: async (ms) => void waits.push(ms),
    failed: (_, bound) => bounds.push(bound),
    nowMs: () => 0,
  });
  let left = 60;
  await attempts.untilOneSucceeds(async () => {
    if (left-- > 0) throw new ChannelError("connect", "unreachable", "nobody");
  });
  expect(bounds).toEqual(Array.from({ length: 60 }, (_, at) => Math.min(250 * 2 ** at, 30_000)));
  expect(waits.every((wait, at) => wait >= 0 && wait < bounds[at]!)).toBe(true);
  // Ends that lost the same relay must not come back together.
  expect(new Set(waits.map((wait, at) => wait / bounds[at]!)).size).toBeGreaterThan(30);
});

it("a channel that ends at once counts as a failure, and one that lasted does not", async () => {
  let [now, waits] = [0, 0];
  const attempts = new Attempts({ sleep: async () => void waits++, random: () => 0.5, nowMs: () => now });
  for (let times = 3; times > 0; times--) await attempts.untilOneSucceeds(async () => undefined);
  expect(waits).toBe(2);
  now += 10_000;
  await attempts.untilOneSucceeds(async () => undefined);
  expect(waits).toBe(2);
});

it("a cancelled wait ends the attempts", async () => {
  const signal = AbortSignal.timeout(20);
  const attempts = new Attempts({
    backoff: { firstMs: 3_600_000, maxMs: 3_600_000 },
    random: () => 1,
    signal,
  });
  const never = attempts.untilOneSucceeds(() => Promise.reject(new ChannelError("connect", "closed", "no")));
  await expect(never).rejects.toMatchObject({ code: "cancelled" });
});
