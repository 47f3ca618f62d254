import { describe, expect, it } from "vitest";
import { concat, uint, utf8 } from "../../src/channel/encoding.js";
import { jsonFrame, readFrame } from "../../src/channel/hello.js";
import { type Envelope, encodeEnvelope, parseEnvelope } from "../../src/rpc/envelope.js";
import { HandlerError, Rpc, type RpcError, type RpcOptions } from "../../src/rpc/index.js";
import { channels } from "../channel/pair.js";

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function pair(server: RpcOptions, client: RpcOptions = {}) {
  const ends = await channels(0x104);
  const rpc = await Rpc.open(ends.client, client);
  const incoming = (await ends.server.accept())!;
  return { rpc, other: Rpc.over(incoming.stream, server), ends };
}

describe("calls", () => {
  it("run concurrently from both sides, with answers in any order", async () => {
    const order: number[] = [];
    const wait = async (payload: unknown) => {
      await pause(payload as number);
      order.push(payload as number);
      return payload;
    };
    const { rpc, other, ends } = await pair({ handlers: { 1: wait } }, { handlers: { 5: (x) => [x, x] } });
    expect(await Promise.all([rpc.call(1, 60), rpc.call(1, 30), rpc.call(1, 1)])).toEqual([60, 30, 1]);
    expect(order).toEqual([1, 30, 60]);
    expect(await other.call(5, "two")).toEqual(["two", "two"]);
    await ends.client.close();
  });

  it("fail with a code: no handler, a handler's own number, a handler that throws, without its message", async () => {
    const { rpc, ends } = await pair({
      handlers: {
        1: () => {
          throw new HandlerError(1234, "sold out");
        },
        2: () => {
          throw new Error("the database's password is secret");
        },
        3: () => 10n,
      },
    });
    await expect(rpc.call(9, {})).rejects.toMatchObject({ code: "handler_not_found", number: 404 });
    await expect(rpc.call(1, {})).rejects.toMatchObject({ code: "rpc_error", number: 1234 });
    const why = await rpc.call(2, {}).catch((error: Error) => error);
    expect(why).toMatchObject({ code: "rpc_error", number: 500, stage: "rpc" });
    expect(String(why)).not.toContain("password");
    await expect(rpc.call(3, {})).rejects.toMatchObject({ number: 500 });
    expect(rpc.pending).toBe(0);
    await ends.client.close();
  });

  it("have deadlines: the handler is cancelled, and the caller gets the error", async () => {
    let ended = 0;
    const { rpc, ends } = await pair({
      handlers: {
        1: (_, { signal }) =>
          new Promise(() => {
            signal.addEventListener("abort", () => ended++);
          }),
      },
    });
    const late = await rpc
      .call(1, {}, { timeoutMs: 40 })
      .catch((error: { code: string; number?: number }) => error);
    // Whichever clock is first.
    expect((late as { code: string }).code).toMatch(/rpc_timeout|rpc_error/);
    await pause(30);
    expect(ended).toBe(1);
    await ends.client.close();
  });

  it("can be cancelled: the handler is cancelled too", async () => {
    let ended = 0;
    const { rpc, ends } = await pair({
      handlers: {
        1: (_, { signal }) =>
          new Promise(() => {
            signal.addEventListener("abort", () => ended++);
          }),
      },
    });
    const stop = new AbortController();
    const call = rpc.call(1, {}, { signal: stop.signal });
    await pause(20);
    stop.abort();
    await expect(call).rejects.toMatchObject({ code: "rpc_cancelled" });
    await pause(30);
    expect([ended, rpc.pending]).toEqual([1, 0]);
    await ends.client.close();
  });

  it("fail when the channel ends", async () => {
    const { rpc, ends } = await pair({ handlers: { 1: () => new Promise(() => undefined) } });
    const call = rpc.call(1, {});
    await pause(10);
    await ends.server.close();
    await expect(call).rejects.toMatchObject({ code: "transport_error" });
    await expect(rpc.call(1, {})).rejects.toMatchObject({ code: "transport_error" });
    await expect(rpc.notify(1, {})).rejects.toMatchObject({ code: "transport_error" });
  });

  it("fail at once while a handler of this side runs, whose signal fires", async () => {
    let aborted = 0;
    const stuck = (_: unknown, { signal }: { signal: AbortSignal }) =>
      new Promise(() => {
        signal.addEventListener("abort", () => aborted++);
      });
    const { rpc, other, ends } = await pair({ handlers: { 1: stuck } }, { handlers: { 2: stuck } });
    const calls = [rpc.call(1, {}), other.call(2, {})].map((call) => call.catch((error: unknown) => error));
    await expect.poll(() => [rpc.pending, other.pending]).toEqual([1, 1]);
    await pause(20);
    ends.a.close(1011, "");
    const began = performance.now();
    for (const why of await Promise.all(calls)) {
      expect(why).toMatchObject({ code: "transport_error", stage: "rpc", isPassing: true });
      expect((why as RpcError).cause).toMatchObject({ code: "closed", stage: "record" });
    }
    expect(performance.now() - began).toBeLessThan(2000);
    expect(aborted).toBe(2);
  });

  it("beyond the concurrency bound do not hide the end of the channel", async () => {
    const stuck = () => new Promise(() => undefined);
    const { rpc, other, ends } = await pair({ handlers: { 1: stuck }, atOnceMax: 1 });
    const calls = [1, 2, 3].map(() => rpc.call(1, {}).catch((error: RpcError) => error.code));
    await pause(50);
    ends.a.close(1011, "");
    await other.over();
    expect(other.isOver).toBe(true);
    expect(await Promise.all(calls)).toEqual(Array(3).fill("transport_error"));
  });

  it("of this side end when the peer finishes the stream, and the peer's calls are still answered", async () => {
    let answer: (value: unknown) => void = () => undefined;
    const late = new Promise((resolve) => {
      answer = resolve;
    });
    const ends = await channels(0x104);
    const stream = await ends.client.open({ kind: "rpc", v: 1 });
    const other = Rpc.over((await ends.server.accept())!.stream, { handlers: { 1: () => late } });
    await stream.write(
      jsonFrame(encodeEnvelope({ kind: "request", id: 5, typeId: 1, payload: {}, timeoutMs: 9000 })),
    );
    const call = other.call(9, {}).catch((error: RpcError) => error.code);
    await pause(20);
    await stream.end();
    expect(await call).toBe("transport_error");
    await expect(other.call(9, {})).rejects.toMatchObject({ code: "transport_error" });
    answer("late");
    const said: (Envelope | undefined)[] = [];
    for (let json = await readFrame(stream, 9000); json !== undefined; json = await readFrame(stream, 9000))
      said.push(parseEnvelope(json));
    expect(said.at(-1)).toMatchObject({ kind: "answer", id: 5, payload: "late" });
    await ends.client.close();
  });

  it("are bounded: 1 MiB a frame, and a number of concurrent handlers", async () => {
    let [active, most] = [0, 0];
    const count = async () => {
      most = Math.max(most, ++active);
      await pause(5);
      active--;
      return null;
    };
    const { rpc, ends } = await pair({
      atOnceMax: 4,
      handlers: { 1: count, 2: () => "x".repeat(1 << 20), 3: (x) => x },
    });
    await Promise.all(Array.from({ length: 40 }, () => rpc.call(1, {})));
    expect(most).toBe(4);
    await expect(rpc.call(1, "x".repeat(1 << 20))).rejects.toMatchObject({ code: "rpc_too_large" });
    await expect(rpc.call(2, {})).rejects.toMatchObject({ code: "rpc_error", number: 413 });
    const long = "y".repeat(1_048_000);
    expect(await rpc.call(3, long)).toBe(long);
    await ends.client.close();
  });

  it("notifications arrive in order, and a listener that throws ends no call", async () => {
    const heard: unknown[] = [];
    const listen = (payload: unknown) => {
      heard.push(payload);
      if (payload === 1) throw new Error("no");
    };
    const { rpc, ends } = await pair({ listeners: { 7: listen }, handlers: { 1: () => "done" } });
    for (let i = 0; i < 4; i++) await rpc.notify(7, i);
    expect(await rpc.call(1, {})).toBe("done");
    expect(heard).toEqual([0, 1, 2, 3]);
    await ends.client.close();
  });
});

