import { describe, expect, it } from "vitest";
import { concat, uint } from "../../src/channel/encoding.js";
import { STREAMS_MAX, Streams, V1_STREAMS_MAX } from "../../src/channel/yamux.js";
import { channels } from "./pair.js";

const hello = { kind: "cat", v: 1 };

describe.each([
  ["native", 0x104],
  ["v1", 1],
])("streams of the %s profile", (profile, suite) => {
  it("carry bytes both ways, far beyond a window, and end each direction alone", async () => {
    const { client, server } = await channels(suite);
    const sent = crypto.getRandomValues(new Uint8Array(65_536));
    const times = 32;
    const stream = await client.open(hello);
    const echoed = (async () => {
      const incoming = (await server.accept())!;
      expect(incoming.hello).toEqual(hello);
      for (;;) {
        const chunk = await incoming.stream.read();
        if (chunk === undefined) break;
        await incoming.stream.write(chunk);
      }
      await incoming.stream.end();
    })();
    const writing = (async () => {
      for (let i = 0; i < times; i++) await stream.write(sent);
      await stream.end();
    })();
    for (let i = 0; i < times; i++) {
      expect(Buffer.from((await stream.readExactly(sent.length))!).equals(sent)).toBe(true);
    }
    expect(await stream.read()).toBeUndefined();
    await Promise.all([writing, echoed]);
    await client.close(7, "all said");
    const why = await server.over();
    expect(why.code).toBe("ended");
    if (profile === "native") expect(why.message).toContain("code 7");
    expect(why.message).toContain("all said");
  });

  it("wait for each other beyond their bound, and none is lost", async () => {
    const { client, server } = await channels(suite);
    const answering = (async () => {
      for await (const { stream } of server.incoming()) {
        void (async () => {
          const said = await stream.read();
          await stream.write(said!);
          await stream.end();
          while ((await stream.read()) !== undefined);
        })().catch(() => undefined);
      }
    })();
    const one = async (i: number) => {
      const stream = await client.open(hello);
      await stream.write(uint(i, 4));
      const got = await stream.readExactly(4);
      await stream.end();
      while ((await stream.read()) !== undefined);
      return got;
    };
    const all = await Promise.all(Array.from({ length: 300 }, (_, i) => one(i)));
    expect(all).toEqual(Array.from({ length: 300 }, (_, i) => uint(i, 4)));
    await client.close();
    await answering;
  });

  it("continue over a key rotation", async () => {
    const { client, server } = await channels(suite);
    const stream = await client.open(hello);
    const other = (await server.accept())!.stream;
    for (let i = 0; i < 5; i++) {
      await stream.write(uint(i, 1));
      expect(await other.read()).toEqual(uint(i, 1));
      client.rekey();
    }
    await client.close();
  });
});

it("a writer waits for a reader that does not read, and a reset ends both sides", async () => {
  const { client, server } = await channels();
  const stream = await client.open(hello);
  const other = (await server.accept())!.stream;
  let written = 0;
  const writing = (async () => {
    for (;;) {
      await stream.write(new Uint8Array(65_524));
      written++;
    }
  })();
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(written * 65_524).toBeLessThan(262_144);
  other.reset();
  await expect(writing).rejects.toMatchObject({ code: "broken_off", stage: "stream" });
  await expect(other.read()).rejects.toMatchObject({ code: "broken_off" });
  await client.close();
});

it("a pending read fails with the reason when the channel ends", async () => {
  const { client, server } = await channels();
  const stream = await client.open(hello);
  const reading = stream.read();
  const accepting = client.accept();
  await server.accept();
  await server.close(3, "going");
  await expect(reading).rejects.toMatchObject({ code: "ended" });
  expect(await accepting).toBeUndefined();
  await expect(client.open(hello)).rejects.toMatchObject({ code: "ended" });
});

it("pings measure the round trip, and a silent peer ends the channel", async () => {
  const { client, server } = await channels(0x100);
  client.ping();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(client.roundTripMs).toBeGreaterThan(0);
  await server.close();
  const silent = await channels(0x100, { pingEveryMs: 20, silentMaxMs: 60 });
  silent.b.onWay = () => [];
  expect((await silent.client.over()).code).toBe("peer_silent");
});

it("a stream of a lost channel fails in both directions with the reason", async () => {
  for (const suite of [0x104, 1]) {
    const { client, server, a } = await channels(suite);
    const stream = await client.open(hello);
    const other = (await server.accept())!.stream;
    await stream.write(Uint8Array.of(1, 2, 3));
    expect(await other.read()).toEqual(Uint8Array.of(1, 2, 3));
    a.close(1006, "");
    await Promise.all([client.over(), server.over()]);
    await expect(other.read()).rejects.toMatchObject({ code: (await server.over()).code });
    await expect(stream.write(Uint8Array.of(4))).rejects.toMatchObject({ code: (await client.over()).code });
    await expect(stream.end()).rejects.toMatchObject({ code: (await client.over()).code });
  }
});