describe("a hostile peer's frames", () => {
  const frame = (json: string) => concat(uint(utf8(json).length, 4), utf8(json));

  it("that are malformed are ignored, up to sixteen in a row", async () => {
    const ends = await channels(0x104);
    const stream = await ends.client.open({ kind: "rpc", v: 1 });
    const rpc = Rpc.over((await ends.server.accept())!.stream, { handlers: { 1: () => "still here" } });
    for (let i = 0; i < 15; i++) await stream.write(frame("{"));
    await stream.write(frame('{"type_id":1,"request_id":7}'));
    const length = new DataView((await stream.readExactly(4))!.buffer).getUint32(0);
    const answer = parseEnvelope((await stream.readExactly(length))!);
    expect(answer).toMatchObject({ kind: "answer", id: 7, payload: "still here" });
    for (let i = 0; i < 16; i++) await stream.write(frame("[]")).catch(() => undefined);
    await rpc.over();
    expect(rpc.isOver).toBe(true);
    await ends.client.close();
  });

  it("over their bound end the stream before memory is allocated, and not the channel", async () => {
    const ends = await channels(0x104);
    const stream = await ends.client.open({ kind: "rpc", v: 1 });
    const rpc = Rpc.over((await ends.server.accept())!.stream);
    await stream.write(uint(0xffff_ffff, 4));
    await rpc.over();
    expect([rpc.isOver, ends.server.isOver]).toEqual([true, false]);
    await ends.client.close();
  });

  it.each([
    '{"request_id":1,"response_to":1}',
    '{"request_id":-1}',
    '{"request_id":1.5}',
    '{"request_id":9007199254740992}',
    '{"type_id":4294967296,"request_id":1}',
    '{"request_id":1,"timeout_ms":-1}',
    '{"response_to":1,"error":{"code":"x"}}',
    '{"response_to":1,"error":7}',
    '{"cancel":"x"}',
    "7",
    "null",
    "",
  ])("%s is rejected as an envelope", (json) => {
    expect(parseEnvelope(utf8(json))).toBeUndefined();
  });

  it("written frames equal the examples of the spec", () => {
    const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();
    expect(text(encodeEnvelope({ kind: "request", id: 8, typeId: 1, payload: null, timeoutMs: 250 }))).toBe(
      '{"type_id":1,"request_id":8,"response_to":0,"timeout_ms":250,"payload":null}',
    );
    const error = { code: 404, message: "handler not found" };
    expect(text(encodeEnvelope({ kind: "answer", id: 8, typeId: 9, payload: 1, error }))).toBe(
      '{"type_id":9,"request_id":0,"response_to":8,"error":{"code":404,"message":"handler not found"},"payload":null}',
    );
    expect(text(encodeEnvelope({ kind: "cancel", id: 8 }))).toBe(
      '{"type_id":0,"request_id":0,"response_to":0,"cancel":8,"payload":null}',
    );
  });
});