it("a stream with a malformed prologue is not opened", async () => {
  const { client, server } = await channels();
  await expect(client.open({ kind: "no blanks", v: 1 })).rejects.toMatchObject({ code: "hello_invalid" });
  await expect(client.open({ kind: "rpc", v: 0 })).rejects.toMatchObject({ code: "hello_invalid" });
  await client.close();
  await server.over();
});

describe("a hostile peer's frames", () => {
  const sink = () => {
    const opened: unknown[] = [];
    const sent: Uint8Array[] = [];
    const carrier = {
      send: async (frame: Uint8Array) => void sent.push(frame),
      opened: (stream: unknown) => void opened.push(stream),
      goneAway: () => undefined,
      ponged: () => undefined,
      over: undefined,
    };
    return { streams: new Streams(carrier, false, true), opened, sent, carrier };
  };
  const frame = (type: number, flags: number, id: number, length: number, body = new Uint8Array(0)) =>
    concat(Uint8Array.of(0, type), uint(flags, 2), uint(id, 4), uint(length, 4), body);

  it.each([
    ["another version", concat(Uint8Array.of(1), new Uint8Array(11))],
    ["an unknown type", frame(9, 0, 1, 0)],
    ["no number", frame(0, 1, 0, 0)],
    ["a number of this side's", frame(0, 1, 2, 0)],
    ["a number twice", concat(frame(0, 1, 3, 0), frame(0, 1, 3, 0))],
    ["more than the window", concat(frame(0, 1, 1, 262_145), new Uint8Array(262_145))],
    ["a window over its bound", concat(frame(0, 1, 1, 0), frame(1, 0, 1, 0xffff_ffff))],
    ["data after its end", concat(frame(0, 5, 1, 0), frame(0, 0, 1, 1, new Uint8Array(1)))],
  ])("with %s end the channel", (_, bytes) => {
    expect(() => sink().streams.feed(bytes)).toThrowError(/streams_malformed/);
  });

  it("are read however they are split", () => {
    const { streams, opened, sent } = sink();
    for (const byte of concat(frame(0, 1, 1, 3, Uint8Array.of(1, 2, 3)), frame(2, 1, 0, 9))) {
      streams.feed(Uint8Array.of(byte));
    }
    expect(opened.length).toBe(1);
    expect(sent.map((bytes) => [bytes[1], bytes[3]])).toEqual([
      [0, 2],
      [2, 2],
    ]);
  });

  it("may open streams out of order, and use the number of a closed one again", () => {
    const { streams, opened, sent } = sink();
    for (const id of [5, 1, 3]) streams.feed(frame(0, 1, id, 0));
    expect(opened.length).toBe(3);
    streams.feed(frame(1, 8, 3, 0));
    streams.feed(frame(0, 1, 3, 0));
    expect(opened.length).toBe(4);
    expect(sent.every((bytes) => bytes[3] === 2)).toBe(true);
  });

  it("open no more streams than the bound", () => {
    const { streams, opened, sent } = sink();
    for (let i = 0; i < STREAMS_MAX + 3; i++) streams.feed(frame(0, 1, 2 * i + 1, 0));
    expect(opened.length).toBe(STREAMS_MAX);
    expect(sent.slice(-3).every((bytes) => bytes[3] === 8)).toBe(true);
  });

  it("of v1 may open 256 streams, and no window grows", async () => {
    const { opened, carrier, sent } = sink();
    const streams = new Streams(carrier, false, false);
    for (let i = 0; i < V1_STREAMS_MAX + 3; i++) streams.feed(frame(0, 1, 2 * i + 1, 0));
    expect([opened.length, V1_STREAMS_MAX]).toEqual([256, 256]);
    expect(sent.slice(-3).every((bytes) => bytes[3] === 8)).toBe(true);
    sent.length = 0;
    streams.feed(frame(0, 0, 1, 262_144, new Uint8Array(262_144)));
    const stream = opened[0] as { read(): Promise<Uint8Array>; window: number };
    expect((await stream.read()).length).toBe(262_144);
    expect(stream.window).toBe(262_144);
    expect(sent).toEqual([frame(1, 0, 1, 262_144)]);
  });

  it("that are sent without reading the answers end the channel", () => {
    const carrier = {
      send: () => new Promise<void>(() => undefined),
      ...{ opened: () => undefined, goneAway: () => undefined, ponged: () => undefined, over: undefined },
    };
    const streams = new Streams(carrier, false, true);
    expect(() => {
      for (let i = 0; i < 10_000; i++) streams.feed(frame(2, 1, 0, i));
    }).toThrowError(/streams_malformed/);
  });
});
